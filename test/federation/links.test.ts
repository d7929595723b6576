import assert from 'node:assert/strict';
import test from 'node:test';
import { signRequest } from '../../src/identity/http-signature/sign.ts';
import { caller, newcomer, ok } from '../directory/fixture.ts';
import { until } from '../mailbox/fixture.ts';
import { type Gateway, requestOf, World } from './gateways.ts';

const A = 'localhost:8080';
const B = 'localhost:8081';

async function two(t: test.TestContext): Promise<{ world: World; acme: Gateway; globex: Gateway }> {
  const world = new World(t);
  const acme = await world.gateway('acme', A);
  const globex = await world.gateway('globex', B);
  return { world, acme, globex };
}

async function linked(t: test.TestContext): ReturnType<typeof two> {
  const all = await two(t);
  await all.acme.propose(B);
  await all.globex.propose('acme');
  assert.equal((await all.acme.only()).state, 'active');
  return all;
}

/** Sends a side of a link, signed by `from`, to another gateway. */
async function post(world: World, from: Gateway, to: Gateway, body: object): Promise<{ status: number; text: string }> {
  const { keyId, pair } = await from.registry.keyring.signer(from.registry.keyring.instance());
  const url = `http://${to.authority}/federation/v1/links`;
  const bytes = Buffer.from(JSON.stringify(body));
  const signed = await signRequest({ method: 'POST', url, body: bytes }, { keyId, key: pair, now: world.clock.now() });
  const headers = { ...signed, 'content-type': 'application/json' };
  const answer = await to.handle(
    requestOf(url, 'http', to.authority, { method: 'POST', headers, body: bytes, maxBytes: 0, timeoutMs: 0 }),
  );
  return { status: answer.status, text: String(answer.body ?? '') };
}

function side(world: World, more: object = {}): Record<string, unknown> {
  const rev = world.clock.now();
  return {
    v: 1,
    from: { org: 'stranger', primary: true },
    to: { org: null },
    rev,
    want: rev,
    voids: 0,
    seen: 0,
    calls_you: 'acme',
    exposes: [],
    rules: null,
    log: [],
    ...more,
  };
}

test('a link needs an admin of both sides, who each name the other', async (t) => {
  const { world, acme, globex } = await two(t);
  const proposed = await acme.propose(B);
  assert.equal(proposed.status, 200);
  assert.equal(proposed.json.state, 'proposed');
  assert.equal(proposed.json.proposed_by, 'acme');
  assert.equal(proposed.json.problem, null);
  assert.equal(proposed.json.other, 'localhost-8081', 'its handle is not known before it answers');

  const seen = await globex.only();
  assert.deepEqual([seen.other, seen.domain, seen.state, seen.proposed_by], ['acme', A, 'proposed', 'acme']);

  world.clock.advance(1_000);
  const accepted = await globex.propose('acme');
  assert.equal(accepted.json.state, 'active', 'the answer shows the state');
  const link = await acme.only();
  assert.deepEqual([link.state, link.other, link.domain, link.org], ['active', 'globex', B, 'acme']);
  assert.deepEqual(link.rules, { signed_only: true, ips: '' });
  for (const gateway of [acme, globex]) {
    assert.deepEqual(
      (await gateway.only()).log.map(({ by, what }) => `${by} ${what}`),
      ['acme/joel proposed', 'globex/joel accepted'],
    );
  }
});

test('the peer is found by handle, by domain, by either spelling of a port, and by the escaped path', async (t) => {
  const { acme } = await linked(t);
  const org = (await acme.registry.lookups.org('acme'))!;
  for (const name of ['globex', 'localhost:8081', 'localhost-8081']) {
    assert.equal((await acme.federation.link(org.id, name))?.peerHandle, 'globex', name);
  }
  assert.equal(await acme.federation.link(org.id, 'nobody'), null);
  assert.equal((await acme.federation.linksWithDomain(B)).length, 1);
  assert.equal((await acme.federation.linksWithDomain('localhost:9')).length, 0);
  const exposed = await acme.call('PUT', `/orgs/acme/links/${encodeURIComponent(B)}/expose`, {
    kind: 'agent',
    pattern: '*',
    on: true,
  });
  assert.equal(exposed.status, 200);
});

