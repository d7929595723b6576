import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { signedEnvelope } from '../../src/client/envelope.ts';
import { type NodeKeys, nodeKeys } from '../../src/client/index.ts';
import { openLetter, readEncryptionKey, sealLetter } from '../../src/identity/redsyn-cipher.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { newId } from '../../src/lib/ids.ts';
import { Refusal } from '../../src/lib/refusal.ts';
import { type Called, eventually, person, type TestGateway, testGateway } from '../support/gateway.ts';
import { billing, linkedPair, reviewer } from '../support/pair.ts';

/** A machine of somebody's: its token and its keys. */
interface Machine {
  at: TestGateway;
  id: string;
  token: string;
  keys: NodeKeys;
}

async function machine(at: TestGateway, token: string, name: string): Promise<Machine> {
  const made = await at.call('POST', '/redsyn/v1/nodes', { token, body: { name } });
  const keys = nodeKeys();
  await at.call('PUT', '/redsyn/v1/nodes/key', { token: made.json.token, body: keys.registration() });
  return { at, id: made.json.id, token: made.json.token, keys };
}

const keyOf = (asker: Machine, agent: string): Promise<Called> =>
  asker.at.call('GET', `/redsyn/v1/agents/${agent}/key`, { token: asker.token });

async function take({ at, token }: Machine, agent: string, query = ''): Promise<Array<Record<string, unknown>>> {
  const { json } = await at.call('GET', `/redsyn/v1/inbox/${agent}?lease=60${query}`, { token });
  return json.items;
}

function sealed(by: Machine, draft: Record<string, unknown>, encKey: string, text: string): Record<string, unknown> {
  const id = newId(systemClock);
  const letter = { body: { type: 'text/plain', text }, refs: [], reply_key: by.keys.encryption.publicKey };
  const parts = sealLetter({ id, kind: String(draft.kind) }, letter, encKey);
  assert.ok(!(parts instanceof Refusal));
  return signedEnvelope({ v: 1, id, ...draft, ...parts }, by.keys, Date.now());
}

async function post({ at, token }: Machine, body: Record<string, unknown>): Promise<Called> {
  return at.call('POST', '/redsyn/v1/messages', { token, body });
}

function opened(by: Machine, envelope: Record<string, unknown>): { text: string; replyKey: string } {
  const labels = { id: String(envelope.id), kind: String(envelope.kind) };
  const letter = openLetter(labels, envelope.body, by.keys.encryption);
  assert.ok(!(letter instanceof Refusal), 'it opens');
  return { text: (letter.body as { text: string }).text, replyKey: letter.reply_key };
}

