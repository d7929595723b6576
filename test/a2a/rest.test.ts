import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { parseSseStream } from '@a2a-js/sdk';
import { fromJwk, type PublicKey } from '../../src/identity/algorithms.ts';
import { checkCard, type KeyName } from '../../src/identity/card-seal.ts';
import { SIGNATURE_EXTENSION } from '../../src/wires/a2a/protocol.ts';
import type { CallOptions } from '../support/gateway.ts';
import { person } from '../support/gateway.ts';
import { ask, legacyPath, message, path, rpc, startDesk, tenant } from './desk.ts';

const desk = await startDesk({ after });
const { gateway } = desk;
const bob = await person(gateway, 'bob');
const anonymous: CallOptions = { token: null };
const immediately = { configuration: { returnImmediately: true } };
const call = (method: string, where: string, more: CallOptions = {}) =>
  gateway.call(method, where, { token: null, ...more });
const send = (where: string, text = 'done', more: object = {}, options: CallOptions = {}) =>
  call('POST', where, { body: { message: message(text), ...more }, ...options });

describe('HTTP+JSON of 1.0', () => {
  // The front desk, one agent by her owner, and one by all her names.
  for (const base of ['/a2a/v1', '/a2a/v1/joel', path, `/a2a/v1/${encodeURIComponent(tenant)}`]) {
    it(`every route at ${base}`, async () => {
      const sent = await send(`${base}/message:send`);
      assert.equal(sent.status, 200);
      assert.equal(sent.json.task.status.state, 'TASK_STATE_COMPLETED');
      const { id } = sent.json.task;
      const got = await call('GET', `${base}/tasks/${id}?historyLength=0`);
      assert.deepEqual([got.json.id, 'history' in got.json], [id, false]);
      const listed = await call('GET', `${base}/tasks?pageSize=1&includeArtifacts=true`, { token: gateway.token });
      assert.deepEqual([listed.status, listed.json.pageSize, Array.isArray(listed.json.tasks)], [200, 1, true]);

      const held = (await send(`${base}/message:send`, 'hold rest', immediately)).json.task;
      const made = await call('POST', `${base}/tasks/${held.id}/pushNotificationConfigs`, {
        body: { id: 'c:1', url: 'http://localhost:9/x' },
      });
      assert.deepEqual([made.status, made.json.taskId, made.json.id], [200, held.id, 'c:1']);
      const configs = `${base}/tasks/${held.id}/pushNotificationConfigs`;
      assert.equal((await call('GET', `${configs}/c%3A1`)).json.url, 'http://localhost:9/x');
      assert.equal((await call('GET', configs)).json.configs.length, 1);
      assert.equal((await call('DELETE', `${configs}/c%3A1`)).status, 200);
      assert.equal((await call('GET', `${configs}/c%3A1`)).status, 404);
      for (const method of ['POST', 'GET']) {
        const gone = new AbortController();
        const stream = await fetch(`${gateway.url}${base}/tasks/${held.id}:subscribe`, { method, signal: gone.signal });
        assert.equal(stream.headers.get('content-type'), 'text/event-stream', method);
        const first = await parseSseStream(stream).next();
        assert.equal(JSON.parse(first.value!.data).task.id, held.id);
        gone.abort();
      }
      const canceled = await call('POST', `${base}/tasks/${held.id}:cancel`);
      assert.equal(canceled.json.status.state, 'TASK_STATE_CANCELED');
      assert.equal(
        (await call('GET', `${base}/extendedAgentCard`)).json.error.details[0].reason,
        'UNSUPPORTED_OPERATION',
      );
      const stream = await fetch(`${gateway.url}${base}/message:stream`, {
        method: 'POST',
        headers: { 'content-type': 'application/a2a+json' },
        body: JSON.stringify({ message: message('stream') }),
      });
      const events: object[] = [];
      for await (const { data } of parseSseStream(stream)) events.push(JSON.parse(data));
      assert.deepEqual(
        events.map((event) => Object.keys(event)[0]),
        ['task', 'statusUpdate', 'artifactUpdate', 'artifactUpdate', 'artifactUpdate', 'statusUpdate'],
      );
    });
  }

  it('answers in the media type that was asked for', async () => {
    const own = 'application/a2a+json';
    const type = async (headers: Record<string, string>) =>
      (await send(`${path}/message:send`, 'done', {}, { headers })).headers.get('content-type');
    assert.equal(await type({}), 'application/json');
    assert.equal(await type({ accept: `${own}, application/json` }), own);
    assert.equal(await type({ 'content-type': own }), own);
  });

  it('speaks of errors as AIP-193 does', async () => {
    const ended = await ask(gateway, 'done');
    const mine = await ask(gateway, 'done', { token: gateway.token });
    const tasks = `${path}/tasks`;
    const cases: [
      status: number,
      name: string,
      reason: string,
      method: string,
      where: string,
      options?: CallOptions,
    ][] = [
      [404, 'NOT_FOUND', 'TASK_NOT_FOUND', 'GET', `${tasks}/nothing`],
      [404, 'NOT_FOUND', 'TASK_NOT_FOUND', 'GET', `${tasks}/${mine.id}`, { token: bob.token }],
      [404, 'NOT_FOUND', 'TASK_NOT_FOUND', 'GET', `${tasks}/${mine.id}`],
      [400, 'FAILED_PRECONDITION', 'TASK_NOT_CANCELABLE', 'POST', `${tasks}/${ended.id}:cancel`],
      [400, 'FAILED_PRECONDITION', 'UNSUPPORTED_OPERATION', 'POST', `${tasks}/${ended.id}:subscribe`],
      [400, 'FAILED_PRECONDITION', 'VERSION_NOT_SUPPORTED', 'GET', tasks, { headers: { 'a2a-version': '0.3' } }],
      [400, 'FAILED_PRECONDITION', 'VERSION_NOT_SUPPORTED', 'GET', `${tasks}?A2A-Version=9.9`],
      [400, 'INVALID_ARGUMENT', 'INVALID_ARGUMENT', 'GET', `${tasks}?pageSize=1000`],
      [400, 'INVALID_ARGUMENT', 'INVALID_ARGUMENT', 'GET', `${tasks}/x?historyLength=many`],
      [400, 'INVALID_ARGUMENT', 'PARSE_ERROR', 'POST', `${path}/message:send`, { body: '{bad' }],
      [400, 'INVALID_ARGUMENT', 'PARSE_ERROR', 'POST', `${path}/message:send`, { body: '{"message":1,"message":2}' }],
      [400, 'INVALID_ARGUMENT', 'INVALID_REQUEST', 'POST', `${path}/message:send`, { body: '[]' }],
      [400, 'INVALID_ARGUMENT', 'INVALID_ARGUMENT', 'POST', `${path}/message:send`, { body: '{}' }],
      [
        400,
        'INVALID_ARGUMENT',
        'INVALID_ARGUMENT',
        'POST',
        `${path}/message:send`,
        { body: { message: { ...message('x'), role: 'user' } } },
      ],
      [
        413,
        'INVALID_ARGUMENT',
        'PAYLOAD_TOO_LARGE',
        'POST',
        `${path}/message:send`,
        { body: JSON.stringify({ message: message('x'.repeat(2_000_000)) }) },
      ],
      [
        415,
        'INVALID_ARGUMENT',
        'CONTENT_TYPE_NOT_SUPPORTED',
        'POST',
        `${path}/message:send`,
        { body: 'x', headers: { 'content-type': 'text/plain' } },
      ],
      [404, 'NOT_FOUND', 'TASK_NOT_FOUND', 'GET', `${path}/nonsense`],
      [405, 'UNIMPLEMENTED', 'METHOD_NOT_ALLOWED', 'PUT', `${path}/message:send`, { body: '{}' }],
    ];
    for (const [status, name, reason, method, where, options] of cases) {
      const { json, status: given } = await call(method, where, options);
      const { error } = json;
      assert.deepEqual(
        [given, error?.code, error?.status, error?.details[0].reason, typeof error?.message],
        [status, status, name, reason, 'string'],
        `${method} ${where}`,
      );
      assert.equal(error.details[0]['@type'], 'type.googleapis.com/google.rpc.ErrorInfo');
      for (const value of Object.values(error.details[0].metadata)) assert.equal(typeof value, 'string');
    }
    const invalid = await call('GET', `${tasks}?pageSize=0`);
    assert.equal(invalid.json.error.details[1].fieldViolations[0].field, 'pageSize');
    const closed = await send(`${path}/message:send`, 'x', { message: message('x', { taskId: ended.id }) });
    assert.deepEqual([closed.status, closed.json.error.details[0].reason], [400, 'UNSUPPORTED_OPERATION']);
  });

  it('a stranger of an agent that takes known senders alone hears which extension it lacks', async () => {
    await gateway.admin.announce('acme/general/joel/private', { allow: ['org'] });
    const where = '/a2a/v1/joel:general:private/message:send';
    const { status, json } = await send(where);
    assert.deepEqual(
      [status, json],
      [
        400,
        {
          error: {
            code: 400,
            status: 'FAILED_PRECONDITION',
            message: json.error.message,
            details: [
              {
                '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
                reason: 'EXTENSION_SUPPORT_REQUIRED',
                domain: 'a2a-protocol.org',
                metadata: { extension: SIGNATURE_EXTENSION },
              },
            ],
          },
        },
      ],
    );
    const declared = await send(where, 'x', {}, { headers: { 'a2a-extensions': SIGNATURE_EXTENSION } });
    assert.deepEqual([declared.status, declared.json.error.status], [401, 'UNAUTHENTICATED']);
    assert.match(declared.headers.get('www-authenticate') ?? '', /Bearer/);
    assert.match(declared.headers.get('accept-signature') ?? '', /@method/);
    assert.equal((await send(where, 'x', immediately, { token: gateway.token })).status, 200);
  });

  it('the extended card is for who proves to be somebody, and declared where all must', async () => {
    await gateway.admin.announce('acme/general/joel/colleagues', { allow: ['org'], listed: true });
    const where = '/a2a/v1/joel:general:colleagues/extendedAgentCard';
    assert.equal((await call('GET', where)).json.error.details[0].reason, 'EXTENSION_SUPPORT_REQUIRED');
    const { status, json, headers } = await call('GET', where, { token: bob.token });
    assert.deepEqual(
      [status, headers.get('cache-control'), json.capabilities.extendedAgentCard],
      [200, 'no-store', true],
    );
    const redsyn = json.capabilities.extensions.find(({ uri }: { uri: string }) => uri.endsWith('/redsyn/v1'));
    assert.deepEqual(redsyn.params.accepts, ['org']);
    const publicCard = await call('GET', '/agents/joel/general/colleagues/.well-known/agent-card.json');
    assert.equal(publicCard.json.capabilities.extendedAgentCard, true);
    assert.equal(
      (await call('GET', `${legacyPath}/.well-known/agent-card.json`)).json.capabilities.extendedAgentCard,
      false,
    );
    const overRpc = await rpc(
      gateway,
      'GetExtendedAgentCard',
      {},
      { target: '/a2a/v1/joel:general:colleagues', token: bob.token },
    );
    assert.deepEqual(overRpc.json.result, json);
    assert.equal(await checkCard(json, instanceKey), 'valid');
    assert.equal(await checkCard({ ...json, name: 'mallory' }, instanceKey), 'invalid');
    const legacy = { target: '/agents/joel/general/colleagues', token: bob.token };
    const hybrid = await rpc(gateway, 'agent/getAuthenticatedExtendedCard', {}, legacy);
    assert.equal(hybrid.json.result.protocolVersion, '0.3.0');
    assert.equal(await checkCard(hybrid.json.result, instanceKey), 'valid');
  });

  async function instanceKey({ kid, jku }: KeyName): Promise<PublicKey | null> {
    const { keys } = (await (await fetch(jku!)).json()) as { keys: { kid: string }[] };
    const key = fromJwk(keys.find((one) => one.kid === kid));
    return typeof key === 'string' ? null : key;
  }

  it('is what the card says, and so is 0.3', async () => {
    const { json } = await call('GET', `${legacyPath}/.well-known/agent-card.json`, anonymous);
    for (const { url, protocolBinding, protocolVersion } of json.supportedInterfaces) {
      const suffix =
        protocolBinding === 'JSONRPC' ? '' : protocolVersion === '1.0' ? '/message:send' : '/v1/message:send';
      const response = await fetch(url + suffix, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: '{}',
      });
      const body = (await response.json()) as { error?: { code: number }; code?: number };
      assert.ok(body.error ?? body.code, `${url}${suffix} answers in its own form`);
      assert.notEqual(response.status, 404);
    }
    assert.deepEqual(
      [json.capabilities.streaming, json.capabilities.pushNotifications, json.additionalInterfaces.length],
      [true, true, 2],
    );
  });
});