test('two admins accept at once', async (t) => {
  const { acme, globex } = await two(t);
  const answers = await Promise.all([acme.propose(B), globex.propose(A)]);
  assert.deepEqual(
    answers.map((answer) => answer.status),
    [200, 200],
  );
  await until(async () => (await acme.only()).state === 'active' && (await globex.only()).state === 'active');
  assert.deepEqual([(await acme.only()).other, (await globex.only()).other], ['globex', 'acme']);
});

test('exposures and rules reach the peer, and both sides see every change', async (t) => {
  const { world, acme, globex } = await linked(t);
  const on = (pattern: string, flag: boolean, kind = 'agent') =>
    globex.call('PUT', '/orgs/globex/links/acme/expose', { kind, pattern, on: flag });
  assert.equal((await on('erp/bob/billing', true)).status, 200);
  await on('erp/*', true, 'sub');
  await on('erp/bob/billing', false);
  await on('erp/*', true);
  await globex.call('PUT', '/orgs/globex/links/acme/rules', { signed_only: false, ips: '203.0.113.7,2001:db8::/32' });
  await world.pass(15_000, async () => (await acme.only()).their_rules?.ips === '203.0.113.7,2001:db8::/32');
  const link = await acme.only();
  assert.deepEqual(link.exposed, [
    { kind: 'agent', pattern: 'erp/*' },
    { kind: 'sub', pattern: 'erp/*' },
  ]);
  assert.deepEqual(link.exposes, [], 'nothing is exposed by default');
  assert.deepEqual(link.rules, { signed_only: true, ips: '' }, 'their rules are theirs');
  const told = link.log.slice(2).map(({ by, what }) => `${by} ${what}`);
  assert.deepEqual(told, [
    'globex/joel exposed',
    'globex/joel exposed',
    'globex/joel unexposed',
    'globex/joel exposed',
    'globex/joel rules',
  ]);
  assert.deepEqual((await globex.only()).log, link.log);
});

test('a change that says nothing new leaves no entry', async (t) => {
  const { globex } = await linked(t);
  const expose = { kind: 'agent', pattern: 'erp/*', on: true };
  await globex.call('PUT', '/orgs/globex/links/acme/expose', expose);
  const before = (await globex.only()).log.length;
  await globex.call('PUT', '/orgs/globex/links/acme/expose', expose);
  await globex.call('PUT', '/orgs/globex/links/acme/rules', { signed_only: true });
  await globex.propose('acme');
  assert.equal((await globex.only()).log.length, before);
});

test('bad input is refused, names its field and changes nothing', async (t) => {
  const { acme } = await linked(t);
  const before = JSON.stringify(await acme.only());
  const cases: Array<[string, string, unknown, number, string | undefined]> = [
    ['PUT', '/links/globex/expose', { kind: 'topic', pattern: '*', on: true }, 422, 'kind'],
    ['PUT', '/links/globex/expose', { kind: 'agent', pattern: 'a/*/b', on: true }, 422, 'pattern'],
    ['PUT', '/links/globex/expose', { kind: 'agent', on: true }, 422, 'pattern'],
    ['PUT', '/links/globex/rules', { ips: '10.1' }, 422, 'ips'],
    ['PUT', '/links/globex/rules', { signed_only: 'yes' }, 422, 'signed_only'],
    ['POST', '/links', { other: 'https://a.com/b/c' }, 422, 'other'],
    ['POST', '/links', { other: '169.254.169.254' }, 422, 'other'],
    ['POST', '/links', {}, 422, 'other'],
    ['POST', '/links', { other: 'acme' }, 409, 'other'],
    ['POST', '/links', { other: A }, 409, 'other'],
    ['POST', '/links', { other: 'nobody' }, 404, undefined],
    ['POST', '/links/nobody/revoke', {}, 404, undefined],
  ];
  for (const [method, path, body, status, field] of cases) {
    const answer = await acme.call(method, `/orgs/acme${path}`, body);
    assert.deepEqual([answer.status, answer.json.field], [status, field], `${method} ${path} ${JSON.stringify(body)}`);
  }
  assert.equal(JSON.stringify(await acme.only()), before);
});

test('only an admin of that very org decides', async (t) => {
  const { acme, globex } = await linked(t);
  const ana = await newcomer(acme.registry, await acme.admin(), 'acme', 'ana');
  for (const [path, body] of [
    ['/links', { other: 'x.com' }],
    ['/links/globex/revoke', {}],
  ] as const) {
    assert.equal((await acme.call('POST', `/orgs/acme${path}`, body, ana.token)).status, 403);
  }
  assert.equal((await acme.links(ana.token)).length, 1, 'everybody of the org sees its links');
  assert.equal((await globex.call('POST', '/orgs/acme/links', { other: B })).status, 404);
});

