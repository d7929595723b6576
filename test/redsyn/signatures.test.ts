import assert from 'node:assert/strict';
import { createPublicKey, verify } from 'node:crypto';
import { after, describe, it } from 'node:test';
import canonicalize from 'canonicalize';
import { type NodeKeys, nodeKeys } from '../../src/client/index.ts';
import { signEnvelope } from '../../src/identity/redsyn-seal.ts';
import { ManualClock } from '../../src/lib/clock.ts';
import { Refusal } from '../../src/lib/refusal.ts';
import { testGateway } from '../support/gateway.ts';

const clock = new ManualClock(Date.now());
const acme = await testGateway({ after }, { clock });
const asker = 'acme/general/joel/asker';
const desk = 'acme/general/joel/desk';
for (const agent of [asker, desk]) await acme.admin.announce(agent);

let count = 0;
async function node(name = `node ${++count}`): Promise<{ token: string; keys: NodeKeys; name: string }> {
  const { json } = await acme.call('POST', '/redsyn/v1/nodes', { body: { name } });
  return { token: json.token, keys: nodeKeys(), name };
}
const register = ({ token, keys }: { token: string; keys: NodeKeys }, more: object = {}) =>
  acme.call('PUT', '/redsyn/v1/nodes/key', {
    token,
    body: { public_key: keys.registration().public_key, ...more },
  });
const unsigned = (more: Record<string, unknown> = {}) => ({
  v: 1,
  id: `m${++count}`,
  kind: 'request',
  from: asker,
  to: desk,
  ts: Math.floor(clock.now() / 1000),
  body: { type: 'text/plain', text: 'x' } as { type: string; [more: string]: unknown },
  ...more,
});
function signed(keys: NodeKeys, more: Record<string, unknown> = {}) {
  const envelope = unsigned(more);
  const sig = signEnvelope(envelope, keys.signing);
  assert.ok(!(sig instanceof Refusal));
  return { ...envelope, sig };
}
const send = (token: string, body: unknown) => acme.call('POST', '/redsyn/v1/messages', { token, body });
const take = async (id: string) => {
  const { items } = (await acme.call('GET', `/redsyn/v1/inbox/${desk}?max=100`)).json;
  await acme.call('POST', `/redsyn/v1/inbox/${desk}/ack`, {
    body: { ids: items.map((item: { id: string }) => item.id) },
  });
  return items.find((item: { id: string }) => item.id === id);
};

