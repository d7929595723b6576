import assert from 'node:assert/strict';
import { test } from 'node:test';
import { generateSeed, keyPair } from '../../src/identity/keys.ts';
import { Refusal } from '../../src/lib/refusal.ts';
import { at, caller, codes, first, house, listening, newcomer, ok } from './fixture.ts';

const close = at('acme', 'general', 'joel', 'close');

test('the first announcement makes the agent, its mailbox and its key; the next ones change it', async (t) => {
  const { registry, start, database } = await house(t);
  await start();
  const joel = await caller(registry, first.adminToken!);
  const made = ok(await registry.agents.announce(joel, close, { ...listening, description: 'closes' }));
  assert.equal(made.created, true);
  assert.equal(made.agent.address, 'acme/general/joel/close');
  assert.equal(made.agent.isDefault, true);
  const { rows } = await database.db.query('select node_id from mailboxes where agent_id = $1', [made.agent.id]);
  assert.deepEqual(rows, [{ node_id: joel.nodeId }]);
  const { rows: keys } = await database.db.query<{ method_id: string }>(
    'select method_id from keys where holder = $1',
    [`agent:${made.agent.id}`],
  );
  assert.deepEqual(keys, [{ method_id: 'did:web:acme.example:agents:joel:general:close#key-1' }]);
  const again = ok(await registry.agents.announce(joel, close, { ...listening, adapter: 'syn' }));
  assert.equal(again.created, false);
  assert.deepEqual([again.agent.description, again.agent.adapter], ['closes', 'syn']);
});

test('announced twice at once, on two replicas, it is one agent', async (t) => {
  const { registry, start, replica } = await house(t);
  await start();
  const other = await replica();
  const joel = await caller(registry, first.adminToken!);
  const results = await Promise.all(
    [registry, other, registry, other].map((r) => r.agents.announce(joel, close, listening)),
  );
  assert.equal(results.filter((r) => ok(r).created).length, 1);
  assert.equal(new Set(results.map((r) => ok(r).agent.id)).size, 1);
});

test('the plan’s number of agents holds when many are announced at once', async (t) => {
  const { registry, start, replica, database } = await house(t, { plan: 'free' });
  await start();
  const other = await replica();
  const joel = await caller(registry, first.adminToken!);
  const results = await Promise.all(
    Array.from({ length: 8 }, (_, i) =>
      (i % 2 ? registry : other).agents.announce(joel, at('acme', 'general', 'joel', `a${i}`), listening),
    ),
  );
  const refused = results.filter((r): r is Refusal => r instanceof Refusal);
  assert.equal(refused.length, 3);
  for (const refusal of refused) assert.deepEqual([refusal.status, refusal.data?.quota], [403, true]);
  const { rows } = await database.db.query<{ n: number }>('select count(*)::int as n from agents');
  assert.equal(rows[0]!.n, 5);
  const mailboxes = await database.db.query('select 1 from mailboxes');
  assert.equal(mailboxes.rowCount, 5, 'a refused announcement leaves nothing');
});

test('who may announce: the person herself, in a team that she is in', async (t) => {
  const { registry, start } = await house(t);
  await start();
  const joel = await caller(registry, first.adminToken!);
  ok(await registry.people.createTeam(joel, 'acme', 'ops'));
  const { node: ana } = await newcomer(registry, joel, 'acme', 'ana');
  const { node: eve } = await newcomer(registry, joel, 'acme', 'eve');
  ok(await registry.people.createOrg(eve, { handle: 'evil', me: 'eve' }));
  const tries = [
    await registry.agents.announce(ana, at('acme', 'general', 'joel', 'close'), listening),
    await registry.agents.announce(ana, at('acme', 'ops', 'ana', 'close'), listening),
    await registry.agents.announce(ana, at('acme', 'missing', 'ana', 'close'), listening),
    await registry.agents.announce(ana, at('evil', 'general', 'ana', 'close'), listening),
    await registry.agents.announce(ana, at('nowhere', 'general', 'ana', 'close'), listening),
  ];
  assert.deepEqual(
    tries.map((result) => (result as Refusal).code),
    ['forbidden', 'forbidden', 'not_found', 'not_found', 'not_found'],
  );
  ok(await registry.people.addToTeam(joel, { org: 'acme', team: 'ops', who: 'ana' }));
  ok(await registry.agents.announce(ana, at('acme.example', 'ops', 'ana', 'close'), listening));
});

