import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { HttpResponse } from '../../src/lib/http.ts';
import { refuse } from '../../src/lib/refusal.ts';
import { renderRefusal } from '../../src/wires/a2a/routes.ts';
import { type Ask, ask, fakeWire, json } from './fakes.ts';

const message = { messageId: 'm1', role: 'ROLE_USER', parts: [{ text: 'Is invoice 123 paid?' }] };
const old = { messageId: 'm1', role: 'user', kind: 'message', parts: [{ kind: 'text', text: 'Is invoice 123 paid?' }] };
const now = { returnImmediately: true };
const params = { message, configuration: now };

function rpc(body: Ask['body'], headers: Record<string, string> = {}, target = '/a2a/v1/ana:finance:close') {
  const fake = fakeWire();
  const all = { 'content-type': 'application/json', ...headers };
  return ask(fake.routes, target, { headers: all, ...(body !== undefined && { body }) }).then((response) => ({
    response,
    fake,
  }));
}

function errorOf(response: HttpResponse): { id: unknown; code: number; reason: string; text: string } {
  const { id, error } = json(response);
  return { id, code: error.code, reason: error.data[0]?.reason, text: String(response.body) };
}

describe('A2A-05: JSON-RPC shapes', () => {
  const bad: [name: string, body: string, code: number, id: unknown][] = [
    ['an empty body', '', -32700, null],
    ['no JSON', '{bad', -32700, null],
    ['a raw control character', '{"\u0000":1}', -32700, null],
    ['the same key twice', '{"jsonrpc":"2.0","id":1,"method":"message/send","method":"tasks/cancel"}', -32700, null],
    [
      'the same key twice, once escaped',
      '{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"a","\\u0069d":"b"}}',
      -32700,
      null,
    ],
    ['an empty batch', '[]', -32600, null],
    ['a batch of a number', ' \n [1]', -32600, null],
    [
      'a batch of two',
      '[{"jsonrpc":"2.0","id":1,"method":"GetTask"},{"jsonrpc":"2.0","id":2,"method":"GetTask"}]',
      -32600,
      null,
    ],
    ['a text', '"x"', -32600, null],
    ['null', 'null', -32600, null],
    ['an empty object', '{}', -32600, null],
    ['an id that is an object', '{"jsonrpc":"2.0","id":{},"method":"GetTask"}', -32600, null],
    ['an id that is true', '{"jsonrpc":"2.0","id":true,"method":"GetTask"}', -32600, null],
    ['an id that is an array', '{"jsonrpc":"2.0","id":[1],"method":"GetTask"}', -32600, null],
    ['a method that is a number', '{"jsonrpc":"2.0","id":7,"method":1}', -32600, 7],
    ['no method', '{"jsonrpc":"2.0","id":"a"}', -32600, 'a'],
    ['another version', '{"jsonrpc":"1.0","id":7,"method":"GetTask"}', -32600, 7],
    ['no version', '{"id":7,"method":"GetTask"}', -32600, 7],
    ['an unknown method', '{"jsonrpc":"2.0","id":7,"method":"tasks/eat"}', -32601, 7],
    ['a method of Object.prototype', '{"jsonrpc":"2.0","id":7,"method":"constructor"}', -32601, 7],
    ['params that are a text', '{"jsonrpc":"2.0","id":7,"method":"GetTask","params":"x"}', -32602, 7],
    ['params that are an array', '{"jsonrpc":"2.0","id":7,"method":"GetTask","params":["x"]}', -32602, 7],
    ['params that are null', '{"jsonrpc":"2.0","id":7,"method":"GetTask","params":null}', -32602, 7],
    ['no params', '{"jsonrpc":"2.0","id":7,"method":"SendMessage"}', -32602, 7],
  ];
  for (const [name, body, code, id] of bad) {
    test(`${name} is ${code}`, async () => {
      const { response, fake } = await rpc(body);
      const error = errorOf(response);
      assert.equal(response.status, 200);
      assert.equal(response.headers?.['content-type'], 'application/json');
      assert.deepEqual([error.code, error.id], [code, id]);
      assert.ok(error.reason, 'the answer has an ErrorInfo');
      assert.equal(fake.inbounds.length, 0, 'nothing reached the gates');
    });
  }

  test('a batch of 100 000 elements is one -32600, at once', async () => {
    const body = Buffer.from(`[${'{"jsonrpc":"2.0","method":"GetTask"},'.repeat(100_000)}1]`);
    const started = process.hrtime.bigint();
    const { response } = await rpc(body);
    assert.ok(process.hrtime.bigint() - started < 50_000_000n, 'the batch was not read');
    assert.equal(errorOf(response).code, -32600);
  });

  test('JSON that is nested too deep, or has too many members, is -32700', async () => {
    for (const hostile of ['{"a":'.repeat(20_000), `{"a":[${'1,'.repeat(60_000)}1]}`]) {
      assert.equal(errorOf((await rpc(hostile)).response).code, -32700);
    }
  });

  test('the input is not reflected', async () => {
    for (const body of [
      '{"jsonrpc":"2.0","id":7,"method":"canary-7f"}',
      '{canary-7f',
      '{"jsonrpc":"2.0","id":1,"method":"GetTask","params":"canary-7f"}',
    ]) {
      assert.doesNotMatch(errorOf((await rpc(body)).response).text, /canary-7f/);
    }
  });

  for (const id of ['null', '""', '1.5', '-0', '0', '"ü\\u0000\\"$&"', '12345678901234567890', '1e3']) {
    test(`the id ${id} comes back as it was written`, async () => {
      const { response } = await rpc(
        `{"jsonrpc":"2.0","id":${id},"method":"SendMessage","params":${JSON.stringify(params)}}`,
      );
      assert.equal(response.status, 200);
      assert.ok(String(response.body).startsWith(`{"jsonrpc":"2.0","id":${id},"result":`), String(response.body));
    });
  }

  test('a notification is executed and answered with 204 and nothing', async () => {
    const { response, fake } = await rpc({ jsonrpc: '2.0', method: 'SendMessage', params: { message } });
    assert.deepEqual([response.status, response.body], [204, undefined]);
    assert.equal(fake.accepted.length, 1, 'it was executed');
  });

  test('without an id: 1.0 hears nothing of its faults; 0.3, where an id is needed, hears them with id null; executed is never answered', async () => {
    const faults = [
      ['message/send', {}, -32602],
      ['message/send', [], -32602],
      ['Nonsense', {}, -32601],
    ] as const;
    for (const [method, params, code] of faults) {
      const { response, fake } = await rpc({ jsonrpc: '2.0', method, params });
      assert.deepEqual([json(response).id, errorOf(response).code], [null, code]);
      const named = await rpc({ jsonrpc: '2.0', method: 'SendMessage', params: [] }, { 'a2a-version': '1.0' });
      assert.deepEqual([named.response.status, named.response.body], [204, undefined]);
      const unnamed = await rpc({ jsonrpc: '2.0', method: 'SendMessage', params: {} });
      assert.deepEqual([unnamed.response.status, unnamed.response.body], [204, undefined]);
      assert.equal(fake.accepted.length + named.fake.accepted.length + unnamed.fake.accepted.length, 0);
    }
    const executed = await rpc({ jsonrpc: '2.0', method: 'message/send', params: { message: old } });
    assert.deepEqual([executed.response.status, executed.response.body], [204, undefined]);
    assert.equal(executed.fake.accepted.length, 1);
    const absent = await rpc({ jsonrpc: '2.0', method: 'tasks/get', params: { id: 'absent' } });
    assert.deepEqual([absent.response.status, absent.response.body], [204, undefined], 'looked for, and not found');
  });

  test('whatever the bytes are, the answer is JSON-RPC or empty', async () => {
    await fc.assert(
      fc.asyncProperty(fc.oneof(fc.uint8Array().map(Buffer.from), fc.json().map(Buffer.from)), async (bytes) => {
        const { response } = await rpc(bytes);
        assert.equal(response.status, 200);
        assert.equal(json(response).jsonrpc, '2.0');
      }),
      { numRuns: 300 },
    );
  });

  test('a content type that is no JSON is 415, in JSON-RPC', async () => {
    const { response } = await rpc('a=b', { 'content-type': 'application/x-www-form-urlencoded' });
    assert.equal(response.status, 415);
    assert.equal(errorOf(response).code, -32005);
    for (const type of ['application/json; charset=utf-8', 'application/a2a+json']) {
      const taken = await rpc({ jsonrpc: '2.0', id: 1, method: 'SendMessage', params }, { 'content-type': type });
      assert.ok(json(taken.response).result, type);
    }
  });

  test('what is refused before it was read is answered in JSON-RPC too', () => {
    const response = renderRefusal(refuse('payload_too_large'), { method: 'POST', path: '/a2a/v1' });
    assert.equal(response.status, 413);
    assert.equal(errorOf(response).id, null);
  });
});

