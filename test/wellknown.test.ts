import assert from 'node:assert/strict';
import http from 'node:http';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import { describe, mock, test } from 'node:test';
import { AgentCard } from '@a2a-js/sdk';
import { DefaultAgentCardResolver } from '@a2a-js/sdk/client';
import { Resolver } from 'did-resolver';
import { getResolver } from 'web-did-resolver';
import { agentDid, instanceDid, ownerDid } from '../src/directory/dids.ts';
import type { DidFacts } from '../src/directory/facts.ts';
import type { Agent } from '../src/directory/types.ts';
import { parseDid } from '../src/identity/did.ts';
import { pickKey, readDocument } from '../src/identity/document.ts';
import { KeyPair } from '../src/identity/keys.ts';
import { ManualClock } from '../src/lib/clock.ts';
import { Refusal } from '../src/lib/refusal.ts';
import { REDSYN_EXTENSION, SIGNATURE_EXTENSION } from '../src/wires/a2a/protocol.ts';
import { wellknownRoutes } from '../src/wires/wellknown.ts';
import * as card from '../wellknown/agent-card.ts';
import type { Sources } from '../wellknown/index.ts';
import { type Ask, agent, ask, json } from './a2a/fakes.ts';

const authority = 'acme.test';
const base = 'https://acme.test/gw';

function pair(seed: string): KeyPair {
  return new KeyPair(Buffer.alloc(32, seed));
}

function methods(did: string, seed: string): DidFacts['methods'] {
  return [
    { id: `${did}#key-1`, publicKeyMultibase: pair(`${seed}-old`).publicKeyMultibase, state: 'retired', activeFrom: 0 },
    { id: `${did}#key-2`, publicKeyMultibase: pair(seed).publicKeyMultibase, state: 'active', activeFrom: 0 },
  ];
}

function didFacts(did: string, seed: string, of: Agent | null, isPublic = true): DidFacts {
  return { did, methods: methods(did, seed), alsoKnownAs: [pair(seed).did], controller: did, agent: of, isPublic };
}

const clock = new ManualClock();

/** The documents of an instance with these agents; the first sits at the front desk and is its owner's default. */
function routes(agents: readonly Agent[]) {
  const open = (one: Agent): boolean => one.isListed || one.allow.includes('anyone');
  const first = (user: string): Agent | undefined => agents.find((one) => one.user === user);
  const sources: Sources = {
    place: { base, authority },
    org: 'acme',
    facts: {
      instance: async () => didFacts(instanceDid(authority), 'instance', null),
      async owner(org, user) {
        const of = first(user);
        return of && org === null ? didFacts(ownerDid(authority, { org, user }), user, of) : null;
      },
      async defaultAgent(org, user) {
        const of = first(user);
        if (!of || org !== null) return null;
        const owner = ownerDid(authority, { org, user });
        return {
          ...didFacts(owner, user, of, open(of)),
          did: `${owner}:agent`,
          alsoKnownAs: [owner],
          controller: owner,
        };
      },
      async agent(org, { user, team, agent: handle }) {
        const of = agents.find((one) => one.user === user && one.team === team && one.handle === handle);
        if (!of || org !== null) return null;
        return didFacts(agentDid(authority, { org, user, team, agent: handle }), handle, of, open(of));
      },
    },
    frontDesk: async () => agents[0] ?? null,
    publicAgents: async () => agents.filter(open),
  };
  return wellknownRoutes(sources, clock);
}

const ana = agent();
const bob = agent({
  user: 'bob',
  team: 'erp',
  handle: 'billing',
  allow: [],
  isListed: true,
  profile: { name: 'Billing', languages: ['de'] },
});
const eve = agent({ user: 'eve', team: 'x', handle: 'secret', allow: ['org:globex'], description: 'Hidden.' });
const all = [ana, bob, eve];

function get(path: string, options: Ask = {}, agents: readonly Agent[] = all) {
  return ask(routes(agents), path, { method: 'GET', ...options });
}

