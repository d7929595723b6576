import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bootstrap } from '../../src/directory/bootstrap.ts';
import { generateSeed } from '../../src/identity/keys.ts';
import type { Refusal } from '../../src/lib/refusal.ts';
import { caller, codes, first, house, newcomer, ok } from './fixture.ts';

const DAY = 86_400_000;

test('the first start makes org, team, admin and keys; the next ones change nothing', async (t) => {
  const { registry, start, database } = await house(t);
  const made = await start();
  assert.equal(made.created, true);
  assert.equal(made.newToken, null, 'a token that was given is not told again');
  const admin = await caller(registry, first.adminToken!);
  assert.equal(admin.isOperator, true);
  assert.deepEqual(
    admin.members.map((m) => [m.org, m.orgIsPrimary, m.handle, m.role]),
    [['acme', true, 'joel', 'admin']],
  );
  assert.deepEqual(await registry.lookups.teamsOf(made.admin.id), ['general']);
  assert.equal((await registry.facts.instance()).did, 'did:web:acme.example');
  assert.equal((await registry.facts.owner(null, 'joel'))?.methods.length, 1);

  const again = await start(registry, { org: 'other', admin: 'somebody' });
  assert.equal(again.created, false);
  assert.deepEqual(again.admin, made.admin);
  const { rows } = await database.db.query<{ n: number }>('select count(*)::int as n from nodes');
  assert.equal(rows[0]!.n, 1);
});

test('two replicas that start at once make one house, and one of them tells the token', async (t) => {
  const { registry, replica, clock, database } = await house(t);
  const other = await replica();
  const generated = { org: first.org, admin: first.admin };
  const started = await Promise.all(
    [registry, other, registry, other].map((on) => bootstrap({ db: database.db, clock, ...on }, generated)),
  );
  const tokens = started.map((s) => s.newToken).filter((token) => token !== null);
  assert.equal(tokens.length, 1);
  assert.match(tokens[0]!, /^ghn_[A-Za-z0-9_-]{43}$/);
  assert.equal(new Set(started.map((s) => s.admin.id)).size, 1);
  assert.equal((await caller(registry, tokens[0]!)).members.length, 1);
  const { rows } =
    await database.db.query(`select (select count(*)::int from people) as people, (select count(*)::int from orgs) as orgs,
    (select count(*)::int from nodes) as nodes, (select count(*)::int from keys) as keys`);
  assert.deepEqual(rows[0], { people: 1, orgs: 1, nodes: 1, keys: 2 });
});

test('a configured name that cannot be is said at the start', async (t) => {
  const { start } = await house(t);
  await assert.rejects(start(undefined, { org: 'Acme' }), /GATEHOUSE_ORG/);
  await assert.rejects(start(undefined, { admin: 'org' }), /GATEHOUSE_ADMIN/);
});

test('a restored phrase is the key of the first admin', async (t) => {
  const { registry, start } = await house(t);
  const ownerSeed = generateSeed();
  const { admin } = await start(undefined, { ownerSeed });
  assert.deepEqual(await registry.keyring.seed(registry.keyring.owner(admin)), ownerSeed);
});

test('invite, login, join', async (t) => {
  const { registry, start } = await house(t);
  await start();
  const { people } = registry;
  const joel = await caller(registry, first.adminToken!);
  ok(await people.createTeam(joel, 'acme', 'finance'));
  const invited = ok(await people.invite(joel, 'acme', { email: ' Ana@Example.com ', team: 'finance' }));
  const { token, email } = ok(await people.login(invited.code, 'laptop'));
  assert.equal(email, 'ana@example.com');
  const ana = await caller(registry, token);
  assert.deepEqual(await people.openInvites(email), [{ org: 'acme', team: 'finance', expiresAt: invited.expiresAt }]);
  assert.equal(ana.members.length, 0, 'logging in joins nothing');
  const member = ok(await people.join(ana, 'acme.example', { me: 'ana', code: null }));
  assert.deepEqual([member.org, member.handle, member.role], ['acme', 'ana', 'member']);
  assert.deepEqual(await registry.lookups.teamsOf(member.id), ['finance']);
  assert.deepEqual(
    codes([await people.join(ana, 'acme', { me: 'ana2', code: null })]),
    ['not_found'],
    'an invitation joins once',
  );
});