describe('A2A-02: versions', () => {
  const cases: [
    name: string,
    method: string,
    headers: Record<string, string>,
    query: string,
    outcome: '1.0' | '0.3' | number,
  ][] = [
    ['no header, message/send', 'message/send', {}, '', '0.3'],
    ['no header, SendMessage', 'SendMessage', {}, '', '1.0'],
    ['an empty header', 'message/send', { 'a2a-version': '' }, '', '0.3'],
    ['1.0 and SendMessage', 'SendMessage', { 'a2a-version': '1.0' }, '', '1.0'],
    ['1.0.1 and SendMessage', 'SendMessage', { 'a2a-version': '1.0.1' }, '', '1.0'],
    ['0.3 and message/send', 'message/send', { 'a2a-version': '0.3' }, '', '0.3'],
    ['0.3.0 and message/send', 'message/send', { 'a2a-version': '0.3.0' }, '', '0.3'],
    ['the query parameter 1.0', 'SendMessage', {}, '?A2A-Version=1.0', '1.0'],
    ['the header before the query', 'SendMessage', { 'a2a-version': '1.0' }, '?A2A-Version=0.5', '1.0'],
    ['0.5', 'message/send', { 'a2a-version': '0.5' }, '', -32009],
    ['0.5 in the query', 'message/send', {}, '?A2A-Version=0.5', -32009],
    ['two versions', 'SendMessage', { 'a2a-version': '1.0, 0.3' }, '', -32009],
    ['no version at all', 'SendMessage', { 'a2a-version': 'latest' }, '', -32009],
    ['1.0 and message/send', 'message/send', { 'a2a-version': '1.0' }, '', -32601],
    ['0.3 and SendMessage', 'SendMessage', { 'a2a-version': '0.3' }, '', -32601],
  ];
  for (const [name, method, headers, query, outcome] of cases) {
    test(`${name} → ${outcome}`, async () => {
      const body = {
        jsonrpc: '2.0',
        id: 1,
        method,
        params: { message: method === 'SendMessage' ? message : old, configuration: now },
      };
      const { response } = await rpc(body, headers, `/agents/ana/finance/close${query}`);
      if (typeof outcome === 'number') {
        assert.equal(errorOf(response).code, outcome);
        if (outcome === -32009) assert.equal(json(response).error.data[0].metadata.supported, '1.0,0.3');
        return;
      }
      const { result } = json(response);
      if (outcome === '1.0') assert.equal(result.task.status.state, 'TASK_STATE_SUBMITTED');
      else assert.deepEqual([result.kind, result.status.state], ['task', 'submitted']);
    });
  }

  test('an extended card that is not declared is UnsupportedOperation', async () => {
    for (const method of ['GetExtendedAgentCard', 'agent/getAuthenticatedExtendedCard']) {
      assert.equal(errorOf((await rpc({ jsonrpc: '2.0', id: 1, method, params: {} })).response).code, -32004, method);
    }
  });
});
