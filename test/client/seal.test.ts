import assert from 'node:assert/strict';
import { it } from 'node:test';
import { Client, GatehouseError, KeyChangedError, nodeKeys, rotatedKeys, SealError } from '../../src/client/index.ts';
import { eventually } from '../support/gateway.ts';
import { linkedPair } from '../support/pair.ts';
import { cli, during, node, shout, twoPeople } from './support.ts';

it('a request is sealed when the agent has a key, opened before the handler, and answered sealed', async (t) => {
  const { gateway, joel, ana } = await twoPeople(t);
  during(t, (signal) =>
    ana.listen(
      shout,
      async ({ text, envelope, sealed, verified, signer, progress }) => {
        await progress('thinking');
        return `${text.toUpperCase()} ${JSON.stringify(envelope.refs)} ${sealed} ${verified} ${signer?.person}`;
      },
      { signal },
    ),
  );
  const told: string[] = [];
  const reply = await joel.sendAndWait(
    { from: cli, to: shout, text: 'hello', refs: [{ url: 'https://a.test' }] },
    { onProgress: ({ text, sealed }) => told.push(`${text} ${sealed}`) },
  );
  assert.equal(reply.text, 'HELLO [{"url":"https://a.test"}] true true acme/joel');
  assert.deepEqual([reply.sealed, reply.verified, reply.signer?.person], [true, true, 'acme/ana']);
  assert.deepEqual(told, ['thinking true']);

  const stored = await gateway.database.db.query<{ envelope: string }>('select envelope from messages');
  assert.equal(stored.rowCount, 3);
  for (const { envelope } of stored.rows) assert.doesNotMatch(envelope, /hello|HELLO|thinking|a\.test/);
});

it('`plain` leaves it readable, `sealed` insists, and a client with `seal: false` does not', async (t) => {
  const { gateway, joel, ana } = await twoPeople(t);
  assert.equal((await joel.send({ from: cli, to: shout, text: 'a', plain: true })).sealed, false);
  assert.equal((await joel.send({ from: cli, to: shout, text: 'b' })).sealed, true);
  await joel.announce('acme/general/joel/quiet', { listening: false });
  await assert.rejects(ana.send({ from: shout, to: 'acme/general/joel/quiet', text: 'c', sealed: true }), SealError);
  const open = await node(gateway, gateway.token, { seal: false });
  assert.equal((await open.send({ from: cli, to: shout, text: 'd' })).sealed, false);
  assert.equal((await open.send({ from: cli, to: shout, text: 'e', sealed: true })).sealed, true);
  const items = await ana.take(shout, { max: 100 });
  const texts = await Promise.all(items.map(async (item) => (await ana.receive(item)).text));
  assert.deepEqual(texts, ['a', 'b', 'd', 'e']);
});

it('a changed key stops the send until it is accepted, and says how', async (t) => {
  const { gateway, joel, ana, anaToken } = await twoPeople(t);
  await joel.send({ from: cli, to: shout, text: 'pins it' });
  const other = await node(gateway, anaToken);
  await other.announce(shout);
  const fault = await joel.send({ from: cli, to: shout, text: 'to whom?' }).catch((error: unknown) => error);
  assert.ok(fault instanceof KeyChangedError);
  assert.match(fault.message, /gatehouse keys accept acme\/ana/);
  assert.equal(fault.fingerprint, other.keys?.fingerprint);
  assert.equal((await joel.send({ from: cli, to: shout, text: 'readable anyway', plain: true })).sealed, false);

  assert.ok(await joel.pins.accept('acme/ana'));
  assert.equal((await joel.send({ from: cli, to: shout, text: 'now' })).sealed, true);
  // Both machines of hers are known from then on.
  await ana.announce(shout);
  assert.equal((await joel.send({ from: cli, to: shout, text: 'and back' })).sealed, true);
});

it('a key whose proof does not hold is not used', async (t) => {
  const { gateway, joel } = await twoPeople(t);
  const { encryption } = nodeKeys();
  const lying: typeof fetch = async (url, init) => {
    const response = await fetch(url, init);
    if (!String(url).endsWith('/key') || !response.ok) return response;
    return Response.json({ ...((await response.json()) as object), enc_key: encryption.publicKey });
  };
  const deceived = await node(gateway, gateway.token, { fetch: lying });
  await assert.rejects(deceived.send({ from: cli, to: shout, text: 'secret' }), /did not sign/);
  assert.deepEqual(await deceived.pins.list(), []);
  assert.ok(joel);
});

