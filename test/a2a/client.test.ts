import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Carried } from '../../src/exchange/carrier.ts';
import { KeyPair } from '../../src/identity/keys.ts';
import { ManualClock } from '../../src/lib/clock.ts';
import { type FetchInit, FetchRefused } from '../../src/lib/fetch-types.ts';
import { readJson } from '../../src/lib/json.ts';
import { Refusal, type RefusalCode, refuse } from '../../src/lib/refusal.ts';
import type { GivenUp, OutboxItem, SendResult } from '../../src/outbox/types.ts';
import { createRedsynClient } from '../../src/wires/a2a/client.ts';
import { ofRefusal } from '../../src/wires/a2a/errors.ts';
import { REDSYN_EXTENSION } from '../../src/wires/a2a/protocol.ts';
import { agent, ask, fakeWire } from './fakes.ts';

const envelopeText =
  '{ "kind":"request","v":1,"id":"e1","from":"acme/dev/joel/reviewer","to":"globex.test/erp/bob/billing",' +
  '"body":{"type":"application/json","data":{"z":1.0,"a":1E2,"big":12345678901234567890}},"sig":null }';
const carried: Carried = {
  envelopeText,
  kind: 'request',
  messageId: 'e1',
  thread: 't-wire',
  ownerId: 'member-joel',
  orgId: 'org-acme',
  to: 'globex.test/erp/bob/billing',
};
const item: OutboxItem = {
  id: 7,
  kind: 'redsyn',
  destination: 'globex.test',
  lane: 'l',
  messageSeq: 3,
  body: null,
  attempts: 1,
  expiresAt: 0,
};
const delivered = {
  jsonrpc: '2.0',
  id: 'e1',
  result: { task: { id: 't', metadata: { [REDSYN_EXTENSION]: { id: 'e1', to: 'globex.test/erp/bob/billing#s2' } } } },
};

interface Call {
  url: string;
  init: FetchInit;
}
type Answer = { status?: number; headers?: Record<string, string>; body: unknown } | FetchRefused;

function client(
  answers: Answer[] | ((call: Call) => Answer),
  over: { carried?: Carried | null; loopback?: boolean; mayLeave?: boolean } = {},
) {
  const calls: Call[] = [];
  const told: unknown[] = [];
  const signers: (string | null)[] = [];
  const clock = new ManualClock();
  const sender = createRedsynClient({
    carrier: {
      load: async () => (over.carried === undefined ? carried : over.carried),
      delivered: async (_tx, seq, to) => void told.push([seq, to]),
      givenUp: async (_tx, outboxId, seq, why) => void told.push([outboxId, seq, why]),
    },
    mayLeave: async () => over.mayLeave ?? true,
    async signer(ownerId) {
      signers.push(ownerId);
      return { keyId: `did:web:acme.test:agents:joel#key-1`, pair: new KeyPair(Buffer.alloc(32, 7)) };
    },
    async fetch(url, init) {
      calls.push({ url, init });
      const answer = Array.isArray(answers) ? answers.shift() : answers({ url, init });
      if (!answer) throw new Error(`nothing to answer to ${url}`);
      if (answer instanceof FetchRefused) throw answer;
      const headers = new Map(Object.entries(answer.headers ?? {}));
      const body = Buffer.from(typeof answer.body === 'string' ? answer.body : JSON.stringify(answer.body));
      return { status: answer.status ?? 200, headers: { get: (name) => headers.get(name) }, body };
    },
    clock,
    loopback: over.loopback ?? false,
  });
  const send = (of: Partial<OutboxItem> = {}): Promise<SendResult> =>
    sender.send({ ...item, ...of }, new AbortController().signal);
  return { sender, calls, told, signers, clock, send };
}

function refusal(code: RefusalCode, extra: ConstructorParameters<typeof Refusal>[2] = {}): Answer {
  const { code: rpc, message, data, status, headers } = ofRefusal(refuse(code, undefined, extra).by('consent'));
  return { status, headers, body: { jsonrpc: '2.0', id: 'e1', error: { code: rpc, message, data } } };
}