test('the policy comes with `listening` only, and full trust has its rules', async (t) => {
  const { registry, start } = await house(t);
  await start();
  const joel = await caller(registry, first.adminToken!);
  const policy = {
    allow: ['ana', 'team:ops', 'org', 'org:globex', 'org:localhost:8081', 'anyone'],
    trust: 'none' as const,
    signedOnly: false,
    encryptedOnly: true,
  };
  const set = ok(await registry.agents.announce(joel, close, { listening: true, policy }));
  assert.deepEqual(set.agent.allow, policy.allow);
  const kept = ok(await registry.agents.announce(joel, close, { ...listening, listening: false }));
  assert.deepEqual([kept.agent.allow, kept.agent.encryptedOnly], [policy.allow, true]);
  const full = { trust: 'full' as const, signedOnly: true, encryptedOnly: false };
  for (const allow of [[], ['anyone'], ['Ana'], ['org:'], ['team:a/b']]) {
    const refused = await registry.agents.announce(joel, close, { listening: true, policy: { ...full, allow } });
    assert.deepEqual((refused as Refusal).data, { field: 'allow' }, allow.join());
  }
  const trusted = ok(
    await registry.agents.announce(joel, close, { listening: true, policy: { ...full, allow: ['ana'] } }),
  );
  assert.deepEqual([trusted.agent.trust, trusted.agent.signedOnly], ['full', true]);
});

test('the default agent is the first, until another is marked', async (t) => {
  const { registry, start } = await house(t);
  const { admin } = await start();
  const joel = await caller(registry, first.adminToken!);
  ok(await registry.agents.announce(joel, close, listening));
  ok(await registry.agents.announce(joel, at('acme', 'general', 'joel', 'other'), listening));
  const owner = 'did:web:acme.example:agents:joel';
  const handles = async () =>
    Promise.all([owner, `${owner}:agent`].map(async (did) => (await registry.lookups.agentByDid(did))?.handle));
  assert.deepEqual(await handles(), ['close', 'close']);
  await Promise.all(
    ['close', 'other', 'close', 'other'].map((name) =>
      registry.agents.announce(joel, at('acme', 'general', 'joel', name), { ...listening, isDefault: true }),
    ),
  );
  ok(await registry.agents.announce(joel, at('acme', 'general', 'joel', 'other'), { ...listening, isDefault: true }));
  assert.deepEqual(await handles(), ['other', 'other']);
  assert.equal((await registry.lookups.defaultAgent(admin.id))?.handle, 'other');
});

test('look-ups by address, DID, key and id share their queries and tell each caller his own', async (t) => {
  const { registry, start } = await house(t);
  const { admin } = await start();
  const { lookups, keyring } = registry;
  const joel = await caller(registry, first.adminToken!);
  ok(await registry.people.createOrg(joel, { handle: 'lab', me: 'jo' }));
  const jo = await caller(registry, first.adminToken!);
  const { agent } = ok(await registry.agents.announce(jo, close, listening));
  const { agent: lab } = ok(await registry.agents.announce(jo, at('lab', 'general', 'jo', 'close'), listening));
  assert.equal(keyring.agent(lab).did, 'did:web:acme.example:orgs:lab:agents:jo:general:close');
  const found = await Promise.all([
    lookups.agentAt(close),
    lookups.agentAt({ ...close, org: 'acme.example' }),
    lookups.agentAt(at('lab', 'general', 'jo', 'close')),
    lookups.agentAt(at('lab', 'general', 'joel', 'close')),
    lookups.agentByDid(keyring.agent(agent).did),
    lookups.agentByDid(keyring.agent(lab).did),
    lookups.agentByDid(await keyring.didKey(keyring.agent(lab))),
    lookups.agentByDid(await keyring.didKey(keyring.owner(admin))),
    lookups.agentByDid(keyPair(generateSeed()).did),
    lookups.agentByDid('did:web:acme.example:orgs:acme:agents:joel:general:close'),
    lookups.agentByDid('did:web:other.example:agents:joel:general:close'),
    lookups.agentByDid('did:web:acme.example'),
    lookups.agentById(lab.id),
    lookups.agentById('nobody'),
  ]);
  const [a, l] = [agent.id, lab.id];
  assert.deepEqual(
    found.map((each) => each?.id ?? null),
    [a, a, l, null, a, l, l, a, null, null, null, null, l, null],
  );
  assert.deepEqual(found[0], agent);
  assert.deepEqual((await lookups.org('acme.example'))?.handle, 'acme');
  assert.equal(await lookups.org('nowhere'), null);
  assert.equal((await lookups.frontDesk())?.id, a);
});