test('revocation acts here at once, reaches the peer, and a later proposal needs both again', async (t) => {
  const { world, acme, globex } = await linked(t);
  await globex.call('PUT', '/orgs/globex/links/acme/expose', { kind: 'agent', pattern: '*', on: true });
  await globex.call('PUT', '/orgs/globex/links/acme/rules', { signed_only: false, ips: '203.0.113.7' });
  const revoked = await acme.call('POST', '/orgs/acme/links/globex/revoke');
  assert.deepEqual([revoked.status, revoked.json.state], [200, 'revoked']);
  const org = (await acme.registry.lookups.org('acme'))!;
  assert.equal((await acme.federation.link(org.id, 'globex'))?.state, 'revoked');
  await world.pass(15_000, async () => (await globex.only()).state === 'revoked');

  await world.pass(
    15_000,
    async () => (await globex.propose('acme')).json.state === 'proposed' && (await acme.only()).state === 'proposed',
  );
  const again = await acme.propose('globex');
  assert.equal(again.json.state, 'active');
  const link = await globex.only();
  assert.deepEqual(link.exposes, [], 'what was exposed before is not exposed again by itself');
  assert.deepEqual(link.rules, { signed_only: true, ips: '203.0.113.7' }, 'of each rule the stricter one');
});

test('a peer that missed a revocation and a new proposal does not take its old yes for a new one', async (t) => {
  const { world, acme, globex } = await linked(t);
  world.down.add(B);
  await acme.call('POST', '/orgs/acme/links/globex/revoke');
  const proposed = await world.settle(acme.propose('globex'));
  assert.equal(proposed.json.state, 'proposed');
  assert.equal((await globex.only()).state, 'active', 'it has heard nothing yet');
  world.down.delete(B);
  await world.pass(70_000, async () => (await globex.only()).state === 'proposed');
  assert.equal((await globex.only()).proposed_by, 'acme');
  assert.equal((await acme.only()).state, 'proposed');
});

test('a revocation that crosses a proposal ends with both sides of one mind', async (t) => {
  const { world, acme, globex } = await two(t);
  await acme.propose(B);
  // Globex accepts while acme, which has not heard of it, takes its proposal back.
  world.down.add(A).add(B);
  const accepting = world.settle(globex.propose('acme'));
  await acme.call('POST', '/orgs/acme/links/localhost-8081/revoke');
  assert.equal((await accepting).json.state, 'active');
  world.down.clear();
  await world.pass(
    130_000,
    async () => (await acme.only()).state === (await globex.only()).state && (await globex.only()).problem === null,
  );
  assert.notEqual((await acme.only()).state, 'active');
  assert.equal((await acme.only()).proposed_by, (await globex.only()).proposed_by);
});

test('old bytes that come again, signed anew or not, change nothing', async (t) => {
  const { world, acme, globex } = await linked(t);
  const told = world.sent.filter(({ url }) => url === `http://${A}/federation/v1/links`).at(-1)!;
  const replayed = await acme.handle(requestOf(told.url, 'http', A, told.init));
  assert.equal(replayed.status, 401, 'the very bytes are a replay');
  const old = JSON.parse(String(told.init.body)) as object;
  await globex.call('POST', '/orgs/globex/links/acme/revoke');
  await world.pass(15_000, async () => (await acme.only()).state === 'revoked');
  const before = JSON.stringify(await acme.only());
  world.clock.advance(1_000);
  assert.equal((await post(world, globex, acme, old)).status, 200);
  assert.equal(JSON.stringify(await acme.only()), before);
});

test('a proposal to a peer that is down is kept, says why, and arrives within 15 s of the peer’s return', async (t) => {
  const { world, acme, globex } = await two(t);
  world.down.add(B);
  const proposed = await world.settle(acme.propose(B));
  assert.deepEqual([proposed.status, proposed.json.state], [200, 'proposed']);
  assert.match(proposed.json.problem, /localhost:8081/);
  assert.deepEqual(await globex.links(), []);
  world.clock.advance(3_000);
  world.down.delete(B);
  await world.pass(15_000, async () => (await globex.links()).length === 1);
  assert.equal((await acme.only()).problem, null);
});