describe('HTTP+JSON of 0.3', () => {
  const base = `${legacyPath}/v1`;

  it('takes the JSON of its proto, and that of its schema', async () => {
    const proto = { messageId: 'p', role: 'ROLE_USER', content: [{ text: 'hello' }] };
    const schema = { kind: 'message', messageId: 's', role: 'user', parts: [{ kind: 'text', text: 'hello' }] };
    for (const one of [proto, schema]) {
      const { status, json } = await call('POST', `${base}/message:send`, {
        body: { message: one, configuration: { blocking: true } },
      });
      assert.deepEqual([status, json.task.status.state], [200, 'TASK_STATE_COMPLETED']);
      assert.deepEqual(json.task.artifacts[0].parts, [{ text: 'You said: hello' }]);
      assert.deepEqual(json.task.history[0].content, [{ text: 'hello' }]);
    }
    const data = { messageId: 'd', role: 'ROLE_USER', content: [{ data: { data: { n: 1 } } }] };
    await call('POST', `${base}/message:send`, { body: { message: data } });
    await desk.took(({ body }) => (body.data as { n?: number })?.n === 1);
  });

  it('does not wait unless it is asked to, and spells canceled with two l', async () => {
    const proto = { messageId: 'p', role: 'ROLE_USER', content: [{ text: 'hold v03' }] };
    const { json } = await call('POST', `${base}/message:send`, { body: { message: proto } });
    assert.equal(json.task.status.state, 'TASK_STATE_SUBMITTED');
    const canceled = await call('POST', `${base}/tasks/${json.task.id}:cancel`, { body: 'null' });
    assert.equal(canceled.json.status.state, 'TASK_STATE_CANCELLED');
    const again = await call('POST', `${base}/tasks/${json.task.id}:cancel`);
    assert.deepEqual([again.status, again.json.code], [400, -32002]);
  });

  it('takes push configs flat and nested, and answers a delete with nothing', async () => {
    const proto = { messageId: 'p', role: 'ROLE_USER', content: [{ text: 'hold v03 push' }] };
    const { id } = (await call('POST', `${base}/message:send`, { body: { message: proto } })).json.task;
    const config = { url: 'http://localhost:9/x' };
    const configs = `${base}/tasks/${id}/pushNotificationConfigs`;
    for (const body of [
      { name: `tasks/${id}/pushNotificationConfigs/a`, pushNotificationConfig: { id: 'a', ...config } },
      { parent: `tasks/${id}`, configId: 'a', config: { pushNotificationConfig: { id: 'a', ...config } } },
      { id: 'a', ...config },
    ]) {
      const { json } = await call('POST', configs, { body });
      assert.deepEqual(json, {
        name: `tasks/${id}/pushNotificationConfigs/a`,
        pushNotificationConfig: { id: 'a', ...config },
      });
    }
    assert.equal((await call('GET', configs)).json.configs.length, 1);
    const gone = await call('DELETE', `${configs}/a`);
    assert.deepEqual([gone.status, gone.text], [204, '']);
  });

  it('says of errors what the SDK does, and refuses 1.0', async () => {
    const unknown = await call('GET', `${base}/tasks/nothing`);
    assert.deepEqual([unknown.status, unknown.json.code], [404, -32001]);
    const version = await call('GET', `${base}/tasks/nothing`, { headers: { 'a2a-version': '1.0' } });
    assert.deepEqual([version.status, version.json.code], [400, -32009]);
    const list = await call('GET', `${base}/tasks`, { token: gateway.token });
    assert.ok(Array.isArray(list.json.tasks));
  });
});