test('listed and front desk are marks of admin and operator', async (t) => {
  const { registry, start } = await house(t);
  await start();
  const joel = await caller(registry, first.adminToken!);
  const { node: ana } = await newcomer(registry, joel, 'acme', 'ana');
  const hers = at('acme', 'general', 'ana', 'desk');
  ok(await registry.agents.announce(ana, hers, listening));
  assert.deepEqual(codes([await registry.agents.announce(ana, hers, { ...listening, isListed: true })]), ['forbidden']);
  assert.deepEqual(codes([await registry.agents.announce(ana, hers, { ...listening, isFrontDesk: true })]), [
    'forbidden',
  ]);
  const marks = { ...listening, listening: false, isListed: true, isFrontDesk: true };
  const { agent } = ok(await registry.agents.announce(joel, hers, marks));
  assert.deepEqual(
    (await registry.lookups.publicAgents()).map((a) => a.id),
    [agent.id],
  );
  assert.equal((await registry.lookups.frontDesk())?.id, agent.id);
  ok(await registry.agents.announce(joel, close, { ...listening, isFrontDesk: true }));
  assert.equal((await registry.lookups.frontDesk())?.handle, 'close');
});

test('online for 60 s after a take', async (t) => {
  const { registry, start, clock, database } = await house(t);
  await start();
  const joel = await caller(registry, first.adminToken!);
  const { agent } = ok(await registry.agents.announce(joel, close, listening));
  const shown = async () => {
    const [entry] = await registry.entries.of([agent], { outsider: null, viewers: [] }, { sessions: false });
    return [entry!.online, entry!.last_seen, entry!.node];
  };
  assert.deepEqual(await shown(), [false, null, 'admin'], 'to announce is not to take');
  const taken = clock.now();
  await database.db.query('update mailboxes set last_seen = $1', [taken]);
  assert.deepEqual(await shown(), [true, Math.floor(taken / 1000), 'admin']);
  clock.advance(59_999);
  assert.equal((await shown())[0], true);
  clock.advance(1);
  assert.deepEqual(await shown(), [false, Math.floor(taken / 1000), 'admin']);
});

test('what a session is about shows to its owner and to who takes part; others of the org see that it exists, outsiders nothing', async (t) => {
  const { registry, start, database } = await house(t);
  const { admin } = await start();
  const joel = await caller(registry, first.adminToken!);
  const { node: ana } = await newcomer(registry, joel, 'acme', 'ana');
  const { agent } = ok(await registry.agents.announce(joel, close, listening));
  const member = ana.members[0]!.id;
  await database.db.query('insert into conversations (owner, id, created_at) values ($1, $2, 0), ($1, $3, 0)', [
    admin.id,
    't1',
    't2',
  ]);
  await database.db.query(
    'insert into conversation_participants (owner, conversation, participant) values ($1, $2, $3)',
    [admin.id, 't1', `m:${member}`],
  );
  await database.db.query(
    `insert into sessions (agent_id, n, owner, conversation, title, created_at, last_at) values ($1, 1, $2, 't1', 'Invoices', 0, 5000), ($1, 2, $2, 't2', 'Secret', 0, 6000)`,
    [agent.id, admin.id],
  );
  const sees = async (viewers: string[], outsider: string[] | null) =>
    (await registry.entries.of([agent], { viewers, outsider }, { sessions: true }))[0]!.sessions!.map((s) => [
      s.id,
      s.title,
      s.last_at,
    ]);
  assert.deepEqual(await sees([`m:${admin.id}`], null), [
    ['s1', 'Invoices', 5],
    ['s2', 'Secret', 6],
  ]);
  assert.deepEqual(await sees([`m:${member}`], null), [
    ['s1', 'Invoices', 5],
    ['s2', undefined, 6],
  ]);
  assert.deepEqual(await sees([], null), [
    ['s1', undefined, 5],
    ['s2', undefined, 6],
  ]);
  assert.deepEqual(await sees([`m:${member}`], ['lab']), [['s1', 'Invoices', 5]]);
  assert.deepEqual(await sees([], ['lab']), []);
});
