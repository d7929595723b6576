import assert from 'node:assert/strict';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import type { Registry } from '../../src/directory/index.ts';
import { createLookups } from '../../src/exchange/lookup.ts';
import type { Link, RemoteDirectory } from '../../src/federation/types.ts';
import { createGateStore, createGates, type GateDeps } from '../../src/gates/index.ts';
import { toBase64url } from '../../src/identity/encoding.ts';
import { generateSeed, keyPair } from '../../src/identity/keys.ts';
import { EncryptionKey, proveEncryptionKey } from '../../src/identity/redsyn-cipher.ts';
import { redsynFingerprint } from '../../src/identity/redsyn-seal.ts';
import { refuse } from '../../src/lib/refusal.ts';
import { createFront } from '../../src/wires/front.ts';
import { agentRoutes } from '../../src/wires/redsyn/agents.ts';
import { renderRefusal } from '../../src/wires/redsyn/errors.ts';
import { loginRoutes } from '../../src/wires/redsyn/login.ts';
import { meRoutes } from '../../src/wires/redsyn/me.ts';
import { orgRoutes } from '../../src/wires/redsyn/orgs.ts';
import { authority, first, house } from '../directory/fixture.ts';
import { type Lifetime, silent } from '../support/database.ts';

interface Reply {
  status: number;
  headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: JSON of many calls
  json: any;
  text: string;
}

type Call = (
  method: string,
  path: string,
  options?: { token?: string; body?: unknown; raw?: string; headers?: Record<string, string> },
) => Promise<Reply>;

