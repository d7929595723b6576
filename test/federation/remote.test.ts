import assert from 'node:assert/strict';
import test from 'node:test';
import { signRequest } from '../../src/identity/http-signature/sign.ts';
import { Refusal } from '../../src/lib/refusal.ts';
import { ok } from '../directory/fixture.ts';
import { type Gateway, requestOf, World } from './gateways.ts';

const A = 'localhost:8080';
const B = 'localhost:8081';

async function exposing(t: test.TestContext) {
  const world = new World(t);
  const acme = await world.gateway('acme', A);
  const globex = await world.gateway('globex', B);
  await acme.propose(B);
  await globex.propose('acme');
  await globex.announce('billing', ['org:acme', 'org:other', 'team:general']);
  await globex.announce('secret');
  await globex.call('PUT', '/orgs/globex/links/acme/expose', {
    kind: 'agent',
    pattern: 'general/joel/billing',
    on: true,
  });
  await world.pass(15_000, async () => (await acme.only()).exposed.length === 1);
  const org = (await acme.registry.lookups.org('acme'))!;
  const link = async () => (await acme.federation.link(org.id, 'globex'))!;
  return { world, acme, globex, org, link };
}

/** A signed GET, as `from`'s instance. */
async function get(world: World, from: Gateway, to: Gateway, path: string): Promise<{ status: number; text: string }> {
  const { keyId, pair } = await from.registry.keyring.signer(from.registry.keyring.instance());
  const url = `http://${to.authority}/federation/v1${path}`;
  const headers = { ...(await signRequest({ method: 'GET', url }, { keyId, key: pair, now: world.clock.now() })) };
  const answer = await to.handle(requestOf(url, 'http', to.authority, { headers, maxBytes: 0, timeoutMs: 0 }));
  return { status: answer.status, text: String(answer.body) };
}

test('the agents that a linked org exposes are listed with their address as it is written here', async (t) => {
  const { acme, org, link } = await exposing(t);
  const [agent, ...more] = await acme.federation.remote.agents(org.id);
  assert.deepEqual(more, []);
  assert.equal(agent!.address, 'globex/general/joel/billing');
  assert.equal(agent!.description, 'billing of globex');
  assert.deepEqual(agent!.accepts, ['org:acme'], 'of its policy only what concerns the caller');
  const one = ok(await acme.federation.remote.agent(await link(), 'general/joel/billing'));
  assert.deepEqual(one, agent);
});

test('a listing is fetched once a minute, and again when the peer’s side changed', async (t) => {
  const { world, acme, globex, org } = await exposing(t);
  const fetches = () => world.sent.filter(({ url }) => url.includes('/federation/v1/directory')).length;
  await Promise.all([acme.federation.remote.agents(org.id), acme.federation.remote.agents(org.id)]);
  await acme.federation.remote.agents(org.id);
  assert.equal(fetches(), 1);
  world.clock.advance(60_001);
  await acme.federation.remote.agents(org.id);
  assert.equal(fetches(), 2);
  await globex.call('PUT', '/orgs/globex/links/acme/expose', { kind: 'agent', pattern: '*', on: true });
  await world.pass(15_000, async () => (await acme.federation.remote.agents(org.id)).length === 2);
});

test('what is no longer exposed, and a link that was revoked here, vanish at once', async (t) => {
  const { world, acme, globex, org, link } = await exposing(t);
  assert.equal((await acme.federation.remote.agents(org.id)).length, 1);
  world.down.add(B);
  await acme.call('POST', '/orgs/acme/links/globex/revoke');
  assert.deepEqual(await acme.federation.remote.agents(org.id), []);
  const one = await acme.federation.remote.agent(await link(), 'general/joel/billing');
  assert.ok(one instanceof Refusal && one.code === 'not_found');
  const hidden = await get(world, acme, globex, '/directory?org=globex&for=acme');
  assert.equal(hidden.status, 200, 'globex has not heard of it yet');
});

