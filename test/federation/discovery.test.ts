import assert from 'node:assert/strict';
import test from 'node:test';
import { Discovery } from '../../src/federation/discovery.ts';
import { DidResolver } from '../../src/identity/resolver.ts';
import { ManualClock } from '../../src/lib/clock.ts';
import { type Fetch, FetchRefused } from '../../src/lib/fetch-types.ts';
import { Refusal } from '../../src/lib/refusal.ts';
import { ok } from '../directory/fixture.ts';

const did = 'did:web:globex.test';

function world(pages: Record<string, unknown>) {
  const clock = new ManualClock();
  const asked: Array<{ url: string; maxBytes: number }> = [];
  const fetch: Fetch = async (url, { maxBytes }) => {
    asked.push({ url, maxBytes });
    const page = pages[url];
    if (page === undefined) return { status: 404, headers: new Map(), body: Buffer.from('') };
    if (page instanceof FetchRefused) throw page;
    if (typeof page === 'number')
      return { status: page, headers: new Map([['location', 'http://127.0.0.1/']]), body: Buffer.from('') };
    return {
      status: 200,
      headers: new Map([['content-type', 'application/json']]),
      body: Buffer.from(JSON.stringify(page)),
    };
  };
  const resolver = new DidResolver({ fetch, clock });
  return { clock, asked, discovery: new Discovery({ clock, fetch, resolver, loopback: false }), pages };
}

const base = 'https://globex.test';
const pages = () => ({
  [`${base}/.well-known/did.json`]: { id: did, verificationMethod: [] },
  [`${base}/.well-known/agent-card.json`]: { name: 'front desk' },
  [`${base}/.well-known/agents.json`]: {
    agents: [
      { did: `${did}:agents:bob:agent`, name: 'Bob', description: 'x', card_url: `${base}/agents/bob/agent-card.json` },
      { did: 'did:web:evil.test:agents:bob', name: 'not theirs' },
      { did: `${did}:agents:eve`, name: 7, card_url: 'https://evil.test/card.json' },
      null,
    ],
  },
});

test('an authority is looked up by its own documents, within the limits', async () => {
  const { discovery, asked, clock } = world(pages());
  const found = ok(await discovery.look('globex.test'));
  assert.equal(found.did, did);
  assert.deepEqual(
    found.agents.map((agent) => agent.did),
    [`${did}:agents:bob:agent`, `${did}:agents:eve`],
  );
  assert.deepEqual(found.cards, [`${base}/.well-known/agent-card.json`, `${base}/agents/bob/agent-card.json`]);
  assert.deepEqual(
    asked.map(({ maxBytes }) => maxBytes),
    [64 * 1024, 256 * 1024, 256 * 1024],
  );
  await discovery.look('globex.test');
  assert.equal(asked.length, 3, 'kept for a minute');
  clock.advance(60_001);
  await Promise.all([discovery.look('globex.test'), discovery.look('globex.test')]);
  assert.equal(asked.length, 6, 'and shared by who asks at the same time');
});

test('redirects are not followed (WEB-02)', async () => {
  for (const status of [301, 302, 307, 308]) {
    const all = world({
      ...pages(),
      [`${base}/.well-known/agents.json`]: status,
      [`${base}/.well-known/agent-card.json`]: status,
    });
    const found = ok(await all.discovery.look('globex.test'));
    assert.deepEqual([found.agents, found.cards], [[], []]);
    assert.ok(all.asked.every(({ url }) => url.startsWith(base)));
    const none = world({ [`${base}/.well-known/did.json`]: status });
    assert.ok((await none.discovery.look('globex.test')) instanceof Refusal);
    assert.equal(none.asked.length, 1);
  }
});

test('a document of another DID, none, and one that never comes are failures, kept for 10 s', async () => {
  for (const page of [{ id: 'did:web:evil.test' }, undefined, new FetchRefused('timeout', 'late')]) {
    const { discovery, asked, clock } = world({ [`${base}/.well-known/did.json`]: page });
    assert.ok((await discovery.look('globex.test')) instanceof Refusal);
    await discovery.look('globex.test');
    assert.equal(asked.length, 1);
    clock.advance(10_001);
    await discovery.look('globex.test');
    assert.equal(asked.length, 2);
  }
});

test('what is no authority of a did:web is not asked at all (DID-02)', async () => {
  const { discovery, asked } = world(pages());
  for (const authority of [
    'globex.test/x',
    'a@b.test',
    '169.254.169.254',
    '10.0.0.1',
    'x..y',
    'GLOBEX.test',
    'a:b:c',
    'a%2fb',
  ]) {
    const result = await discovery.look(authority);
    assert.ok(result instanceof Refusal && result.code === 'invalid_did', authority);
  }
  assert.equal(asked.length, 0);
});