test('a code used twice at once logs in once', async (t) => {
  const { registry, start, replica } = await house(t);
  await start();
  const joel = await caller(registry, first.adminToken!);
  const { code } = ok(await registry.people.invite(joel, 'acme', { email: 'ana@example.com', team: 'general' }));
  const other = await replica();
  const results = await Promise.all([registry, other, registry, other].map((r, i) => r.people.login(code, `node${i}`)));
  assert.deepEqual(codes(results), ['ok', 'unauthenticated', 'unauthenticated', 'unauthenticated']);
});

test('a code ends after 7 days; a wrong one is nobody', async (t) => {
  const { registry, start, clock } = await house(t);
  await start();
  const joel = await caller(registry, first.adminToken!);
  const { code } = ok(await registry.people.invite(joel, 'acme', { email: 'ana@example.com', team: 'general' }));
  clock.advance(7 * DAY);
  assert.deepEqual(codes([await registry.people.login(code, 'laptop'), await registry.people.login('x', 'laptop')]), [
    'unauthenticated',
    'unauthenticated',
  ]);
});

test('an org handle taken twice at once is one org', async (t) => {
  const { registry, start, replica } = await house(t);
  await start();
  const joel = await caller(registry, first.adminToken!);
  const other = await replica();
  const results = await Promise.all(
    [registry, other, registry].map((r) => r.people.createOrg(joel, { handle: 'lab', me: 'joel' })),
  );
  assert.deepEqual(codes(results), ['conflict', 'conflict', 'ok']);
  const again = await caller(registry, first.adminToken!);
  assert.deepEqual(
    again.members.map((m) => m.org),
    ['acme', 'lab'],
  );
});

test('a handle that reads as a domain is the operator’s to give, and never this one’s own', async (t) => {
  const { registry, start } = await house(t);
  await start();
  const joel = await caller(registry, first.adminToken!);
  const { node: ana } = await newcomer(registry, joel, 'acme', 'ana');
  for (const handle of ['globex.com', 'localhost-8081']) {
    assert.deepEqual(codes([await registry.people.createOrg(ana, { handle, me: 'ana' })]), ['invalid_field'], handle);
    ok(await registry.people.createOrg(joel, { handle, me: 'joel' }));
  }
  assert.deepEqual(codes([await registry.people.createOrg(joel, { handle: 'acme.example', me: 'joel' })]), [
    'conflict',
  ]);
});

test('only admins make teams, invite and fill teams; outsiders are told nothing', async (t) => {
  const { registry, start } = await house(t);
  await start();
  const { people } = registry;
  const joel = await caller(registry, first.adminToken!);
  const { node: ana } = await newcomer(registry, joel, 'acme', 'ana');
  const { node: eve } = await newcomer(registry, joel, 'acme', 'eve');
  ok(await people.createOrg(eve, { handle: 'evil', me: 'eve' }));
  const asMember = [
    await people.createTeam(ana, 'acme', 'ops'),
    await people.invite(ana, 'acme', { email: 'x@example.com', team: 'general' }),
    await people.addToTeam(ana, { org: 'acme', team: 'general', who: 'eve' }),
    await people.addAdmin(ana, 'acme', 'ana'),
  ];
  assert.deepEqual(codes(asMember), Array(4).fill('forbidden'));
  const outside = [
    await people.createTeam(ana, 'evil', 'ops'),
    await people.createTeam(ana, 'nothing', 'ops'),
  ] as Refusal[];
  assert.equal(outside[0]!.code, 'not_found');
  assert.equal(outside[0]!.words, outside[1]!.words);

  ok(await people.addAdmin(joel, 'acme', 'ana'));
  const promoted = await registry.lookups.member(ana.members[0]!.id);
  assert.equal(promoted?.role, 'admin');
});