test('an authority that shows no DID document of its own is not told anything', async (t) => {
  const { world, acme, globex } = await two(t);
  world.intercept = async (url) => {
    if (!url.endsWith('/.well-known/did.json') || !url.includes(B)) return undefined;
    return {
      status: 200,
      headers: new Map([['content-type', 'application/json']]),
      body: Buffer.from('{"id":"did:web:evil.com"}'),
    };
  };
  const proposed = await acme.propose(B);
  assert.match(proposed.json.problem, /did\.json/);
  assert.ok(!world.sent.some(({ url }) => url.startsWith(`http://${B}/federation`)));
  assert.deepEqual(await globex.links(), []);
});

test('a peer whose handle is taken here goes by its domain, and the refusal says so', async (t) => {
  const world = new World(t);
  const acme = await world.gateway('acme', A);
  const first = await world.gateway('globex', B);
  const second = await world.gateway('globex', 'localhost:8082');
  await acme.propose(B);
  await first.propose(A);
  await second.propose(A);
  const pending = (await acme.links()).find(({ domain }) => domain === 'localhost:8082')!;
  assert.deepEqual([pending.other, pending.state], ['localhost-8082', 'proposed']);

  const refused = await acme.propose('globex');
  assert.equal(refused.status, 409);
  assert.equal(refused.json.use, 'localhost:8082');
  assert.match(refused.json.error, /use the domain as handle/i);

  const accepted = await acme.propose('localhost:8082');
  assert.deepEqual([accepted.json.state, accepted.json.other], ['active', 'localhost-8082']);
  assert.equal((await second.only()).known_as, 'localhost-8082');
  const org = (await acme.registry.lookups.org('acme'))!;
  assert.equal(
    (await acme.federation.link(org.id, 'globex'))?.peerDomain,
    B,
    'the name stays with whom it belonged to',
  );
  const back = (await second.federation.linksWithDomain(A))[0]!;
  assert.equal(back.knownAs, 'localhost-8082', 'the peer knows how it is written there');
});

test('the handle of a local org is not given to a peer', async (t) => {
  const { acme, globex } = await two(t);
  ok(await acme.registry.people.createOrg(await acme.admin(), { handle: 'globex', me: 'joel' }));
  await globex.propose(A);
  assert.equal((await acme.only()).other, 'localhost-8081');
  await acme.propose(B);
  const link = await acme.only();
  assert.deepEqual([link.state, link.other], ['active', 'localhost-8081']);
});

test('a peer that calls itself by another’s domain goes by its own', async (t) => {
  const world = new World(t);
  const acme = await world.gateway('acme', A);
  const evil = await world.gateway('globex.com', 'localhost:8083');
  await evil.propose(A);
  assert.equal((await acme.only()).other, 'localhost-8083');
});

test('several orgs of one gateway link with one org of another', async (t) => {
  const { acme, globex } = await two(t);
  ok(await acme.registry.people.createOrg(await acme.admin(), { handle: 'sales', me: 'joel' }));
  await acme.propose(B);
  const sales = await acme.call('POST', '/orgs/sales/links', { other: B });
  assert.equal(sales.json.state, 'proposed');
  assert.deepEqual(
    (await globex.links()).map(({ other, state }) => [other, state]),
    [
      ['acme', 'proposed'],
      ['sales', 'proposed'],
    ],
  );
  assert.equal((await globex.propose('sales')).json.state, 'active');
  assert.equal((await globex.links()).find(({ other }) => other === 'acme')!.state, 'proposed');
  assert.equal((await globex.propose(`${A}/sales`)).json.state, 'active');
  assert.equal((await globex.propose(A)).json.state, 'active');
  assert.equal((await globex.links()).length, 2);
  assert.deepEqual(
    (await acme.links()).map(({ org, state }) => [org, state]),
    [
      ['acme', 'active'],
      ['sales', 'active'],
    ],
  );
});

test('two orgs of one gateway link in one transaction, without the network', async (t) => {
  const world = new World(t);
  const acme = await world.gateway('acme', A);
  ok(await acme.registry.people.createOrg(await acme.admin(), { handle: 'sales', me: 'joel' }));
  assert.equal((await acme.propose('sales')).json.state, 'proposed');
  const accepted = await acme.call('POST', '/orgs/sales/links', { other: A });
  assert.deepEqual([accepted.json.state, accepted.json.other, accepted.json.domain], ['active', 'acme', null]);
  await acme.call('PUT', '/orgs/sales/links/acme/expose', { kind: 'agent', pattern: '*', on: true });
  const [first, second] = await acme.links();
  assert.deepEqual(
    [first!.exposed, second!.exposes],
    [[{ kind: 'agent', pattern: '*' }], [{ kind: 'agent', pattern: '*' }]],
  );
  assert.deepEqual(first!.log, second!.log);
  assert.equal(first!.log.length, 3);
  await acme.call('POST', '/orgs/acme/links/sales/revoke');
  for (const link of await acme.links())
    assert.deepEqual([link.state, link.exposes, link.exposed], ['revoked', [], []]);
  assert.equal((await acme.call('POST', '/orgs/sales/links', { other: 'acme' })).json.state, 'proposed');
  assert.equal(world.sent.length, 0);
});