describe('end to end, within one gateway', async () => {
  const gateway = await testGateway({ after });
  const ana = await person(gateway, 'ana');
  const close = 'acme/general/ana/close';
  const asks = 'acme/general/joel/asks';
  await gateway.admin.announce(asks);
  await ana.announce(close, { allow: ['org'] });
  const [laptop, server] = [await machine(gateway, ana.token, 'laptop'), await machine(gateway, ana.token, 'server')];
  const [desk, phone] = [await machine(gateway, gateway.token, 'desk'), await machine(gateway, gateway.token, 'phone')];
  const request = (encKey: string, text = 'psst') =>
    sealed(desk, { kind: 'request', from: asks, to: close }, encKey, text);

  it('`GET …/key` answers the keys of the node that listened last, and their proof holds', async () => {
    for (const listener of [laptop, server, laptop]) {
      await take(listener, close);
      const { json, status } = await keyOf(desk, close);
      const { public_key, enc_key, enc_sig } = listener.keys.registration();
      assert.equal(status, 200);
      assert.deepEqual(json, {
        node: listener === laptop ? 'laptop' : 'server',
        signing_key: public_key,
        enc_key,
        enc_sig,
        fingerprint: listener.keys.fingerprint,
      });
      assert.ok(!(readEncryptionKey(json.enc_key, json.enc_sig, listener.keys.signing.publicKey) instanceof Refusal));
    }
  });

  it('404 when the agent has no key', async () => {
    const bare = await gateway.call('POST', '/redsyn/v1/nodes', { token: ana.token, body: { name: 'bare' } });
    await gateway.call('PUT', '/redsyn/v1/agents/acme/general/ana/plain', {
      token: bare.json.token,
      body: { listening: true },
    });
    assert.equal((await keyOf(desk, 'acme/general/ana/plain')).status, 404);
    assert.equal((await keyOf(desk, 'acme/general/ana/nobody')).status, 404);
  });

  it('a sealed request is for the node that it was sealed for: the other machine does not take it', async () => {
    await take(laptop, close);
    const { json } = await keyOf(desk, close);
    const sent = await post(desk, request(json.enc_key));
    assert.equal(sent.status, 201);
    assert.deepEqual(await take(server, close), []);
    const peeked = await gateway.call('GET', `/redsyn/v1/inbox/${close}?peek=1`, { token: server.token });
    assert.deepEqual(peeked.json.items, []);
    const [item] = await take(laptop, close);
    assert.equal(opened(laptop, item!).text, 'psst');
    await gateway.call('POST', `/redsyn/v1/inbox/${close}/ack`, { token: laptop.token, body: { ids: [sent.json.id] } });
  });

  it('also when the other machine has listened since its sender was told the key', async () => {
    await take(laptop, close);
    const { json } = await keyOf(desk, close);
    await take(server, close);
    const sent = await post(desk, request(json.enc_key));
    assert.deepEqual(await take(server, close), []);
    const [item] = await take(laptop, close);
    assert.equal(item?.id, sent.json.id);
    await gateway.call('POST', `/redsyn/v1/inbox/${close}/ack`, { token: laptop.token, body: { ids: [sent.json.id] } });
  });

  it('what is not sealed is for whichever comes', async () => {
    await post(desk, {
      v: 1,
      id: newId(systemClock),
      kind: 'request',
      from: asks,
      to: close,
      body: { type: 'text/plain', text: 'hello' },
    });
    const [item] = await take(server, close);
    await gateway.call('POST', `/redsyn/v1/inbox/${close}/ack`, { token: server.token, body: { ids: [item!.id] } });
  });

  it('progress and reply go back sealed to the machine that asked, and no other takes them', async () => {
    await take(laptop, close);
    const { json } = await keyOf(desk, close);
    const sent = await post(desk, request(json.enc_key));
    const [item] = await take(laptop, close);
    const { replyKey } = opened(laptop, item!);
    assert.equal(replyKey, desk.keys.encryption.publicKey);
    for (const kind of ['progress', 'reply']) {
      const answer = sealed(laptop, { kind, from: close, reply_to: sent.json.id }, replyKey, `the ${kind}`);
      assert.equal((await post(laptop, answer)).status, 201);
    }
    assert.deepEqual(await take(phone, asks), []);
    assert.deepEqual(await take(phone, asks, `&reply_to=${sent.json.id}`), []);
    const got = await take(desk, asks);
    assert.deepEqual(
      got.map((one) => opened(desk, one).text),
      ['the progress', 'the reply'],
    );
    await gateway.call('POST', `/redsyn/v1/inbox/${asks}/ack`, {
      token: desk.token,
      body: { ids: got.map(({ id }) => id) },
    });
  });

  it('an answer in the clear is for whichever machine of the asker comes', async () => {
    await take(laptop, close);
    const { json } = await keyOf(desk, close);
    const sent = await post(desk, request(json.enc_key));
    await take(laptop, close);
    await post(laptop, {
      v: 1,
      id: newId(systemClock),
      kind: 'reply',
      from: close,
      reply_to: sent.json.id,
      body: { type: 'text/plain', text: 'x' },
    });
    assert.equal((await take(phone, asks)).length, 1);
  });

  it('the relay keeps and passes on the body as it came; session pages show that it is encrypted, not what it says', async () => {
    await take(laptop, close);
    const { json } = await keyOf(desk, close);
    const envelope = request(json.enc_key, 'the secret');
    const sent = await post(desk, envelope);
    const [item] = await take(laptop, close);
    assert.deepEqual(item?.body, envelope.body);
    assert.equal(item?.signed, true);
    const sid = sent.json.to.split('#')[1];
    for (const token of [laptop.token, desk.token]) {
      const page = await gateway.call('GET', `/redsyn/v1/agents/${close}/sessions/${sid}`, { token });
      const [shown] = page.json.messages;
      assert.deepEqual([shown.encrypted, shown.body], [true, { type: 'application/redsyn+encrypted' }]);
      assert.ok(!page.text.includes((envelope.body as { enc: { ct: string } }).enc.ct));
    }
    await gateway.call('POST', `/redsyn/v1/inbox/${close}/ack`, { token: laptop.token, body: { ids: [sent.json.id] } });
  });

  it('an `encrypted_only` agent takes only sealed requests', async () => {
    const vault = 'acme/general/ana/vault';
    await gateway.call('PUT', `/redsyn/v1/agents/${vault}`, {
      token: laptop.token,
      body: { listening: true, allow: ['org'], encrypted_only: true },
    });
    const plain = {
      v: 1,
      id: newId(systemClock),
      kind: 'request',
      from: asks,
      to: vault,
      body: { type: 'text/plain', text: 'x' },
    };
    const refused = await post(desk, plain);
    assert.deepEqual([refused.status, refused.json.encrypted_only], [403, true]);
    assert.match(refused.json.error, /takes only end-to-end encrypted requests/);
    const { json } = await keyOf(desk, vault);
    const sent = await post(desk, sealed(desk, { kind: 'request', from: asks, to: vault }, json.enc_key, 'x'));
    assert.equal(sent.status, 201);
    assert.deepEqual(await take(server, vault), []);
    assert.equal((await take(laptop, vault)).length, 1);
    const seen = await gateway.call('GET', `/redsyn/v1/agents/${vault}`);
    assert.equal(seen.json.encrypted_only, true);
  });

  it('when that node is revoked, the sender of a sealed request is told, and a sealed answer is for whichever machine comes', async () => {
    const old = await machine(gateway, ana.token, 'old');
    const oldDesk = await machine(gateway, gateway.token, 'old desk');
    await take(old, close);
    const { json } = await keyOf(desk, close);
    const sent = await post(desk, request(json.enc_key));
    const asked = await post(
      oldDesk,
      sealed(oldDesk, { kind: 'request', from: asks, to: close }, (await keyOf(oldDesk, close)).json.enc_key, 'x'),
    );
    const items = await take(old, close);
    const reply = items.find(({ id }) => id === asked.json.id)!;
    await post(
      old,
      sealed(old, { kind: 'reply', from: close, reply_to: asked.json.id }, opened(old, reply).replyKey, 'sealed'),
    );
    assert.deepEqual(await take(phone, asks), []);
    // The lease of the other one is given up, as if `old` were gone before it answered.
    await gateway.database.db.query('update deliveries set lease_until = 0 where message_id = $1', [sent.json.id]);

    assert.equal((await gateway.call('DELETE', `/redsyn/v1/nodes/${old.id}`, { token: ana.token })).status < 300, true);
    assert.equal((await gateway.call('DELETE', `/redsyn/v1/nodes/${oldDesk.id}`)).status < 300, true);
    const got = await eventually('both are there', async () => {
      const { json: page } = await gateway.call('GET', `/redsyn/v1/inbox/${asks}?peek=1`, { token: phone.token });
      return page.items.length === 2 && (await take(phone, asks));
    });
    const notice = got.find((one) => one.reply_to === sent.json.id) as unknown as {
      error: boolean;
      body: { text: string };
    };
    assert.equal(notice.error, true);
    assert.equal(notice.body.text, `not delivered: the node that it was sealed for no longer listens as ${close}`);
    const answer = got.find((one) => one.reply_to === asked.json.id) as unknown as {
      body: { type: string };
    };
    assert.equal(answer.body.type, 'application/redsyn+encrypted');
  });
});