describe('signatures (REDSYN "Firmas")', () => {
  it('is taken from the key that the node registered, and delivered so that anybody can check it', async () => {
    const laptop = await node('the laptop');
    assert.equal((await register(laptop)).status, 200);
    // Absent texts are signed as "".
    const envelope = signed(laptop.keys, {
      refs: [{ b: 2, a: 'ñ', '\u20ac': 1, '\u{1f600}': 2 }],
      body: { type: 'application/json', data: { z: 1.0, e: 1e21, small: 1e-7, zero: -0 } },
    });
    const sent = await send(laptop.token, envelope);
    assert.equal(sent.status, 201, sent.text);
    assert.equal(sent.json.signed, true);
    const item = await take(envelope.id);
    assert.equal(item.signed, true);
    const { payload, node: by, fingerprint, key, value, alg } = item.sig;
    assert.deepEqual([alg, key, value], ['ed25519', envelope.sig.key, envelope.sig.value]);
    assert.match(fingerprint, /^[0-9a-f]{4}(-[0-9a-f]{4}){7}$/);
    assert.ok(by);
    // With nothing of ours: node:crypto and another RFC 8785.
    const jwk = { kty: 'OKP', crv: 'Ed25519', x: key };
    assert.ok(
      verify(null, Buffer.from(payload), createPublicKey({ key: jwk, format: 'jwk' }), Buffer.from(value, 'base64url')),
    );
    const said = JSON.parse(payload);
    assert.equal(canonicalize(said), payload);
    assert.deepEqual(said, {
      v: 1,
      id: item.id,
      kind: 'request',
      from: asker,
      to: desk,
      thread: '',
      reply_to: '',
      ts: envelope.ts,
      body: item.body,
      refs: item.refs,
      files_sha256: '',
      error: false,
    });
  });

  it('covers exactly what arrived: any field that differs is 401, and nothing is kept', async () => {
    const laptop = await node();
    await register(laptop);
    const envelope = signed(laptop.keys, { thread: 't', refs: [{ url: 'https://a.test' }] });
    for (const change of [
      { id: 'another' },
      { to: asker },
      { to: `${desk}#new` },
      { from: desk },
      { thread: 'u' },
      { thread: undefined },
      { reply_to: 'r' },
      { ts: envelope.ts + 1 },
      { body: { type: 'text/plain', text: 'y' } },
      { body: { type: 'text/plain', text: 'x', more: 1 } },
      { refs: [] },
      { refs: [{ url: 'https://b.test' }] },
      { error: true },
      { kind: 'event', to: 'topic:acme/general/news' },
      { sig: { ...envelope.sig, value: flipped(envelope.sig.value) } },
      { sig: { ...envelope.sig, alg: 'none' } },
      { sig: { ...envelope.sig, key: `${envelope.sig.key}=` } },
      { sig: { ...envelope.sig, value: envelope.sig.value.slice(1) } },
      { sig: { ...envelope.sig, value: '' } },
    ]) {
      const answer = await send(laptop.token, { ...envelope, ...change });
      assert.deepEqual([answer.status, answer.json.code], [401, 'envelope_signature_invalid'], JSON.stringify(change));
    }
    // Members in another order, and numbers written another way, are the same message.
    const { body, ...rest } = envelope;
    const again = await acme.call('POST', '/redsyn/v1/messages', {
      token: laptop.token,
      body: `{"error":false,"body":{"text":"\\u0078","type":"text/plain"},${JSON.stringify(rest).slice(1)}`.replace(
        `"ts":${envelope.ts}`,
        `"ts":${envelope.ts}.0`,
      ),
    });
    assert.equal(again.status, 201, again.text);
    assert.equal((await take(envelope.id)).body.text, body.text);
  });

  it('only from the key of that very node: not another node’s, nor an unregistered one', async () => {
    const [one, two, bare] = [await node(), await node(), await node()];
    await register(one);
    await register(two);
    assert.equal((await send(two.token, signed(one.keys))).status, 401, 'another node of the same person');
    const none = await send(bare.token, signed(bare.keys));
    assert.equal(none.status, 401);
    assert.match(none.json.error, /PUT \/nodes\/key/);
    assert.equal((await send(one.token, { ...signed(one.keys), sig: null })).json.signed, false, 'unsigned is no lie');
    const revoked = await node();
    await register(revoked);
    const id = (await acme.call('GET', '/redsyn/v1/nodes')).json.nodes.find(
      (each: { name: string }) => each.name === revoked.name,
    ).id;
    await acme.call('DELETE', `/redsyn/v1/nodes/${id}`);
    assert.equal((await send(revoked.token, signed(revoked.keys))).status, 401);
  });

  it('within ten minutes of the clock here, both ways', async () => {
    const laptop = await node();
    await register(laptop);
    const now = Math.floor(clock.now() / 1000);
    for (const [ts, status] of [
      [now - 598, 201],
      [now + 598, 201],
      [now - 602, 401],
      [now + 602, 401],
      [0, 401],
    ] as const)
      assert.equal((await send(laptop.token, signed(laptop.keys, { ts }))).status, status, String(ts - now));
    const late = signed(laptop.keys);
    clock.advance(601_000);
    assert.equal((await send(laptop.token, late)).status, 401);
  });

  it('replacing a key takes `rotate`; then the old one counts no more', async () => {
    const laptop = await node();
    assert.equal((await register(laptop)).status, 200);
    assert.equal((await register(laptop)).status, 200, 'the same key again is no change');
    const next = { ...laptop, keys: nodeKeys() };
    const refused = await register(next);
    assert.equal(refused.status, 409);
    assert.match(refused.json.error, /rotate/);
    assert.equal((await register(next, { rotate: false })).status, 409);
    assert.equal((await send(laptop.token, signed(laptop.keys))).status, 201);
    assert.equal((await register(next, { rotate: true })).status, 200);
    assert.equal((await send(laptop.token, signed(laptop.keys))).status, 401);
    assert.equal((await send(laptop.token, signed(next.keys))).status, 201);
  });

  it('a key is 32 bytes, base64url, and no weak one (DID-07)', async () => {
    const laptop = await node();
    const identity = Buffer.alloc(32);
    identity[0] = 1;
    for (const public_key of [
      '',
      'short',
      `${laptop.keys.registration().public_key}=`,
      Buffer.alloc(31, 7).toString('base64url'),
      Buffer.alloc(33, 7).toString('base64url'),
      identity.toString('base64url'),
      Buffer.alloc(32).toString('base64url'),
      7,
      null,
    ]) {
      const answer = await acme.call('PUT', '/redsyn/v1/nodes/key', { token: laptop.token, body: { public_key } });
      assert.deepEqual([answer.status, answer.json.field], [422, 'public_key'], String(public_key));
    }
  });

  it('an agent that takes signed requests alone refuses the others', async () => {
    const strict = 'acme/general/joel/strict';
    await acme.admin.announce(strict, { signed_only: true });
    const laptop = await node();
    await register(laptop);
    const plain = await send(laptop.token, unsigned({ to: strict }));
    assert.deepEqual([plain.status, plain.json.signed_only], [403, true]);
    assert.equal((await send(laptop.token, signed(laptop.keys, { to: strict }))).status, 201);
  });
});

function flipped(value: string): string {
  const bytes = Buffer.from(value, 'base64url');
  bytes[5]! ^= 1;
  return bytes.toString('base64url');
}