it('what was sealed before a rotation still opens; what was sealed for other keys is answered with an error', async (t) => {
  const { gateway, joel, ana, anaToken } = await twoPeople(t);
  await joel.send({ from: cli, to: shout, text: 'before' });
  const keys = rotatedKeys(ana.keys!);
  const nodes = (await ana.call<{ nodes: Array<{ current: boolean }> }>('GET', '/nodes')).nodes;
  assert.ok(nodes.some(({ current }) => current));
  const [item] = await ana.take(shout);
  const rotated = new Client({ url: gateway.url, token: anaToken, keys });
  assert.equal((await rotated.receive(item!)).text, 'before');
  const stranger = new Client({ url: gateway.url, token: anaToken, keys: nodeKeys() });
  const closed = await stranger.receive(item!);
  assert.equal(closed.text, '');
  assert.match(closed.trouble ?? '', /does not open/);
  assert.equal(closed.verified, true);
});

it('a forged or changed message is handed over as not verified; verifiedOnly answers it with an error', async (t) => {
  const { gateway, joel, ana } = await twoPeople(t);
  await joel.send({ from: cli, to: shout, text: 'pinned', plain: true });
  const [item] = await ana.take(shout);
  assert.equal((await ana.receive(item!)).verified, true);
  const changed = await ana.receive({ ...item!, body: { type: 'text/plain', text: 'other' } });
  assert.deepEqual([changed.verified, changed.signer], [false, undefined]);
  assert.match(changed.trouble ?? '', /does not say what was signed/);
  await ana.ack(shout, [item!.id]);

  // joel's second machine: a key that ana did not accept.
  const second = await node(gateway, gateway.token, { seal: false });
  const handled: string[] = [];
  during(t, (signal) =>
    ana.listen(shout, ({ text }) => void handled.push(text), { signal, verifiedOnly: true, concurrency: 4 }),
  );
  const unknown = await second.sendAndWait({ from: cli, to: shout, text: 'rm -rf' }, { timeout: 20 });
  assert.equal(unknown.envelope.error, true);
  assert.match(
    unknown.text,
    /only requests that are signed with a key that its owner accepted.*keys accept acme\/joel/s,
  );
  const unsigned = new Client({ url: gateway.url, token: gateway.token });
  const refused = await unsigned.sendAndWait({ from: cli, to: shout, text: 'rm -rf' }, { timeout: 20 });
  assert.match(refused.text, /not signed/);
  assert.deepEqual(handled, []);
  assert.ok(await ana.pins.accept('acme/joel', { fingerprint: second.keys!.fingerprint.slice(0, 9) }));
  await second.send({ from: cli, to: shout, text: 'welcome' });
  await joel.send({ from: cli, to: shout, text: 'as before' });
  await eventually('both are handled', async () => handled.length === 2);
  assert.deepEqual(handled.sort(), ['as before', 'welcome']);
});

it('sealed and signed across two gateways; an answer by somebody else is not verified', async (t) => {
  const { acme, globex } = await linkedPair(t);
  const joel = await node(acme, acme.token);
  const bob = await node(globex, globex.token);
  await bob.announce('globex/erp/bob/billing', { allow: ['org:acme'], signed_only: true });
  during(t, (signal) => bob.listen('globex/erp/bob/billing', ({ text }) => `you asked: ${text}`, { signal }));
  const asked = { from: 'acme/dev/joel/reviewer', to: 'globex/erp/bob/billing' };
  const reply = await joel.sendAndWait({ ...asked, text: 'paid?' });
  assert.deepEqual([reply.text, reply.sealed, reply.verified], ['you asked: paid?', true, true]);
  for (const { database } of [acme, globex]) {
    const { rows } = await database.db.query<{ envelope: string }>('select envelope from messages');
    assert.ok(rows.length >= 2);
    for (const { envelope } of rows) assert.doesNotMatch(envelope, /paid\?/);
  }
  const other = await joel.waitFor(reply.envelope.reply_to!, {
    ...asked,
    to: 'globex/erp/eve/billing',
    thread: reply.envelope.thread,
  });
  assert.equal(other.verified, false);
  assert.match(other.trouble ?? '', /globex\/eve was asked/);
});

it('a refusal is an error with its code, and is not repeated', async (t) => {
  const { joel } = await twoPeople(t);
  const fault = await joel
    .send({ from: cli, to: 'acme/general/ana/nobody', text: '?' })
    .catch((error: unknown) => error);
  assert.ok(fault instanceof GatehouseError);
  assert.deepEqual([fault.status, fault.code, fault.retryable], [404, 'address_not_found', false]);
});