describe('end to end, across two gateways', async () => {
  const { acme, globex } = await linkedPair({ after });
  const [laptop, server] = [
    await machine(globex, globex.token, 'laptop'),
    await machine(globex, globex.token, 'server'),
  ];
  const [desk, phone] = [await machine(acme, acme.token, 'desk'), await machine(acme, acme.token, 'phone')];

  it('a request is for the node that it was sealed for, its answer for the one that asked', async () => {
    await take(laptop, billing);
    const { json, status } = await keyOf(desk, billing);
    assert.equal(status, 200);
    assert.equal(json.enc_key, laptop.keys.encryption.publicKey);
    await take(server, billing);
    const envelope = sealed(desk, { kind: 'request', from: reviewer, to: billing }, json.enc_key, 'psst');
    const sent = await post(desk, envelope);
    assert.equal(sent.status, 201);
    assert.deepEqual(await take(server, billing), []);
    const [item] = await take(laptop, billing, '&wait=5');
    assert.deepEqual(item?.body, envelope.body);
    const { text, replyKey } = opened(laptop, item!);
    assert.equal(text, 'psst');

    await post(laptop, sealed(laptop, { kind: 'progress', from: billing, reply_to: sent.json.id }, replyKey, 'on it'));
    await post(laptop, sealed(laptop, { kind: 'reply', from: billing, reply_to: sent.json.id }, replyKey, 'done'));
    await eventually('the reply is at acme', async () => {
      const { rows } = await acme.database.db.query('select 1 from deliveries');
      return rows.length === 2;
    });
    assert.deepEqual(await take(phone, reviewer), []);
    assert.deepEqual(
      (await take(desk, reviewer)).map((one) => opened(desk, one).text),
      ['on it', 'done'],
    );
  });

  it('an `encrypted_only` agent there takes only sealed requests from here', async () => {
    await globex.call('PUT', `/redsyn/v1/agents/${billing}`, {
      token: laptop.token,
      body: { listening: true, allow: ['org:acme'], encrypted_only: true },
    });
    const plain = {
      v: 1,
      id: newId(systemClock),
      kind: 'request',
      from: reviewer,
      to: billing,
      body: { type: 'text/plain', text: 'x' },
    };
    const refused = await post(desk, signedEnvelope(plain, desk.keys, Date.now()));
    assert.deepEqual([refused.status, refused.json.encrypted_only], [403, true]);
    const { json } = await keyOf(desk, billing);
    const sent = await post(desk, sealed(desk, { kind: 'request', from: reviewer, to: billing }, json.enc_key, 'x'));
    assert.equal(sent.status, 201);
  });
});
