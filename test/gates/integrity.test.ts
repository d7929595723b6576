import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { Refusal } from '../../src/lib/refusal.ts';
import { bearer, call, envelope, fromBob, message, request, said, seal, seed, signed, World } from './world.ts';

let world: World;
beforeEach(() => {
  world = new World();
});

test('SIG-05: a body that was changed, emptied or added is a digest mismatch', async () => {
  const good = await signed(world, { body: '{"a":1}' });
  for (const body of ['{"a":2}', '{"a":1}\n']) {
    const outcome = await world.gates.admit(message({ ...good, body: Buffer.from(body) }, fromBob()));
    assert.equal(said(outcome), 'integrity digest_mismatch 401', body);
  }
  const empty = await world.gates.admit(message({ ...good, body: Buffer.alloc(0) }, fromBob()));
  assert.equal(said(empty), 'integrity digest_mismatch 401');
  // Signed without a body, but a digest of one rides along uncovered.
  const get = await signed(world, {
    method: 'GET',
    headers: { 'Content-Digest': 'sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:' },
  });
  assert.equal(said(await world.gates.identify(call(get))), 'passed');
  const other = await signed(world, {
    method: 'GET',
    headers: { 'Content-Digest': 'sha-256=:RBNvo1WzZ4oRRq0W9+hknpT7T8If536DEMBg9hyq/4o=:' },
  });
  assert.equal(said(await world.gates.identify(call(other))), 'integrity digest_mismatch 401');
});

test('a read is recorded at once and the same bytes are a replay; a message brings its proof along', async () => {
  const get = await signed(world, { method: 'GET' });
  assert.equal(said(await world.gates.identify(call(get))), 'passed');
  assert.equal(said(await world.gates.identify(call(get))), 'integrity signature_replayed 401');
  assert.equal(said(await world.gates.identify(call(await signed(world), 'instance'))), 'passed');
  world.writes.length = 0;

  const post = await signed(world);
  const [first, second] = [
    await world.gates.admit(message(post, fromBob())),
    await world.gates.admit(message(post, fromBob())),
  ];
  assert.ok(!(first instanceof Refusal) && !(second instanceof Refusal));
  assert.deepEqual(first.proof?.key, second.proof?.key, 'the transaction sees that it is one proof');
  assert.equal(first.proof?.expiresAt, world.clock.now() + 600_000);
  assert.ok(!world.writes.some((entry) => entry.startsWith('proof')));
  const token = await world.gates.admit(message(bearer('ghn_joel'), envelope()));
  assert.ok(!(token instanceof Refusal) && token.proof === null);
});

test('CAN-06: NUL and half a surrogate pair are 422, wherever they stand; whole pairs pass', async () => {
  for (const bad of ['a\0b', 'a\ud800b', '\udc00']) {
    for (const more of [
      { body: { type: 'text/plain', text: bad } },
      { body: { type: 'application/json', data: { deep: [{ [bad]: 1 }] } } },
      { thread: bad },
      { extra: [bad] },
      { [bad]: 1 },
    ]) {
      const outcome = await world.gates.admit(message(bearer('ghn_joel'), envelope(more)));
      assert.equal(said(outcome), 'integrity invalid_field 422');
    }
    const thread = await world.gates.admit(message(bearer('ghn_joel'), envelope(), { thread: bad }));
    assert.equal(said(thread), 'integrity invalid_field 422');
  }
  assert.deepEqual(world.writes, []);
  const smile = await world.gates.admit(
    message(bearer('ghn_joel'), envelope({ body: { type: 'text/plain', text: '😀' } })),
  );
  assert.equal(said(smile), 'passed');
});

test("a node's signature: by the registered key, over exactly what arrived, within ten minutes", async () => {
  const now = Math.floor(world.clock.now() / 1000);
  const admit = (sent: ReturnType<typeof envelope>, token = 'ghn_joel') =>
    world.gates.admit(message(bearer(token), sent));
  const good = await admit(seal(envelope(), world.nodeKey, now));
  assert.ok(!(good instanceof Refusal));
  assert.equal(good.signature?.nodeId, 'n-joel');
  assert.equal(JSON.parse(good.signature!.payload).id, 'm1');

  const refused = 'integrity envelope_signature_invalid 401';
  assert.equal(said(await admit(seal(envelope(), seed('another'), now))), refused);
  assert.equal(
    said(await admit({ ...seal(envelope(), world.nodeKey, now), body: { type: 'text/plain', text: 'x' } })),
    refused,
  );
  assert.equal(said(await admit(seal(envelope(), world.nodeKey, now - 601))), refused);
  assert.equal(said(await admit(seal(envelope(), world.nodeKey, now + 601))), refused);
  const anas = envelope({ from: 'acme/finance/ana/close', to: 'acme/dev/joel/reviewer' });
  assert.equal(said(await admit(seal(anas, seed('x'), now), 'ghn_ana')), refused, 'a node without a registered key');
  assert.deepEqual(world.writes, []);
});

test('CAN-03: numbers are signed in their ECMAScript form', async () => {
  const now = Math.floor(world.clock.now() / 1000);
  const data = JSON.parse('{"a":1.0,"b":1E2,"c":-0,"d":0.1,"e":1e21}');
  const sent = seal(envelope({ body: { type: 'application/json', data } }), world.nodeKey, now);
  const outcome = await world.gates.admit(message(bearer('ghn_joel'), sent));
  assert.ok(!(outcome instanceof Refusal));
  assert.match(outcome.signature!.payload, /"data":\{"a":1,"b":100,"c":0,"d":0\.1,"e":1e\+21\}/);
});

test('a forwarded envelope holds by the key that it names, however long it waited', async () => {
  const old = Math.floor(world.clock.now() / 1000) - 5 * 86_400;
  const sent = seal(fromBob(), seed('node of bob'), old);
  const good = await world.gates.admit(message(await signed(world), sent));
  assert.ok(!(good instanceof Refusal));
  assert.equal(good.signature?.nodeId, null);
  const tampered = await world.gates.admit(message(await signed(world), { ...sent, thread: 'other' }));
  assert.equal(said(tampered), 'integrity envelope_signature_invalid 401');
  const broken = { ...sent, sig: { alg: 'ed25519', key: 'AAAA', value: 'x' } };
  assert.equal(
    said(await world.gates.admit(message(await signed(world), broken))),
    'integrity envelope_signature_invalid 401',
  );
  assert.equal(
    said(await world.gates.admit(message(request(), { ...sent, from: '' }))),
    'integrity envelope_signature_invalid 401',
  );
});