/** The routes behind the real front and the real gates; links and the far side are the test's own. */
async function serve(
  lifetime: Lifetime,
  given: {
    links?: (registry: Registry) => Promise<Link[]>;
    remote?: Partial<RemoteDirectory>;
    plan?: 'free' | 'enterprise';
  } = {},
) {
  const { registry, clock, database, start } = await house(lifetime, { plan: given.plan ?? 'enterprise' });
  await start();
  let links: Link[] = [];
  const federation = {
    link: async (orgId: string, peer: string) =>
      links.find((l) => l.orgId === orgId && (l.peerHandle === peer || l.peerDomain === peer)) ?? null,
    linksOf: async (orgId: string) => links.filter((l) => l.orgId === orgId),
  };
  const gates = createGates({
    clock,
    directory: registry.lookups,
    federation,
    lookups: createLookups(database.db),
    resolver: {},
    store: createGateStore(database.db, clock),
    self: { domain: authority, authorities: [authority] },
    rates: { ip: 600, peer: 100 },
  } as unknown as GateDeps);
  const missing = async () => refuse('not_found');
  const remote = { agents: async () => [], agent: missing, key: missing, ...given.remote };
  const deps = { identify: gates.identify, directory: registry.lookups, registry, federation, remote };
  const front = createFront({
    routes: [...loginRoutes(deps), ...meRoutes(deps), ...orgRoutes(deps), ...agentRoutes(deps)],
    renderers: { '/': renderRefusal },
    trustProxy: [],
    scheme: 'http',
    requestId: () => 'r1',
    log: silent as never,
  });
  await new Promise<void>((resolve) => front.server.listen(0, '127.0.0.1', resolve));
  lifetime.after(() => front.close(0));
  const base = `http://127.0.0.1:${(front.server.address() as AddressInfo).port}/redsyn/v1`;
  const call: Call = async (method, path, { token, body, raw, headers } = {}) => {
    const text = raw ?? (body === undefined ? undefined : JSON.stringify(body));
    const response = await fetch(base + path, {
      method,
      headers: {
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(text !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(text !== undefined && { body: text }),
    });
    const answer = await response.text();
    assert.equal(response.headers.get('redsyn-version'), '2026-09-25', `${method} ${path} says its version`);
    return { status: response.status, headers: response.headers, json: JSON.parse(answer), text: answer };
  };
  const admin = first.adminToken!;
  const newcomer = async (me: string, org = 'acme', by = admin): Promise<string> => {
    const invited = await call('POST', `/orgs/${org}/invites`, {
      token: by,
      body: { email: `${me}@example.com`, team: 'general' },
    });
    assert.equal(invited.status, 201, invited.text);
    const login = await call('POST', '/login', { body: { code: invited.json.code, node: `${me}-laptop` } });
    assert.equal(login.status, 201, login.text);
    const joined = await call('POST', `/orgs/${org}/join`, { token: login.json.token, body: { me } });
    assert.equal(joined.status, 200, joined.text);
    return login.json.token;
  };
  return { call, admin, newcomer, registry, clock, database, link: (all: Link[]) => (links = all) };
}

test('getting in: invite, login, join, me, a further node, and its end', async (t) => {
  const { call, admin } = await serve(t);
  assert.equal((await call('POST', '/orgs/acme/teams', { token: admin, body: { handle: 'finance' } })).status, 201);
  const invited = await call('POST', '/orgs/acme/invites', {
    token: admin,
    body: { email: 'ana@example.com', team: 'finance' },
  });
  assert.equal(invited.status, 201);
  assert.equal(invited.headers.get('cache-control'), 'no-store');
  const { json: login } = await call('POST', '/login', { body: { code: invited.json.code, node: 'laptop' } });
  assert.match(login.token, /^ghn_/);
  assert.equal(login.person.email, 'ana@example.com');
  const before = await call('GET', '/me', { token: login.token });
  assert.deepEqual(before.json.orgs, []);
  assert.deepEqual(before.json.invites, [{ org: 'acme', team: 'finance', expires_at: invited.json.expires_at }]);
  const joined = await call('POST', '/orgs/acme/join', { token: login.token, body: { me: 'ana' } });
  assert.deepEqual(joined.json, {
    org: 'acme',
    me: 'ana',
    role: 'member',
    did: 'did:web:acme.example:agents:ana',
    teams: ['finance'],
  });

  const { json: made } = await call('POST', '/nodes', { token: login.token, body: { name: 'server' } });
  assert.deepEqual(Object.keys(made).sort(), ['id', 'name', 'token']);
  const me = await call('GET', '/me', { token: made.token });
  assert.equal(me.json.node.name, 'server');
  assert.deepEqual(me.json.versions.known, ['2026-09-25']);
  assert.deepEqual(
    me.json.orgs.map((o: { org: string; teams: string[] }) => [o.org, o.teams]),
    [['acme', ['finance']]],
  );
  const { json: list } = await call('GET', '/nodes', { token: login.token });
  assert.deepEqual(
    // Made within one millisecond of a clock that stands still: in no order.
    list.nodes.map((n: { name: string }) => n.name).sort(),
    ['laptop', 'server'],
  );
  assert.ok(!JSON.stringify(list).includes('ghn_'));
  assert.equal((await call('DELETE', `/nodes/${made.id}`, { token: admin })).status, 404, 'not another person’s');
  assert.equal((await call('DELETE', `/nodes/${made.id}`, { token: login.token })).status, 200);
  assert.equal((await call('GET', '/me', { token: made.token })).status, 401);
});

test('two who log in with one code at the same moment: one is in', async (t) => {
  const { call, admin } = await serve(t);
  const { json } = await call('POST', '/orgs/acme/invites', { token: admin, body: { email: 'ana@example.com' } });
  assert.equal(json.team, 'general');
  const both = await Promise.all(
    [1, 2, 3].map((n) => call('POST', '/login', { body: { code: json.code, node: `n${n}` } })),
  );
  assert.deepEqual(both.map((r) => r.status).sort(), [201, 401, 401]);
});

test('orgs, teams and their members; what the plan leaves', async (t) => {
  const { call, admin, newcomer } = await serve(t, { plan: 'free' });
  const ana = await newcomer('ana');
  const made = await Promise.all(
    [ana, ana].map((token) => call('POST', '/orgs', { token, body: { handle: 'lab', me: 'ana' } })),
  );
  assert.deepEqual(made.map((r) => r.status).sort(), [201, 409]);
  assert.deepEqual(made.find((r) => r.status === 201)!.json, {
    handle: 'lab',
    org: 'lab',
    me: 'ana',
    role: 'admin',
    did: 'did:web:acme.example:orgs:lab:agents:ana',
    teams: ['general'],
  });
  assert.equal((await call('POST', '/orgs/acme/teams', { token: ana, body: { handle: 'ops' } })).status, 403);
  assert.equal((await call('POST', '/orgs/acme/teams', { token: admin, body: { handle: 'ops' } })).status, 201);
  assert.equal((await call('POST', '/orgs/acme/teams', { token: admin, body: { handle: 'ops' } })).status, 409);
  const add = (who: string) => call('POST', '/orgs/acme/teams/ops/members', { token: admin, body: { who } });
  assert.equal((await add('nobody')).status, 404);
  assert.deepEqual((await add('ana')).json, { org: 'acme', team: 'ops', who: 'ana' });
  assert.equal(
    (await call('PUT', '/agents/acme/ops/ana/close', { token: ana, body: { listening: true } })).status,
    201,
  );
  const usage = await call('GET', '/orgs/acme/usage', { token: ana });
  assert.deepEqual(
    [usage.json.plan, usage.json.agents, usage.json.messages_per_day, usage.json.links],
    ['free', { used: 1, limit: 5 }, { used: 0, limit: 1000 }, { used: 0, limit: 1 }],
  );
  assert.equal((await call('GET', '/orgs/lab/usage', { token: admin })).status, 404);
});

test('announce and look at an agent', async (t) => {
  const { call, admin, newcomer, clock, database } = await serve(t);
  const ana = await newcomer('ana');
  const path = '/agents/acme/general/ana/close';
  const body = {
    description: 'closes the month',
    listening: true,
    allow: ['org', 'org'],
    signed_only: true,
    unknown: { field: 1 },
  };
  assert.equal((await call('PUT', path, { token: ana, body })).status, 201);
  assert.equal((await call('PUT', path, { token: ana, body: { ...body, listening: false, allow: [] } })).status, 200);
  await database.db.query('update mailboxes set last_seen = $1', [clock.now()]);
  const seen = await call('GET', path, { token: admin });
  assert.deepEqual(seen.json, {
    address: 'acme/general/ana/close',
    did: 'did:web:acme.example:agents:ana:general:close',
    description: 'closes the month',
    adapter: '',
    online: true,
    last_seen: Math.floor(clock.now() / 1000),
    node: 'ana-laptop',
    accepts: ['org'],
    trust: 'none',
    signed_only: true,
    encrypted_only: false,
    sessions: [],
  });
  assert.equal(
    (await call('GET', '/agents/acme.example/general/ana/close', { token: admin })).json.address,
    seen.json.address,
  );
  await call('PUT', '/agents/acme/general/ana/away', { token: ana, body: { listening: true } });
  const all = await call('GET', '/directory?sessions=1', { token: admin });
  assert.deepEqual(
    all.json.agents.map((a: { address: string }) => a.address),
    ['acme/general/ana/away', 'acme/general/ana/close'],
  );
  assert.deepEqual(all.json.agents[1].sessions, []);
  const online = await call('GET', '/directory?online=1', { token: admin });
  assert.deepEqual(
    online.json.agents.map((a: { address: string }) => a.address),
    ['acme/general/ana/close'],
  );
  assert.equal('sessions' in online.json.agents[0], false);
});

test('full trust asks for `allow` and takes only signed requests', async (t) => {
  const { call, admin } = await serve(t);
  const path = '/agents/acme/general/joel/root';
  const refused = await call('PUT', path, { token: admin, body: { listening: true, trust: 'full' } });
  assert.deepEqual([refused.status, refused.json.field], [422, 'allow']);
  const taken = await call('PUT', path, {
    token: admin,
    body: { listening: true, trust: 'full', allow: ['ana'], signed_only: false },
  });
  assert.deepEqual([taken.status, taken.json.trust, taken.json.signed_only], [201, 'full', true]);
});

test('the sixth agent of the free plan: 403 with quota', async (t) => {
  const { call, admin } = await serve(t, { plan: 'free' });
  const announce = (n: number) =>
    call('PUT', `/agents/acme/general/joel/a${n}`, { token: admin, body: { listening: true } });
  for (let n = 1; n <= 5; n++) assert.equal((await announce(n)).status, 201);
  const sixth = await announce(6);
  assert.deepEqual([sixth.status, sixth.json.quota, sixth.json.code], [403, true, 'quota_exceeded']);
  assert.equal((await announce(5)).status, 200);
});

test('node keys: registered, replaced only with rotate, and given to who seals for the agent', async (t) => {
  const { call, admin, newcomer } = await serve(t);
  const ana = await newcomer('ana');
  const path = '/agents/acme/general/ana/close';
  const put = (body: unknown) => call('PUT', '/nodes/key', { token: ana, body });
  const [one, two] = [keyPair(generateSeed()), keyPair(generateSeed())];
  const key = (pair: typeof one) => toBase64url(pair.publicKey.raw);
  assert.equal((await put({ public_key: 'AAAA' })).json.field, 'public_key');
  assert.equal(
    (await put({ public_key: toBase64url(Buffer.concat([Buffer.of(1), Buffer.alloc(31)])) })).status,
    422,
    'a weak key',
  );
  assert.equal((await put({ public_key: key(one) })).status, 200);
  await call('PUT', path, { token: ana, body: { listening: true } });
  assert.equal((await call('GET', `${path}/key`, { token: admin })).status, 404, 'no key to encrypt for yet');

  const enc = new EncryptionKey().publicKey;
  const forged = { public_key: key(one), enc_key: enc, enc_sig: proveEncryptionKey(enc, two) };
  assert.equal((await put(forged)).json.field, 'enc_sig');
  assert.equal((await put({ public_key: key(one), enc_key: enc })).json.field, 'enc_sig');
  const enc_sig = proveEncryptionKey(enc, one);
  assert.equal((await put({ public_key: key(one), enc_key: enc, enc_sig })).status, 200);
  const got = await call('GET', `${path}/key`, { token: admin });
  assert.deepEqual(got.json, {
    node: 'ana-laptop',
    signing_key: key(one),
    enc_key: enc,
    enc_sig,
    fingerprint: redsynFingerprint(key(one)),
  });
  assert.equal((await put({ public_key: key(one) })).status, 200, 'the same key again keeps the encryption key');
  assert.equal((await call('GET', `${path}/key`, { token: admin })).status, 200);

  const races = await Promise.all([put({ public_key: key(two) }), put({ public_key: key(two) })]);
  assert.deepEqual(
    races.map((r) => r.status),
    [409, 409],
  );
  assert.equal((await put({ public_key: key(two), rotate: true })).status, 200);
  assert.equal((await call('GET', `${path}/key`, { token: admin })).status, 404, 'the old proof is not of the new key');
});

test('versions: every answer says one, an unknown one is 400 with the known list', async (t) => {
  const { call, admin } = await serve(t);
  assert.equal((await call('GET', '/me', { token: admin, headers: { 'redsyn-version': '2026-09-25' } })).status, 200);
  for (const path of ['/me', '/login']) {
    const method = path === '/me' ? 'GET' : 'POST';
    const refused = await call(method, path, {
      token: admin,
      headers: { 'redsyn-version': '2020-01-01' },
      ...(method === 'POST' && { body: {} }),
    });
    assert.deepEqual([refused.status, refused.json.known, refused.json.status], [400, ['2026-09-25'], 400]);
  }
  assert.equal((await call('GET', '/nowhere', { token: admin })).status, 404);
  assert.equal((await call('DELETE', '/me', { token: admin })).status, 405);
});

test('bad input gets a clear error and changes nothing', async (t) => {
  const { call, admin } = await serve(t);
  const bad: Array<
    [string, string, { body?: unknown; raw?: string; token?: string; headers?: Record<string, string> }, number, string]
  > = [
    ['POST', '/nodes', { body: { name: 'x' } }, 401, 'unauthenticated'],
    ['POST', '/nodes', { token: 'ghn_wrong', body: { name: 'x' } }, 401, 'unauthenticated'],
    ['POST', '/nodes', { token: admin, raw: '{"name":' }, 400, 'malformed_json'],
    ['POST', '/nodes', { token: admin, raw: '{"name":"a","name":"b"}' }, 400, 'duplicate_key'],
    ['POST', '/nodes', { token: admin, body: { name: 7 } }, 422, 'invalid_field'],
    ['POST', '/nodes', { token: admin, body: {} }, 422, 'invalid_field'],
    ['POST', '/nodes', { token: admin, body: { name: 'a\u0000b' } }, 422, 'invalid_field'],
    ['POST', '/nodes', { token: admin, body: [] }, 422, 'invalid_field'],
    [
      'POST',
      '/nodes',
      { token: admin, raw: 'name=x', headers: { 'content-type': 'application/x-www-form-urlencoded' } },
      415,
      'unsupported_media_type',
    ],
    ['POST', '/nodes', { token: admin, body: { name: 'x'.repeat(201) } }, 422, 'invalid_field'],
    ['POST', '/orgs', { token: admin, body: { handle: 'Lab', me: 'joel' } }, 422, 'invalid_field'],
    ['POST', '/orgs', { token: admin, body: { handle: 'lab', me: 'org' } }, 422, 'invalid_field'],
    ['POST', '/orgs/acme/teams', { token: admin, body: { handle: 'agents' } }, 422, 'invalid_field'],
    ['POST', '/orgs/acme/invites', { token: admin, body: { email: 'no address' } }, 422, 'invalid_field'],
    ['POST', '/orgs/acme/invites', { token: admin, body: { email: 'a@b.c', team: 'none' } }, 404, 'not_found'],
    ['POST', '/login', { body: { code: 'ghi_wrong', node: 'x' } }, 401, 'unauthenticated'],
    ['PUT', '/agents/acme/general/joel/UP', { token: admin, body: { listening: true } }, 404, 'not_found'],
    ['PUT', '/agents/acme/general/joel/a%2Fb', { token: admin, body: { listening: true } }, 404, 'not_found'],
    ['PUT', '/agents/acme/general/joel/a', { token: admin, body: { listening: 'yes' } }, 422, 'invalid_field'],
    [
      'PUT',
      '/agents/acme/general/joel/a',
      { token: admin, body: { listening: true, allow: 'org' } },
      422,
      'invalid_field',
    ],
    [
      'PUT',
      '/agents/acme/general/joel/a',
      { token: admin, body: { listening: true, trust: 'some' } },
      422,
      'invalid_field',
    ],
    [
      'PUT',
      '/agents/acme/general/joel/a',
      { token: admin, body: { profile: { x: 'y'.repeat(17_000) } } },
      422,
      'invalid_field',
    ],
  ];
  for (const [method, path, options, status, code] of bad) {
    const { json } = await call(method, path, options);
    const what = `${method} ${path} ${JSON.stringify(options).slice(0, 120)}: ${JSON.stringify(json)}`;
    assert.deepEqual([json.status, json.code], [status, code], what);
    assert.equal(typeof json.error, 'string', what);
    if (code === 'invalid_field' && !options.raw && !Array.isArray(options.body))
      assert.ok('field' in json || json.error.includes('U+0000'), what);
  }
  assert.deepEqual((await call('GET', '/nodes', { token: admin })).json.nodes.length, 1);
  assert.deepEqual((await call('GET', '/directory', { token: admin })).json.agents, []);
});

test('FED-06: hidden and missing are the same to another org; the own org gets the reason', async (t) => {
  const { call, admin, newcomer, registry, link } = await serve(t);
  const eve = await newcomer('eve');
  await call('POST', '/orgs', { token: admin, body: { handle: 'globex', me: 'bob' } });
  await call('POST', '/orgs', { token: eve, body: { handle: 'lab', me: 'eve' } });
  for (const name of ['billing', 'secret', 'open']) {
    const allow = name === 'open' ? ['anyone', 'eve', 'org:lab'] : [];
    await call('PUT', `/agents/globex/general/bob/${name}`, { token: admin, body: { listening: true, allow } });
  }
  const [globex, lab] = await Promise.all(['globex', 'lab'].map((h) => registry.lookups.org(h)));
  const look = async (name: string) => {
    const { status, text } = await call('GET', `/agents/${name}`, { token: eve });
    return `${status} ${text}`;
  };
  const missing = await look('globex/general/bob/missing');
  for (const name of [
    'globex/general/bob/billing',
    'nowhere/general/bob/billing',
    'globex/general/nobody/billing',
    'globex.com/a/b/c',
  ]) {
    assert.equal(await look(name), missing, `${name}, without a link`);
    assert.equal(await look(`${name}/key`), missing, `${name}/key, without a link`);
  }
  const side = (own: string, peer: string, peerHandle: string, more: Partial<Link>): Link =>
    ({
      id: own,
      orgId: own,
      peerOrgId: peer,
      peerHandle,
      peerDomain: null,
      state: 'active',
      ours: [],
      theirs: [],
      signedOnly: true,
      ips: [],
      ...more,
    }) as Link;
  const exposure = [{ kind: 'agent' as const, pattern: 'general/bob/billing' }];
  const sides = (state: Link['state']) => [
    side(globex!.id, lab!.id, 'lab', { ours: exposure, state }),
    side(lab!.id, globex!.id, 'globex', { theirs: exposure, state }),
  ];
  link(sides('active'));
  assert.match(await look('globex/general/bob/billing'), /^200/);
  assert.equal(await look('globex/general/bob/billing/key'), missing);
  for (const name of ['globex/general/bob/secret', 'globex/general/bob/missing']) {
    assert.equal(await look(name), missing, `${name}, linked`);
    assert.equal(await look(`${name}/key`), missing, `${name}/key, linked`);
  }
  const open = await call('GET', '/agents/globex/general/bob/open', { token: eve });
  assert.deepEqual(open.json.accepts, ['anyone', 'org:lab'], 'whom else it takes is not told');
  const listed = async () =>
    (await call('GET', '/directory', { token: eve })).json.agents.map((a: { address: string }) => a.address);
  assert.deepEqual(await listed(), ['globex/general/bob/billing']);
  link(sides('revoked'));
  assert.equal(await look('globex/general/bob/billing'), missing, 'a revocation acts at once');
  assert.deepEqual(await listed(), []);

  const own = await call('GET', '/agents/globex/general/bob/missing', { token: admin });
  assert.equal(own.status, 404);
  assert.match(own.json.error, /no agent general\/bob\/missing in globex/);
});

test('FED-06: an agent of a linked gateway is asked for there, and its 404 is ours', async (t) => {
  const asked: string[] = [];
  const entry = {
    address: 'globex.com/erp/bob/billing',
    linkId: 'l1',
    description: 'bills',
    online: true,
    last_seen: 5,
    node: null,
    accepts: ['org:acme'],
    trust: 'none' as const,
    signed_only: true,
    encrypted_only: false,
  };
  const { call, admin, registry, link } = await serve(t, {
    remote: {
      agents: async () => [entry],
      agent: async (_link, path) => {
        asked.push(path);
        return path === 'erp/bob/billing' ? entry : refuse('not_found');
      },
      key: async () => refuse('unreachable'),
    },
  });
  const acme = await registry.lookups.org('acme');
  const far = {
    id: 'l1',
    orgId: acme!.id,
    peerHandle: 'globex.com',
    peerDomain: 'globex.com',
    peerOrgId: null,
    state: 'active',
  } as Link;
  const unlinked = await call('GET', '/agents/globex.com/erp/bob/hidden', { token: admin });
  link([far]);
  const { linkId: _link, ...shown } = entry;
  assert.deepEqual((await call('GET', '/agents/globex.com/erp/bob/billing', { token: admin })).json, shown);
  const hidden = await call('GET', '/agents/globex.com/erp/bob/hidden', { token: admin });
  assert.equal(hidden.text, unlinked.text);
  assert.deepEqual(asked, ['erp/bob/billing', 'erp/bob/hidden']);
  assert.equal((await call('GET', '/agents/globex.com/erp/bob/billing/key', { token: admin })).status, 502);
  assert.deepEqual((await call('GET', '/directory?online=1', { token: admin })).json.agents, [shown]);
});