test('two orgs of one gateway whose admins act at once do not hold each other up', async (t) => {
  const world = new World(t);
  const acme = await world.gateway('acme', A);
  ok(await acme.registry.people.createOrg(await acme.admin(), { handle: 'sales', me: 'joel' }));
  for (let round = 0; round < 5; round++) {
    await Promise.all([acme.propose('sales'), acme.call('POST', '/orgs/sales/links', { other: 'acme' })]);
    assert.deepEqual(
      (await acme.links()).map(({ state }) => state),
      ['active', 'active'],
    );
    await Promise.all([
      acme.call('POST', '/orgs/acme/links/sales/revoke'),
      acme.call('POST', '/orgs/sales/links/acme/revoke'),
    ]);
    assert.deepEqual(
      (await acme.links()).map(({ state }) => state),
      ['revoked', 'revoked'],
    );
    world.clock.advance(1_000);
  }
});

test('the plan counts the links that an org wants (403 with quota)', async (t) => {
  const world = new World(t);
  const acme = await world.gateway('acme', A, { plan: 'free' });
  await world.gateway('globex', B);
  const third = await world.gateway('third', 'localhost:8082');
  await third.propose(A);
  await acme.propose(B);
  const refused = await acme.propose('third');
  assert.deepEqual([refused.status, refused.json.quota, refused.json.limit], [403, true, 1]);
  assert.deepEqual(
    (await acme.links()).map(({ state, proposed_by }) => [state, proposed_by]),
    [
      ['proposed', 'acme'],
      ['proposed', 'third'],
    ],
  );
  await acme.call('POST', '/orgs/acme/links/localhost-8081/revoke');
  assert.equal((await acme.propose('third')).json.state, 'active');
});

test('strangers learn nothing, and cost a bounded number of rows', async (t) => {
  const world = new World(t);
  const acme = await world.gateway('acme', A);
  const stranger = await world.gateway('stranger', B);
  ok(await acme.registry.people.createOrg(await acme.admin(), { handle: 'sales', me: 'joel' }));
  const answers = [];
  for (const org of [null, 'acme', 'sales', 'nobody']) {
    world.clock.advance(1_000);
    answers.push(await post(world, stranger, acme, side(world, { to: { org } })));
  }
  for (const answer of answers) assert.deepEqual(answer, { status: 202, text: '' });

  const { receive } = acme.federation.links;
  for (let i = 0; i < 120; i++)
    await receive(`h${i}.example.com`, side(world, { from: { org: `o${i}`, primary: true } }));
  for (let i = 0; i < 20; i++)
    await receive('many.example.com', side(world, { to: { org: 'sales' }, from: { org: `m${i}`, primary: false } }));
  const links = await acme.links();
  assert.equal(links.filter(({ org }) => org === 'acme').length, 100);
  assert.equal(links.filter(({ org }) => org === 'sales').length, 11);
  // Full as it is: an admin who names the peer herself still gets her link.
  const wanted = await world.gateway('wanted', 'localhost:8085');
  await wanted.propose(A);
  assert.equal((await acme.propose('localhost:8085')).json.state, 'active');

  await receive(
    'h1.example.com',
    side(world, { from: { org: 'o1', primary: true }, rev: world.clock.now() + 1, want: 0 }),
  );
  assert.ok(
    !(await acme.links()).some(({ other }) => other === 'o1'),
    'a stranger that takes its proposal back leaves nothing',
  );
});

test('a peer speaks for itself alone', async (t) => {
  const { world, acme, globex } = await linked(t);
  const evil = await world.gateway('globex', 'localhost:8083');
  const rev = world.clock.now() + 1_000_000;
  await post(world, evil, acme, side(world, { from: { org: 'globex', primary: true }, rev, want: 0, voids: rev }));
  const link = (await acme.links()).find(({ domain }) => domain === B)!;
  assert.equal(link.state, 'active', 'another domain does not end a link');
  assert.equal((await globex.only()).state, 'active');
});

