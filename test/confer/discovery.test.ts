import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';
import { lookUpPeers, readFacts } from '../../src/federation/lookup.ts';
import { DidResolver } from '../../src/identity/resolver.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { createFetch } from '../../src/lib/fetch.ts';
import { Refusal } from '../../src/lib/refusal.ts';
import { team, testGateway } from '../support/gateway.ts';
import { isHuge, says } from '../support/peer.ts';
import { conferPeer } from './peer.ts';

const globex = await testGateway({ after }, { org: 'globex', admin: 'bob' });
const did = `${globex.did}:agents:bob:erp:support`;
const capability = { type: 'qa', scope: ['X100', 'Modbus'], languages: ['en', 'zh', 'de'] };
const fetch = createFetch({ allowLoopback: true, clock: systemClock });
after(() => fetch.close());
const deps = { fetch, resolver: new DidResolver({ fetch, clock: systemClock, loopback: true }), loopback: true };

before(async () => {
  await team(globex, 'erp', ['bob']);
  await globex.admin.announce('globex/erp/bob/support', {
    allow: ['anyone'],
    description: 'Technical support',
    name: 'Support',
    primary_language: 'de',
    style: 'localize-style',
    languages: ['de'],
    capabilities: [capability],
    profile: {
      name: 'Support',
      primary_language: 'de',
      style: 'localize-style',
      capabilities: [capability],
      trust: { verifiedBy: ['did:web:nanda.org'], issuedAt: '2024-10-01T00:00:00Z' },
    },
  });
  await globex.admin.announce('globex/erp/bob/hidden');
});

it('AgentFacts have every field, and are the same at each of their addresses', async () => {
  const get = (path: string) => globex.call('GET', path, { token: null });
  const facts = (await get(`/a2a/v1/agent-facts/${encodeURIComponent(did)}`)).json;
  const { url, authority } = globex;
  assert.ok(facts['@context'], JSON.stringify(facts));
  assert.equal(facts['@context'], 'https://nanda.dev/schemas/agent/v1');
  assert.equal(facts.did, did);
  assert.deepEqual(facts.owner, { type: 'Organization', name: 'globex', url });
  assert.deepEqual(facts.endpoints, { a2a: `${url}/a2a/v1`, stream: `${url}/a2a/v1/stream` });
  assert.deepEqual(facts.publicKey, {
    id: `did:web:${authority.replace(':', '%3A')}:agents:bob#key-1`,
    type: 'Ed25519VerificationKey2020',
  });
  assert.deepEqual(facts.trust, { verifiedBy: ['did:web:nanda.org'], issuedAt: '2024-10-01T00:00:00Z' });
  for (const field of ['name', 'description', 'primary_language', 'style', 'capabilities', 'trust'])
    assert.ok(field in facts, field);
  for (const path of [
    '/agents/bob/agent.json',
    '/agents/bob/erp/support/agent.json',
    `/a2a/v1/agent-facts/${encodeURIComponent(`${globex.did}:agents:bob`)}`,
  ])
    assert.deepEqual((await get(path)).json, facts, path);
  const [row, ...more] = (await get('/.well-known/agents.json')).json.agents;
  assert.deepEqual(more, []);
  for (const [field, value] of Object.entries(facts))
    if (field !== '@context' && field !== 'description') assert.deepEqual(row[field], value, field);
  assert.equal(row.is_public, true);
  for (const other of [
    `${globex.did}:agents:bob:erp:hidden`,
    `${globex.did}:agents:nobody`,
    globex.did,
    'did:web:elsewhere.test:agents:bob',
    'x',
  ])
    assert.equal((await get(`/a2a/v1/agent-facts/${encodeURIComponent(other)}`)).status, 404, other);
});

it('by domain, DID and user one finds whom one may add', async () => {
  const found = await lookUpPeers('domain', globex.authority, deps);
  assert.ok(!(found instanceof Refusal));
  assert.deepEqual(
    found.map((one) => one.did),
    [did],
  );
  const byUser = await lookUpPeers('username', `bob@${globex.authority}`, deps);
  assert.ok(!(byUser instanceof Refusal));
  assert.equal(byUser[0]!.did, `${globex.did}:agents:bob`);
  assert.equal(byUser[0]!.endpoint, `${globex.url}/a2a/v1`);
  const byDid = await lookUpPeers('did', did, deps);
  assert.ok(!(byDid instanceof Refusal));
  assert.equal(byDid[0]!.did, did);
});

it('what others say of themselves is bounded, and nobody speaks for another host', async () => {
  const zoe = await conferPeer({ after });
  const mine = {
    did: zoe.agent,
    name: 'n'.repeat(1_000),
    capabilities: Array.from({ length: 100 }, () => ({ type: 't', scope: ['s'] })),
  };
  zoe.answer(
    '/.well-known/agents.json',
    says({
      agents: [
        mine,
        { did: 'did:web:bank.test:agents:x' },
        null,
        7,
        ...Array.from({ length: 50 }, () => ({ did: zoe.agent })),
      ],
    }),
  );
  const found = await lookUpPeers('domain', zoe.authority, deps);
  assert.ok(!(found instanceof Refusal));
  assert.ok(found.length <= 20 && found.every((one) => one.did === zoe.agent));
  assert.equal(found[0]!.name.length, 128);
  assert.equal(found[0]!.capabilities.length, 64);
  assert.equal(readFacts({ did: 'did:web:bank.test:agents:x' }, zoe.instance.did), null);
  zoe.answer('/.well-known/agents.json', isHuge(zoe.owner, 600_000));
  assert.ok((await lookUpPeers('domain', zoe.authority, deps)) instanceof Refusal);
  for (const bad of ['', 'a b', 'http://x/y/z', 'acme.com:99999', '../etc'])
    assert.ok((await lookUpPeers('domain', bad, deps)) instanceof Refusal, bad);
  const guarded = createFetch({ allowLoopback: false, clock: systemClock });
  const strict = { ...deps, fetch: guarded };
  const refused = await lookUpPeers('domain', '127.0.0.1:1', strict);
  assert.ok(refused instanceof Refusal && refused.words === 'Private addresses not allowed', JSON.stringify(refused));
  await guarded.close();
});