describe('carrying an envelope', () => {
  test('the request is signed by the owner, and the envelope in it is untouched', async () => {
    const { send, calls, signers } = client([{ body: delivered }]);
    const result = await send();
    assert.deepEqual(result, { outcome: 'delivered', note: { id: 'e1', to: 'globex.test/erp/bob/billing#s2' } });
    const [{ url, init }] = calls as [Call];
    assert.equal(url, 'https://globex.test/a2a/v1');
    assert.deepEqual(signers, ['member-joel']);
    assert.match(
      init.headers?.['Signature-Input'] ?? '',
      /^sig1=\("@method" "@authority" "@path" "content-digest" "date"\);keyid="did:web:acme/,
    );
    assert.equal(init.headers?.['a2a-version'], '1.0');
    assert.match(init.headers?.['a2a-extensions'] ?? '', /redsyn.*rfc9421/);
    const json = readJson(init.body!);
    assert.ok(!(json instanceof Refusal));
    assert.equal(json.raw(['params', 'message', 'metadata', REDSYN_EXTENSION]), envelopeText);
    const { method, params } = json.value as {
      method: string;
      params: { tenant: string; message: Record<string, unknown>; configuration: object };
    };
    assert.deepEqual(
      [method, params.tenant, params.configuration],
      ['SendMessage', 'bob:erp:billing', { returnImmediately: true }],
    );
    const { messageId, role, contextId, extensions, parts } = params.message;
    assert.deepEqual([messageId, role, contextId, extensions], ['e1', 'ROLE_USER', 't-wire', [REDSYN_EXTENSION]]);
    assert.equal((parts as { mediaType: string }[])[0]!.mediaType, 'application/json');
  });

  test('the other gateway reads it as it was written', async () => {
    const wire = fakeWire([agent({ user: 'bob', team: 'erp', handle: 'billing' })]);
    const { send, calls } = client([{ body: delivered }]);
    await send();
    const { headers, body } = calls[0]!.init;
    await ask(wire.routes, '/a2a/v1', { headers: { ...headers }, body: body as Buffer });
    const [inbound] = wire.inbounds;
    assert.equal(inbound!.envelopeText, envelopeText);
    assert.deepEqual(
      [inbound!.thread, inbound!.addressee?.address, inbound!.idempotent],
      ['t-wire', 'acme/erp/bob/billing', true],
    );
  });

  test('a handle goes in the org form of the tenant; a notice of ours is signed by the instance; loopback is http', async () => {
    const notice: Carried = { ...carried, ownerId: null, to: 'globex/erp/bob/billing#s2' };
    const { send, calls, signers } = client([{ body: delivered }], { carried: notice, loopback: true });
    await send({ destination: 'localhost:8081' });
    assert.deepEqual(signers, [null]);
    assert.equal(calls[0]!.url, 'http://localhost:8081/a2a/v1');
    assert.equal(JSON.parse(String(calls[0]!.init.body)).params.tenant, 'orgs:globex:agents:bob:erp:billing');
  });

  test('a sealed body is not repeated beside its envelope', async () => {
    const enc = { v: 1, ct: 'c2VjcmV0' };
    const sealed = JSON.stringify({
      v: 1,
      id: 'e1',
      kind: 'request',
      from: 'a',
      body: { type: 'application/redsyn+encrypted', enc },
    });
    const { send, calls } = client([{ body: delivered }], { carried: { ...carried, envelopeText: sealed } });
    await send();
    assert.equal(String(calls[0]!.init.body).split('c2VjcmV0').length, 2);
  });

  test('what came of it reaches the exchange', async () => {
    const { sender, told } = client([]);
    const tx = {} as never;
    await sender.onDelivered!(tx, item, { outcome: 'delivered', note: { to: 'x#s2' } });
    await sender.onDelivered!(tx, item, { outcome: 'delivered', note: null });
    const why: GivenUp = { code: 'policy_denied', words: 'no', status: 403 };
    await sender.onGivenUp!(tx, item, why);
    assert.deepEqual(told, [
      [3, 'x#s2'],
      [3, null],
      [7, 3, why],
    ]);
  });

  test('a message that is gone is given up without a call', async () => {
    const { send, calls } = client([], { carried: null });
    assert.equal((await send()).outcome, 'refused');
    assert.deepEqual(calls, []);
  });
});