test('whoever may invite does not become whom she invites', async (t) => {
  const { registry, start } = await house(t);
  await start();
  const { people } = registry;
  const joel = await caller(registry, first.adminToken!);
  const { node: ana } = await newcomer(registry, joel, 'acme', 'ana');
  const { node, token: hers } = await newcomer(registry, joel, 'acme', 'eve');
  ok(await people.createOrg(node, { handle: 'evil', me: 'eve' }));
  const eve = await caller(registry, hers);

  // An address that has a person: the code does not log in as her, and is not used up by the attempt.
  const forAna = ok(await people.invite(eve, 'evil', { email: 'ana@example.com', team: 'general' }));
  assert.deepEqual(codes([await people.login(forAna.code, 'eve-laptop')]), ['conflict']);
  ok(await people.join(ana, 'evil', { me: 'ana', code: null }));

  // An address that has none yet: she gets a person, who is not let in where the real one is invited.
  const forBob = ok(await people.invite(eve, 'evil', { email: 'bob@example.com', team: 'general' }));
  const { token: stolen } = ok(await people.login(forBob.code, 'eve-laptop'));
  const real = ok(await people.invite(joel, 'acme', { email: 'bob@example.com', team: 'general' }));
  assert.deepEqual(codes([await people.join(await caller(registry, stolen), 'acme', { me: 'bob', code: null })]), [
    'not_found',
  ]);
  // The operator's code is bob's: it ends what eve had.
  const { token } = ok(await people.login(real.code, 'bob-laptop'));
  assert.equal(await registry.lookups.nodeByToken(stolen), null);
  ok(await people.join(await caller(registry, token), 'acme', { me: 'bob', code: null }));
});

test('with the code of the invitation, somebody whom no operator vouched for joins a further org', async (t) => {
  const { registry, start } = await house(t);
  await start();
  const { people } = registry;
  const joel = await caller(registry, first.adminToken!);
  const { node, token } = await newcomer(registry, joel, 'acme', 'eve');
  ok(await people.createOrg(node, { handle: 'lab', me: 'eve' }));
  const eve = await caller(registry, token);
  const { node: bob } = await newcomer(registry, eve, 'lab', 'bob');
  const { code } = ok(await people.invite(joel, 'acme', { email: 'bob@example.com', team: 'general' }));
  ok(await people.join(bob, 'acme', { me: 'bob', code }));
  // The first admin has no address: an invitation reaches him by its code.
  const forJoel = ok(await people.invite(eve, 'lab', { email: 'joel@example.com', team: 'general' }));
  ok(await people.join(joel, 'lab', { me: 'joel', code: forJoel.code }));
});

test('a name that somebody else has in the org is refused, and the invitation stays good', async (t) => {
  const { registry, start } = await house(t);
  await start();
  const { people } = registry;
  const joel = await caller(registry, first.adminToken!);
  const { code } = ok(await people.invite(joel, 'acme', { email: 'ana@example.com', team: 'general' }));
  const { token } = ok(await people.login(code, 'laptop'));
  const ana = await caller(registry, token);
  assert.deepEqual(codes([await people.join(ana, 'acme', { me: 'joel', code: null })]), ['conflict']);
  ok(await people.join(ana, 'acme', { me: 'ana', code: null }));
});

test('a revoked token is nobody at once, on every replica; of two who revoke, one did', async (t) => {
  const { registry, start, replica } = await house(t);
  await start();
  const other = await replica();
  const joel = await caller(registry, first.adminToken!);
  const made = ok(await registry.nodes.make(joel.personId, 'server'));
  assert.equal((await other.lookups.nodeByToken(made.token))?.nodeName, 'server');
  const results = await Promise.all([registry, other].map((r) => r.nodes.revoke(joel.personId, made.id)));
  assert.deepEqual(codes(results), ['not_found', 'ok']);
  assert.equal(await registry.lookups.nodeByToken(made.token), null);
  assert.equal(await other.lookups.nodeByToken(made.token), null);
  assert.deepEqual(
    (await registry.nodes.list(joel.personId)).map((n) => n.name),
    ['admin'],
  );
});

test('tokens and codes are not in the database', async (t) => {
  const { registry, start, database } = await house(t);
  await start();
  const joel = await caller(registry, first.adminToken!);
  const { code } = ok(await registry.people.invite(joel, 'acme', { email: 'ana@example.com', team: 'general' }));
  const { token } = ok(await registry.nodes.make(joel.personId, 'server'));
  const { rows } = await database.db.query(
    'select n::text as text from nodes n union all select i::text from invites i',
  );
  const all = JSON.stringify(rows);
  for (const secret of [code, token, first.adminToken!]) {
    assert.ok(!all.includes(secret) && !all.includes(Buffer.from(secret).toString('hex')));
  }
});
