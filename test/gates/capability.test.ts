import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { type Capability, issueCapability } from '../../src/identity/capability.ts';
import { bearer, bobDid, envelope, message, request, said, seed, signed, World } from './world.ts';

const refused = 'capability capability_invalid 401';
const to = 'did:web:acme.test:agents:ana';
let world: World;
beforeEach(() => {
  world = new World();
  world.contacts.push({ id: 'c1', owner: 'm-ana', peerId: 'p1', peerDid: bobDid, blocked: false });
});

async function withToken(more: Partial<Capability> = {}, key = seed(bobDid), thread?: string): Promise<string> {
  const token = issueCapability(
    { iss: bobDid, sub: bobDid, aud: to, scope: ['ask'], exp: Math.floor(world.clock.now() / 1000) + 60, ...more },
    key,
  );
  const http = await signed(world, { headers: { authorization: `Capability ${token}` } });
  const sent = envelope({ from: `${bobDid}:agent`, to, ...(thread && { thread }) });
  return said(await world.gates.admit(message(http, sent)));
}

test('a token for this sender, this recipient and this thread passes', async () => {
  assert.equal(await withToken(), 'passed');
  assert.equal(await withToken({ aud: 'did:web:acme.test' }), 'passed');
  assert.equal(
    await withToken({ scope: ['ask:invoices'], ctx: { thread_id: 't1', delegation_depth: 3 } }, undefined, 't1'),
    'passed',
  );
  assert.deepEqual(world.fetched, [bobDid], 'the signature has fetched the document that the token needs');
});

test('anything else is capability_invalid, stores nothing and reaches no later gate', async () => {
  const now = Math.floor(world.clock.now() / 1000);
  const wrong: Partial<Capability>[] = [
    { exp: now },
    { iss: 'did:web:globex.test:agents:eve' },
    { sub: 'did:web:globex.test:agents:eve' },
    { aud: 'did:web:other.test' },
    { scope: ['read'] },
    { ctx: { delegation_depth: 4 } },
    { ctx: { thread_id: 't2' } },
  ];
  for (const more of wrong) assert.equal(await withToken(more, undefined, 't1'), refused, JSON.stringify(more));
  assert.equal(await withToken({}, seed('forger')), refused);
  assert.deepEqual([world.writes, world.asked], [[], []]);
});

test('an issuer above the signer costs a second document, but only when every claim fits', async () => {
  const instance = 'did:web:globex.test';
  assert.equal(await withToken({ iss: instance, aud: 'did:web:other.test' }, seed(instance)), refused);
  assert.deepEqual(world.fetched, [bobDid]);
  assert.equal(await withToken({ iss: instance }, seed(instance)), 'passed');
  assert.deepEqual(world.fetched, [bobDid, instance]);
});

test('a token without a signature is bound to nobody', async () => {
  const http = request({ headers: { authorization: 'Capability a.b.c' } });
  assert.equal(said(await world.gates.admit(message(http, envelope({ from: '' })))), refused);
  const junk = await signed(world, { headers: { authorization: 'Capability junk' } });
  assert.equal(said(await world.gates.admit(message(junk, envelope({ from: bobDid, to })))), refused);
  assert.equal(said(await world.gates.admit(message(bearer('ghn_joel'), envelope()))), 'passed');
});