describe('what an answer means', () => {
  type Row = [name: string, answer: Answer, attempts: number, expected: Partial<Record<string, unknown>>];
  const rows: Row[] = [
    [
      'consent is pending',
      refusal('pending_connection'),
      1,
      { outcome: 'retry', destinationDown: false, retryAfterMs: 60_000 },
    ],
    ['approval is pending', refusal('pending_approval'), 1, { outcome: 'retry', destinationDown: false }],
    ['429', refusal('rate_limited', { retryAfter: 9 }), 1, { outcome: 'retry', retryAfterMs: 9_000 }],
    ['an internal fault', refusal('internal'), 1, { outcome: 'retry', destinationDown: true }],
    [
      'a document that cannot be read',
      refusal('did_resolution_failed'),
      1,
      { outcome: 'retry', destinationDown: true },
    ],
    ['a clock that drifts', refusal('signature_stale'), 1, { outcome: 'retry', destinationDown: false }],
    [
      'a clock that stays wrong',
      refusal('signature_stale'),
      5,
      { outcome: 'refused', code: 'signature_stale', status: 401, stopDestination: undefined },
    ],
    ['a key that is new', refusal('key_not_found'), 1, { outcome: 'retry', destinationDown: false }],
    [
      'a key that stays unknown',
      refusal('key_not_found'),
      5,
      { outcome: 'refused', code: 'key_not_found', stopDestination: true },
    ],
    ['a bad signature', refusal('signature_failed'), 1, { outcome: 'refused', status: 401, stopDestination: true }],
    ['a false sender', refusal('sender_mismatch'), 1, { outcome: 'refused', status: 403, stopDestination: undefined }],
    [
      'a refusing policy',
      refusal('policy_denied', { data: { signed_only: true } }),
      1,
      { outcome: 'refused', code: 'policy_denied', status: 403, data: { signed_only: true } },
    ],
    ['a hidden agent', refusal('address_not_found'), 1, { outcome: 'refused', code: 'address_not_found', status: 404 }],
    ['a closed exchange', refusal('exchange_closed'), 1, { outcome: 'refused', code: 'exchange_closed', status: 409 }],
    [
      'a full quota',
      refusal('quota_exceeded', { data: { quota: true } }),
      1,
      { outcome: 'refused', data: { quota: true } },
    ],
    ['a strange 401', { status: 401, body: 'no' }, 1, { outcome: 'refused', status: 401, stopDestination: undefined }],
    [
      'a strange error',
      { body: { jsonrpc: '2.0', id: 1, error: { code: -32602, message: 'no' } } },
      1,
      { outcome: 'refused', words: 'no' },
    ],
    ['502 from a proxy', { status: 502, body: '<html>' }, 1, { outcome: 'retry', destinationDown: true }],
    [
      '503 with Retry-After',
      { status: 503, headers: { 'retry-after': '30' }, body: '' },
      1,
      { outcome: 'retry', retryAfterMs: 30_000 },
    ],
    ['200 and no JSON', { body: '<html>' }, 1, { outcome: 'retry', destinationDown: true }],
    ['200 and no result', { body: {} }, 1, { outcome: 'retry', destinationDown: true }],
    ['no connection', new FetchRefused('connect', 'refused'), 1, { outcome: 'retry', destinationDown: true }],
    ['a redirect', new FetchRefused('redirect', 'moved'), 1, { outcome: 'retry', destinationDown: true }],
  ];
  for (const [name, answer, attempts, expected] of rows) {
    test(name, async () => {
      const result = (await client([answer]).send({ attempts })) as unknown as Record<string, unknown>;
      for (const [key, value] of Object.entries(expected))
        assert.deepEqual(result[key], value, `${key} of ${JSON.stringify(result)}`);
    });
  }
});

describe('a peer that speaks 0.3 alone', () => {
  const unknown = { body: { jsonrpc: '2.0', id: 1, error: { code: -32601, message: 'no such method' } } };
  const card = (url: string) => ({ body: { protocolVersion: '0.3.0', name: 'x', url, preferredTransport: 'JSONRPC' } });
  const bare = {
    body: {
      jsonrpc: '2.0',
      id: 'e1',
      result: { kind: 'task', id: 't', metadata: { [REDSYN_EXTENSION]: { to: 'x#s1' } } },
    },
  };

  test('is found by its card, which is believed for 60 s', async () => {
    const { send, calls, clock } = client([
      unknown,
      card('https://globex.test/rpc'),
      bare,
      bare,
      unknown,
      card('https://globex.test/rpc'),
      bare,
    ]);
    assert.deepEqual(await send(), { outcome: 'delivered', note: { to: 'x#s1' } });
    await send();
    assert.deepEqual(
      calls.map((call) => call.url),
      [
        'https://globex.test/a2a/v1',
        'https://globex.test/agents/bob/erp/billing/.well-known/agent-card.json',
        'https://globex.test/rpc',
        'https://globex.test/rpc',
      ],
    );
    const { init } = calls[2]!;
    assert.deepEqual(
      [init.headers?.['a2a-version'], init.headers?.['x-a2a-extensions']?.includes(REDSYN_EXTENSION)],
      [undefined, true],
    );
    const json = readJson(init.body!);
    assert.ok(!(json instanceof Refusal));
    const { method, params } = json.value as {
      method: string;
      params: { message: { kind: string; role: string }; configuration: object };
    };
    assert.deepEqual(
      [method, params.message.kind, params.message.role, params.configuration],
      ['message/send', 'message', 'user', { blocking: false }],
    );
    assert.equal(json.raw(['params', 'message', 'metadata', REDSYN_EXTENSION]), envelopeText);
    clock.advance(60_001);
    await send();
    assert.equal(calls.length, 7);
  });

  test('a card that leads to another host is not followed', async () => {
    for (const url of [
      'https://evil.test/rpc',
      'https://globex.test.evil.test/',
      'http://globex.test/rpc',
      'https://globex.test@evil.test/',
    ]) {
      const { send, calls } = client([unknown, card(url)]);
      assert.equal((await send()).outcome, 'refused', url);
      assert.equal(calls.length, 2);
    }
  });
});