test('a side that is no side is refused and changes nothing', async (t) => {
  const { world, acme, globex } = await linked(t);
  const before = JSON.stringify(await acme.only());
  const good = side(world, { from: { org: 'globex', primary: true }, rev: world.clock.now() + 1_000 });
  const entry = { id: 'x', at: 1, by: 'bob', what: 'exposed', detail: {} };
  const cases: Array<[object, number]> = [
    [{ ...good, v: 2 }, 400],
    [{ ...good, rev: -1 }, 422],
    [{ ...good, rev: 2 ** 52 }, 422],
    [{ ...good, rev: '7' }, 422],
    [{ ...good, want: (good.rev as number) + 1 }, 422],
    [{ ...good, from: { org: 'G/x' } }, 422],
    [{ ...good, from: null }, 422],
    [{ ...good, to: { org: '../x' } }, 422],
    [{ ...good, calls_you: 'a b' }, 422],
    [{ ...good, exposes: [{ kind: 'agent', pattern: '../*' }] }, 422],
    [{ ...good, exposes: Array.from({ length: 501 }, (_, i) => ({ kind: 'agent', pattern: `t${i}/*` })) }, 422],
    [{ ...good, rules: { signed_only: true, ips: ['10.1'] } }, 422],
    [{ ...good, log: Array.from({ length: 51 }, () => entry) }, 422],
    [{ ...good, log: [{ ...entry, by: 'acme/joel' }] }, 422],
    [{ ...good, log: [{ ...entry, detail: { a: 'x'.repeat(2_100) } }] }, 422],
    [{ ...good, log: [{ ...entry, detail: { a: '\u0000' } }] }, 400],
    [[], 400],
  ];
  for (const [body, status] of cases) {
    const answer = await post(world, globex, acme, body);
    assert.equal(answer.status, status, JSON.stringify(body).slice(0, 200));
    assert.equal(typeof JSON.parse(answer.text).error.code, 'string');
  }
  assert.equal(JSON.stringify(await acme.only()), before);
});

test('only the key of a gateway itself tells about links', async (t) => {
  const { world, acme, globex } = await linked(t);
  const member = (await globex.admin()).members[0]!;
  const owner = await globex.registry.keyring.signer(globex.registry.keyring.owner(member));
  const url = `http://${A}/federation/v1/links`;
  const body = Buffer.from(JSON.stringify(side(world, { from: { org: 'globex', primary: true }, want: 0 })));
  const call = async (headers: Record<string, string>): Promise<number> =>
    (await acme.handle(requestOf(url, 'http', A, { method: 'POST', headers, body, maxBytes: 0, timeoutMs: 0 }))).status;
  assert.equal(await call({ 'content-type': 'application/json' }), 401);
  assert.equal(await call({ authorization: `Bearer ${acme.token}` }), 403);
  world.intercept = async (at) => {
    if (!at.endsWith('/agents/joel/did.json')) return undefined;
    const key = {
      id: owner.keyId,
      type: 'Ed25519VerificationKey2020',
      controller: owner.did,
      publicKeyMultibase: owner.pair.publicKeyMultibase,
    };
    const document = { id: owner.did, verificationMethod: [key], authentication: [owner.keyId] };
    return {
      status: 200,
      headers: new Map([['content-type', 'application/json']]),
      body: Buffer.from(JSON.stringify(document)),
    };
  };
  const signed = await signRequest(
    { method: 'POST', url, body },
    { keyId: owner.keyId, key: owner.pair, now: world.clock.now() },
  );
  assert.equal(await call({ ...signed }), 403);
  assert.equal((await acme.only()).state, 'active');
});

test('an admin’s block of a domain keeps its proposals out', async (t) => {
  const { acme, globex } = await two(t);
  const org = (await acme.registry.lookups.org('acme'))!;
  await acme.federation.blockDomain(org.id, B);
  assert.equal((await globex.propose(A)).json.state, 'proposed');
  assert.deepEqual(await acme.links(), []);
});

test('an unknown node is nobody', async (t) => {
  const world = new World(t);
  const acme = await world.gateway('acme', A);
  assert.equal((await acme.call('GET', '/links', undefined, 'ghn_nobody')).status, 401);
  assert.ok(await caller(acme.registry, acme.token));
});