describe('DID documents', () => {
  test('instance, owner, default agent and agent, as our own verifier reads them', async () => {
    for (const [path, did] of [
      ['/.well-known/did.json', 'did:web:acme.test'],
      ['/agents/ana/did.json', 'did:web:acme.test:agents:ana'],
      ['/agents/ana/finance/close/did.json', 'did:web:acme.test:agents:ana:finance:close'],
    ] as const) {
      const response = await get(path);
      assert.deepEqual([response.status, response.headers?.['content-type']], [200, 'application/did+json']);
      const parsed = parseDid(did);
      assert.ok(!(parsed instanceof Refusal));
      const document = readDocument(parsed, json(response));
      assert.ok(!(document instanceof Refusal));
      for (const key of ['#key-1', '#key-2']) {
        assert.ok(!(pickKey(document, did + key, 'authentication') instanceof Refusal), 'the old key is listed too');
      }
      assert.equal(document.service?.[0]?.serviceEndpoint, 'https://acme.test/gw/a2a/v1');
    }
  });

  test('golden: an agent', async () => {
    const did = 'did:web:acme.test:agents:ana:finance:close';
    const [old, now] = methods(did, 'close').map(({ id, publicKeyMultibase }) => ({
      id,
      type: 'Ed25519VerificationKey2020',
      controller: did,
      publicKeyMultibase,
    }));
    assert.deepEqual(json(await get('/agents/ana/finance/close/did.json')), {
      '@context': ['https://www.w3.org/ns/did/v1', 'https://w3id.org/security/suites/ed25519-2020/v1'],
      id: did,
      controller: 'did:web:acme.test:agents:ana',
      alsoKnownAs: [pair('close').did],
      verificationMethod: [old, now],
      authentication: [`${did}#key-1`, `${did}#key-2`],
      assertionMethod: [`${did}#key-1`, `${did}#key-2`],
      service: [{ id: `${did}#confer-agent`, type: 'ConferAgent', serviceEndpoint: 'https://acme.test/gw/a2a/v1' }],
    });
  });

  test('web-did-resolver reads them over HTTP', async () => {
    const served = routes(all);
    const server = http.createServer((request, response) => {
      void ask(served, request.url!, { method: request.method! }).then((answer) => {
        response.writeHead(answer.status, answer.headers).end(answer.body);
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    // It fetches https alone: the same request, led to the server above.
    const over = mock.method(
      https,
      'request',
      (options: http.RequestOptions, done: (response: http.IncomingMessage) => void) =>
        http.request(
          { method: 'GET', path: options.path, host: '127.0.0.1', port, headers: { connection: 'close' } },
          done,
        ),
    );
    try {
      const resolver = new Resolver(getResolver() as unknown as ConstructorParameters<typeof Resolver>[0]);
      for (const did of [
        'did:web:acme.test',
        'did:web:acme.test:agents:ana',
        'did:web:acme.test:agents:ana:agent',
        'did:web:acme.test:agents:ana:finance:close',
      ]) {
        const { didDocument, didResolutionMetadata } = await resolver.resolve(did);
        assert.equal(didDocument?.id, did, JSON.stringify(didResolutionMetadata));
        assert.equal(didDocument?.verificationMethod?.length, 2);
      }
      const hidden = await resolver.resolve('did:web:acme.test:agents:eve:x:secret');
      assert.equal(hidden.didDocument, null);
    } finally {
      over.mock.restore();
      server.close();
    }
  });
});

describe('FED-06: who is not public', () => {
  test('a hidden agent and a missing one have the same 404, for card and document', async () => {
    for (const path of ['did.json', '.well-known/agent-card.json', 'agent-card.json']) {
      const hidden = await get(`/agents/eve/x/secret/${path}`);
      const missing = await get(`/agents/eve/x/nobody/${path}`);
      assert.equal(hidden.status, 404);
      assert.deepEqual(hidden, missing);
    }
    for (const path of ['agent/did.json', '.well-known/agent-card.json']) {
      assert.deepEqual(await get(`/agents/eve/${path}`), await get(`/agents/nobody/${path}`));
    }
  });

  test('an owner has a document all the same: her key signs', async () => {
    assert.equal((await get('/agents/eve/did.json')).status, 200);
    assert.equal((await get('/agents/nobody/did.json')).status, 404);
  });

  test('the front desk tells nothing of who sits there unless she is public', async () => {
    const response = await get('/.well-known/agent-card.json', {}, [eve]);
    const text = String(response.body);
    assert.doesNotMatch(text, /eve|secret|Hidden/);
    assert.equal(json(response).name, 'acme');
    assert.equal((await get('/.well-known/agent-card.json', {}, [])).status, 200);
  });
});

test('agents.json has the public agents alone, in the form that Confer reads', async () => {
  const response = await get('/.well-known/agents.json');
  const { agents } = json(response) as { agents: Record<string, unknown>[] };
  const confer = ['did', 'name', 'description', 'primary_language', 'capabilities_json', 'is_public'];
  // Beside what Confer reads stands each agent's AgentFacts (test/confer/discovery.test.ts).
  assert.ok(agents.every(({ owner, endpoints, style }) => owner && endpoints && style));
  const read = agents.map((row) => Object.fromEntries(confer.map((field) => [field, row[field]])));
  assert.deepEqual(read, [
    {
      did: 'did:web:acme.test:agents:bob:erp:billing',
      name: 'Billing',
      description: 'Closes the books.',
      primary_language: 'de',
      capabilities_json: [],
      is_public: true,
    },
    {
      did: 'did:web:acme.test:agents:ana:finance:close',
      name: 'close',
      description: 'Closes the books.',
      primary_language: 'und',
      capabilities_json: [],
      is_public: true,
    },
  ]);
});

describe('A2A-01: cards over HTTP', () => {
  test('agent.json and agent-card.json are the same bytes with the same ETag', async () => {
    const [a, b] = [await get('/.well-known/agent-card.json'), await get('/.well-known/agent.json')];
    assert.deepEqual(a, b);
    assert.equal(a.headers?.['content-type'], 'application/json');
    assert.match(a.headers?.['cache-control'] ?? '', /max-age=\d+/);
    assert.equal(a.headers?.vary, 'A2A-Version');
    assert.equal(a.headers?.['access-control-allow-origin'], '*');
    const again = await get('/.well-known/agent.json/', { headers: { accept: 'text/html' } });
    assert.deepEqual(again, a, 'with a slash at the end, whatever is accepted');
  });

  test('304 on both, by If-None-Match in every form', async () => {
    const etag = (await get('/.well-known/agent.json')).headers?.etag ?? '';
    for (const path of ['/.well-known/agent.json', '/.well-known/agent-card.json']) {
      for (const tag of [etag, `W/${etag}`, `"x", ${etag}`, '*']) {
        const response = await get(path, { headers: { 'if-none-match': tag } });
        assert.deepEqual([response.status, response.body, response.headers?.etag], [304, undefined, etag], tag);
      }
      assert.equal((await get(path, { headers: { 'if-none-match': '"x"' } })).status, 200);
    }
  });

  test('HEAD has the same headers', async () => {
    assert.deepEqual(
      (await get('/.well-known/agent.json', { method: 'HEAD' })).headers,
      (await get('/.well-known/agent.json')).headers,
    );
  });

  test('the card depends on A2A-Version, and so does its ETag', async () => {
    const pure = await get('/.well-known/agent-card.json', { headers: { 'a2a-version': '1.0.1' } });
    const hybrid = await get('/.well-known/agent-card.json');
    assert.notEqual(pure.headers?.etag, hybrid.headers?.etag);
    for (const key of [
      'url',
      'protocolVersion',
      'preferredTransport',
      'additionalInterfaces',
      'did',
      'supportsAuthenticatedExtendedCard',
    ]) {
      assert.ok(key in json(hybrid), key);
      assert.ok(!(key in json(pure)), key);
    }
  });
});

test('A2A-03, SIG-03: no header of a request alters a document', async () => {
  const headers = {
    host: '10.0.0.5',
    'x-forwarded-host': 'evil.test',
    'x-forwarded-prefix': '/x',
    'x-forwarded-proto': 'http',
    forwarded: 'host=evil.test',
  };
  for (const path of [
    '/.well-known/did.json',
    '/.well-known/agents.json',
    '/.well-known/agent-card.json',
    '/agents/bob/.well-known/agent-card.json',
  ]) {
    const plain = await get(path);
    assert.deepEqual(await get(path, { headers }), plain);
    for (const url of String(plain.body).matchAll(/"(?:url|serviceEndpoint)":"([^"]*)"/g)) {
      assert.ok(url[1] === base || url[1]!.startsWith(`${base}/`), url[1]);
    }
  }
});

describe('what cards say', () => {
  async function read(path: string, legacy = false): Promise<AgentCard> {
    const fetchImpl = async (input: string | URL | Request, init?: RequestInit): Promise<Response> => {
      const headers = legacy ? {} : Object.fromEntries(new Headers(init?.headers));
      const answer = await get(new URL(String(input)).pathname, { headers });
      return new Response(String(answer.body), { status: answer.status });
    };
    return new DefaultAgentCardResolver({
      fetchImpl: fetchImpl as typeof fetch,
      legacyCompat: { enabled: legacy },
    }).resolve('https://acme.test', path);
  }

  test("the SDK's resolver reads the pure card whole", async () => {
    const read1 = await read('/agents/ana/finance/close/.well-known/agent-card.json');
    const served = json(
      await get('/agents/ana/finance/close/.well-known/agent-card.json', { headers: { 'a2a-version': '1.0' } }),
    );
    assert.deepEqual(AgentCard.toJSON(AgentCard.fromJSON(served)), AgentCard.toJSON(read1));
    assert.deepEqual(
      read1.supportedInterfaces.map(({ url, protocolBinding, protocolVersion }) => [
        url,
        protocolBinding,
        protocolVersion,
      ]),
      [
        ['https://acme.test/gw/a2a/v1/ana:finance:close', 'JSONRPC', '1.0'],
        ['https://acme.test/gw/a2a/v1/ana:finance:close', 'HTTP+JSON', '1.0'],
        ['https://acme.test/gw/agents/ana/finance/close', 'JSONRPC', '0.3'],
        ['https://acme.test/gw/agents/ana/finance/close', 'HTTP+JSON', '0.3'],
      ],
    );
    assert.equal(read1.capabilities?.streaming, true);
    assert.equal(read1.capabilities?.pushNotifications, true);
    assert.ok(read1.skills.length >= 1);
    for (const key of [
      'name',
      'description',
      'version',
      'defaultInputModes',
      'defaultOutputModes',
      'skills',
      'capabilities',
      'supportedInterfaces',
    ]) {
      assert.ok(key in served, `${key} is required`);
    }
  });

  test("the SDK's resolver finds both versions in the card that 0.3 readers get", async () => {
    const hybrid = await read('/agents/ana/.well-known/agent-card.json', true);
    assert.ok(hybrid.supportedInterfaces.some((one) => one.url.endsWith('/agents/ana/finance/close')));
    assert.equal(hybrid.name, 'close');
  });

  test('a signature is required, but not of agents that take anyone', async () => {
    const required = async (path: string): Promise<boolean[]> => {
      const { capabilities } = json(await get(path));
      return [SIGNATURE_EXTENSION, REDSYN_EXTENSION].map(
        (uri) => capabilities.extensions.find((one: { uri: string }) => one.uri === uri).required,
      );
    };
    assert.deepEqual(await required('/agents/ana/finance/close/agent-card.json'), [false, false]);
    assert.deepEqual(await required('/agents/bob/erp/billing/agent-card.json'), [true, false]);
  });

  test('the wire and the card know the extensions by the same names', () => {
    assert.deepEqual([card.SIGNATURE_EXTENSION, card.REDSYN_EXTENSION], [SIGNATURE_EXTENSION, REDSYN_EXTENSION]);
  });

  test('skills come from the profile; what is no skill is left out', () => {
    const profile = {
      skills: [
        { id: 'close', name: 'Close', tags: ['books', 7], examples: ['Close May'] },
        { name: 'no id' },
        'x',
        { id: 'close' },
        null,
      ],
      name: 'x'.repeat(500),
    };
    const built = card.agentCard({ base, authority }, agent({ profile }), null, '1.0') as {
      name: string;
      skills: unknown[];
    };
    assert.deepEqual(built.skills, [
      { id: 'close', name: 'Close', description: 'Close', tags: ['books'], examples: ['Close May'] },
    ]);
    assert.equal(built.name.length, 128);
    for (const hostile of [
      { skills: {} },
      { skills: [] },
      { skills: [{}] },
      { skills: 'x', name: 7, version: {}, languages: 'de', capabilities: [1] },
    ]) {
      const { skills } = card.agentCard({ base, authority }, agent({ profile: hostile }), null, '1.0') as {
        skills: unknown[];
      };
      assert.equal(skills.length, 1);
    }
  });

  test('an agent of another org has its own paths', () => {
    const other = agent({ org: 'beta', orgIsPrimary: false });
    const built = card.agentCard({ base, authority }, other, null, '1.0') as { supportedInterfaces: { url: string }[] };
    assert.deepEqual(
      [...new Set(built.supportedInterfaces.map((one) => one.url))],
      [
        'https://acme.test/gw/a2a/v1/orgs:beta:agents:ana:finance:close',
        'https://acme.test/gw/orgs/beta/agents/ana/finance/close',
      ],
    );
  });
});