describe('JSON-RPC on the wire of a running gateway', () => {
  const post = async (body: string, headers: Record<string, string> = {}) => {
    const response = await fetch(gateway.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'a2a-version': '1.0', ...headers },
      body,
    });
    const text = await response.text();
    return { status: response.status, json: text === '' ? null : JSON.parse(text) };
  };
  const whole = (more: object) => JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'ListTasks', params: {}, ...more });

  for (const [what, code, body, headers] of [
    ['a batch', -32600, `[${whole({})}]`],
    ['an empty batch', -32600, '[]'],
    ['no JSON', -32700, '{bad'],
    ['duplicate keys', -32700, '{"jsonrpc":"2.0","id":1,"id":2,"method":"ListTasks"}'],
    ['another JSON-RPC', -32600, whole({ jsonrpc: '1.0' })],
    ['a method that is no text', -32600, whole({ method: 1 })],
    ['an id that is an object', -32600, whole({ id: {} })],
    ['params that are a list', -32602, whole({ params: [] })],
    ['an unknown method', -32601, whole({ method: 'Nonsense' })],
    ['a method of the other version', -32601, whole({ method: 'tasks/get' })],
    ['an unknown version', -32009, whole({}), { 'a2a-version': '0.5' }],
    ['another content type', -32005, whole({}), { 'content-type': 'text/plain' }],
    ['2 MB', -32600, whole({ params: { x: 'x'.repeat(2_000_000) } })],
  ] as const) {
    it(`${what} is ${code}`, async () => {
      const { json } = await post(body, headers);
      assert.equal(json.error.code, code);
      assert.equal(JSON.stringify(json).includes('xxxx'), false, 'nothing of the input comes back');
    });
  }

  it('a null id is echoed, and a notification is executed and answered with nothing', async () => {
    assert.equal((await post(whole({ id: null }))).json.id, null);
    const note = { jsonrpc: '2.0', method: 'SendMessage', params: { message: message('hold note') } };
    assert.deepEqual(await post(JSON.stringify(note)), { status: 204, json: null });
    await desk.took(({ body }) => body.text === 'hold note');
    const stream = { ...note, method: 'SendStreamingMessage', params: { message: message('hold stream note') } };
    assert.deepEqual(await post(JSON.stringify(stream)), { status: 204, json: null });
    await desk.took(({ body }) => body.text === 'hold stream note');
  });
});