test('a peer that does not answer keeps nobody waiting, and what was known of it stands in', async (t) => {
  const { world, acme, org } = await exposing(t);
  await acme.federation.remote.agents(org.id);
  world.clock.advance(60_001);
  let release = (): void => {};
  world.intercept = async (url) => {
    if (url.includes('/federation/v1/directory')) await new Promise<void>((resolve) => (release = resolve));
    return undefined;
  };
  const listed = acme.federation.remote.agents(org.id);
  await new Promise((resolve) => setTimeout(resolve, 30));
  world.clock.advance(5_000);
  assert.equal((await listed).length, 1);
  release();
  await new Promise((resolve) => setTimeout(resolve, 30));
  world.down.add(B);
  world.clock.advance(61_000);
  assert.equal((await acme.federation.remote.agents(org.id)).length, 1, 'stale, but better than none');
});

test('hidden and missing are one answer, byte for byte (FED-06)', async (t) => {
  const { world, acme, globex } = await exposing(t);
  const stranger = await world.gateway('stranger', 'localhost:8083');
  const q = '?org=globex&for=acme';
  const answers = await Promise.all([
    get(world, acme, globex, `/agents/general/joel/secret${q}`),
    get(world, acme, globex, `/agents/general/joel/missing${q}`),
    get(world, acme, globex, `/agents/general/nobody/billing${q}`),
    get(world, acme, globex, '/agents/general/joel/billing?org=nobody&for=acme'),
    get(world, acme, globex, '/agents/general/joel/billing?org=globex&for=sales'),
    get(world, acme, globex, `/agents/general/joel/secret/key${q}`),
    get(world, acme, globex, `/agents/general/joel/missing/key${q}`),
    get(world, acme, globex, `/agents/general/joel/billing/key${q}`),
    get(world, acme, globex, '/directory?org=nobody&for=acme'),
    get(world, stranger, globex, '/directory?org=globex&for=stranger'),
    get(world, stranger, globex, '/directory?org=globex&for=acme'),
    get(world, stranger, globex, `/agents/general/joel/billing${q}`),
  ]);
  for (const answer of answers) assert.deepEqual(answer, answers[0]);
  assert.equal(answers[0]!.status, 404);
  assert.equal((await get(world, acme, globex, `/agents/general/joel/billing${q}`)).status, 200);
});

test('a peer cannot list what it has not exposed, nor somebody else’s addresses', async (t) => {
  const { world, acme, org } = await exposing(t);
  const entry = {
    did: 'x',
    description: 'd'.repeat(9_000),
    adapter: '',
    online: true,
    last_seen: 1,
    node: null,
    accepts: ['org:acme'],
  };
  world.intercept = async (url) => {
    if (!url.includes('/federation/v1/directory')) return undefined;
    const agents = [
      { ...entry, address: 'globex/general/joel/billing' },
      { ...entry, address: 'globex/general/joel/secret' },
      { ...entry, address: 'acme/general/joel/billing/x' },
      { ...entry, address: 'A/../x/billing' },
      null,
      7,
    ];
    return { status: 200, headers: new Map(), body: Buffer.from(JSON.stringify({ agents })) };
  };
  const listed = await acme.federation.remote.agents(org.id);
  assert.deepEqual(
    listed.map(({ address }) => address),
    ['globex/general/joel/billing'],
  );
  assert.equal(listed[0]!.description.length, 2_000);
});

test('the keys of an exposed agent’s node cross the link', async (t) => {
  const { acme, globex, link } = await exposing(t);
  const none = await acme.federation.remote.key(await link(), 'general/joel/billing');
  assert.ok(none instanceof Refusal && none.code === 'not_found');
  await globex.db.query("update nodes set public_key = 'A', enc_key = 'B', enc_sig = 'C'");
  const key = ok(await acme.federation.remote.key(await link(), 'general/joel/billing'));
  assert.deepEqual([key.signing_key, key.enc_key, key.enc_sig], ['A', 'B', 'C']);
  assert.ok(key.fingerprint.length > 8);
});

test('a link that only one side still believes in is mended when it is used', async (t) => {
  const { world, acme, globex, org } = await exposing(t);
  await globex.call('POST', '/orgs/globex/links/acme/revoke');
  await world.pass(15_000, async () => (await acme.only()).state === 'revoked');
  // As if the news had been lost and given up.
  await acme.db.query('update links set our_want = our_rev, their_want = their_rev, voided = 0, their_rev = 1');
  await acme.db.query("insert into link_exposures select id, 'theirs', 'agent', '*' from links");
  world.clock.advance(60_001);
  assert.deepEqual(await acme.federation.remote.agents(org.id), []);
  await world.pass(5_000, async () => (await acme.only()).state === 'revoked');
});
