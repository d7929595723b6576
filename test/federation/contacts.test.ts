import assert from 'node:assert/strict';
import test from 'node:test';
import { maxPending } from '../../src/federation/contacts/contacts.ts';
import { Refusal } from '../../src/lib/refusal.ts';
import { ok } from '../directory/fixture.ts';
import { World } from './gateways.ts';

const eve = 'did:web:evil.com:agents:eve';

async function one(t: test.TestContext) {
  const world = new World(t);
  const { federation, db, registry, announce, admin } = await world
    .gateway('acme', 'localhost:8080')
    .then((gateway) => ({
      federation: gateway.federation,
      db: gateway.db,
      registry: gateway.registry,
      announce: () => gateway.announce('close'),
      admin: () => gateway.admin(),
    }));
  await announce();
  const owner = (await admin()).members[0]!.id;
  const agentId = (await registry.lookups.defaultAgent(owner))!.id;
  const knock = (peerDid: string, firstMessage = 'hello') =>
    federation.requestConnection({ owner, peerDid, agentId, firstMessage });
  return { world, federation, db, owner, knock };
}

test('a peer row is made once, however many ask at once', async (t) => {
  const { federation, db } = await one(t);
  const dids = Array.from({ length: 50 }, (_, i) => `did:web:h${i % 10}.com:agents:u`);
  const ids = await Promise.all(dids.map((did) => federation.peerId(did)));
  assert.equal(new Set(ids).size, 10);
  const { rows } = await db.query<{ did: string; domain: string }>('select did, domain from peers');
  assert.equal(rows.length, 10);
  assert.ok(rows.every(({ did, domain }) => did.startsWith(`did:web:${domain}:`)));
  await federation.peerId('did:web:localhost%3A8081:agents:u');
  const { rows: ported } = await db.query<{ domain: string }>("select domain from peers where did like '%8081%'");
  assert.equal(ported[0]!.domain, 'localhost:8081');
});

test('a contact is found by agent or signer DID, a blocked one first', async (t) => {
  const { federation, owner } = await one(t);
  const agent = `${eve}:x:y`;
  assert.equal(await federation.contact(owner, [agent, eve]), null);
  assert.equal(await federation.contact(owner, []), null);
  await federation.addContact(owner, agent);
  const signer = await federation.addContact(owner, eve, 'Eve');
  assert.equal((await federation.addContact(owner, eve)).id, signer.id);
  assert.equal((await federation.contact(owner, [agent, eve]))?.peerDid, agent);
  ok(await federation.setBlocked(owner, signer.id, true));
  const found = await federation.contact(owner, [agent, eve]);
  assert.deepEqual([found?.peerDid, found?.blocked], [eve, true]);
  assert.equal(await federation.contact('somebody else', [agent, eve]), null);
  assert.ok((await federation.setBlocked('somebody else', signer.id, false)) instanceof Refusal);
  assert.equal(await federation.removeContact(owner, signer.id), true);
  assert.equal(await federation.removeContact(owner, signer.id), false);
});

test('a stranger costs one row per owner, of 500 characters at most', async (t) => {
  const { federation, owner, knock } = await one(t);
  await Promise.all(Array.from({ length: 20 }, (_, i) => knock(eve, `${'x'.repeat(499)}😀\u0000 ${i}`)));
  const requests = await federation.listRequests(owner);
  assert.equal(requests.length, 1);
  assert.deepEqual(
    [requests[0]!.peerDid, requests[0]!.peerDomain, requests[0]!.decision],
    [eve, 'evil.com', 'pending'],
  );
  assert.equal(requests[0]!.firstMessage.length, 500);
});

test('what waits for one owner is bounded, though DIDs cost nothing', async (t) => {
  const { db, federation, owner, knock } = await one(t);
  await db.query(
    `insert into connection_requests (id, owner, peer_did, peer_domain, first_message, created_at)
     select 'r' || i, $1, 'did:web:d' || i || '.com', 'd' || i || '.com', '', 0 from generate_series(1, $2) i`,
    [owner, maxPending],
  );
  await knock(eve);
  const { rows } = await db.query<{ n: number }>('select count(*)::int as n from connection_requests');
  assert.equal(rows[0]!.n, maxPending);
  assert.equal((await federation.listRequests(owner)).length, 50);
});

test('the first decision counts; allowing makes the contact, denying stays denied', async (t) => {
  const { federation, owner, knock } = await one(t);
  await knock(eve);
  const [request] = await federation.listRequests(owner);
  assert.ok((await federation.decide('somebody else', request!.id, 'allow')) instanceof Refusal);
  const decisions = await Promise.all([
    federation.decide(owner, request!.id, 'allow'),
    federation.decide(owner, request!.id, 'deny'),
  ]);
  const [first, second] = decisions.map((decision) => ok(decision).decision);
  assert.equal(first, second);
  assert.equal((await federation.contact(owner, [eve])) !== null, first === 'allowed');

  const mallory = 'did:web:mallory.com:agents:m';
  await knock(mallory);
  const [other] = await federation.listRequests(owner);
  ok(await federation.decide(owner, other!.id, 'deny'));
  await knock(mallory);
  assert.deepEqual(await federation.listRequests(owner), []);
  assert.equal((await federation.listRequests(owner, true)).length, 2);
});

test('who was allowed and whose contact was removed has to ask again', async (t) => {
  const { federation, owner, knock } = await one(t);
  await knock(eve);
  const [request] = await federation.listRequests(owner);
  ok(await federation.decide(owner, request!.id, 'allow'));
  await knock(eve);
  assert.deepEqual(await federation.listRequests(owner), []);
  const contact = await federation.contact(owner, [eve]);
  await federation.removeContact(owner, contact!.id);
  await knock(eve, 'me again');
  assert.deepEqual(
    (await federation.listRequests(owner)).map(({ firstMessage }) => firstMessage),
    ['me again'],
  );
});

test('a block of a domain is of one org and can be lifted', async (t) => {
  const { federation, db } = await one(t);
  const org = (await db.query<{ id: string }>('select id from orgs')).rows[0]!.id;
  await federation.blockDomain(org, 'evil.com');
  await federation.blockDomain(org, 'evil.com');
  const asked = [
    [org, 'evil.com'],
    [org, 'good.com'],
    ['another', 'evil.com'],
  ] as const;
  assert.deepEqual(await Promise.all(asked.map(([o, d]) => federation.isDomainBlocked(o, d))), [true, false, false]);
  assert.equal(await federation.unblockDomain(org, 'evil.com'), true);
  assert.equal(await federation.unblockDomain(org, 'evil.com'), false);
});
