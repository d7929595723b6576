import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Task } from '@a2a-js/sdk';
import { legacyPushNotificationToV1StreamResponse } from '@a2a-js/sdk/compat/v0_3';
import type { Envelope, MessageKind } from '../../src/exchange/message.ts';
import type { ExchangeState, TaskMessage, TaskView } from '../../src/exchange/types.ts';
import { type RefusalCode, refusals, refuse } from '../../src/lib/refusal.ts';
import { ofRefusal } from '../../src/wires/a2a/errors.ts';
import { TaskFold, type TaskForm } from '../../src/wires/a2a/fold.ts';
import { type Task as A2aTask, REDSYN_EXTENSION, SIGNATURE_EXTENSION } from '../../src/wires/a2a/protocol.ts';
import { taskToV03 } from '../../src/wires/a2a/v03.ts';
import { agent, ask, type Fake, fakeWire, json } from './fakes.ts';

const url = '/a2a/v1/ana:finance:close';
const text = 'Is invoice 123 paid?';
const now = { returnImmediately: true };

function post(
  fake: Fake,
  params: object | string,
  more: { method?: string; headers?: Record<string, string>; target?: string; gone?: AbortSignal } = {},
) {
  const { method = 'SendMessage', headers = {}, target = url, gone } = more;
  const raw = typeof params === 'string' ? params : JSON.stringify(params);
  const body = `{"jsonrpc":"2.0","id":1,"method":${JSON.stringify(method)},"params":${raw}}`;
  return ask(fake.routes, target, {
    headers: { 'content-type': 'application/json', ...headers },
    body,
    ...(gone && { gone }),
  });
}

function message(over: object = {}) {
  return { messageId: 'm1', role: 'ROLE_USER', parts: [{ text }], ...over };
}

describe('a message of plain A2A', () => {
  test('in both versions it becomes the same envelope', async () => {
    const file = { a: [1, 'zwei', null] };
    const v1 = {
      message: message({ parts: [{ text }, { data: file }], contextId: 'ctx', metadata: { a: 1 } }),
      configuration: now,
    };
    const v03 = {
      message: {
        kind: 'message',
        messageId: 'm1',
        role: 'user',
        contextId: 'ctx',
        metadata: { a: 1 },
        parts: [
          { kind: 'text', text },
          { kind: 'data', data: file },
        ],
      },
      configuration: { blocking: false },
    };
    const fake = fakeWire();
    await post(fake, v1);
    await post(fake, v03, { method: 'message/send' });
    const [a, b] = fake.inbounds;
    assert.deepEqual(a!.envelope, {
      v: 1,
      id: 'm1',
      kind: 'request',
      from: '',
      to: 'acme/finance/ana/close',
      body: { type: 'text/plain', text: `${text}\n${JSON.stringify(file)}` },
    });
    assert.deepEqual(b!.envelope, a!.envelope);
    assert.deepEqual(
      [a!.thread, a!.addressee?.id, a!.answers, a!.idempotent],
      ['ctx', 'agent-ana-close', 'poll', false],
    );
    assert.equal(a!.a2aText, JSON.stringify(v1.message), 'the message is kept as it was written');
  });

  test('one data part alone is JSON', async () => {
    const fake = fakeWire();
    await post(fake, { message: message({ parts: [{ data: [1, 2] }] }), configuration: now });
    await post(fake, { message: message({ parts: [{ data: null }] }), configuration: now });
    assert.deepEqual(
      fake.inbounds.map((inbound) => inbound.envelope?.body),
      [
        { type: 'application/json', data: [1, 2] },
        { type: 'application/json', data: null },
      ],
    );
  });

  test('snake_case and numbers of enums are read as ProtoJSON has it', async () => {
    const fake = fakeWire();
    await post(fake, {
      message: { message_id: 'm1', role: 1, parts: [{ text }], context_id: 'ctx' },
      configuration: { return_immediately: true },
    });
    assert.deepEqual([fake.inbounds[0]!.envelope?.id, fake.inbounds[0]!.thread], ['m1', 'ctx']);
  });

  const wrong: [field: string, params: object][] = [
    ['message', {}],
    ['message', { message: 'x' }],
    ['message.messageId', { message: message({ messageId: undefined }) }],
    ['message.messageId', { message: message({ messageId: '' }) }],
    ['message.messageId', { message: message({ messageId: 7 }) }],
    ['message.messageId', { message: message({ messageId: 'x'.repeat(257) }) }],
    ['message.role', { message: message({ role: undefined }) }],
    ['message.role', { message: message({ role: 'ROLE_AGENT' }) }],
    ['message.role', { message: message({ role: 'user' }) }],
    ['message.parts', { message: message({ parts: undefined }) }],
    ['message.parts', { message: message({ parts: [] }) }],
    ['message.parts', { message: message({ parts: { text } }) }],
    ['message.parts', { message: message({ parts: Array.from({ length: 65 }, () => ({ text })) }) }],
    ['message.parts[1]', { message: message({ parts: [{ text }, 'x'] }) }],
    ['message.parts[0]', { message: message({ parts: [{}] }) }],
    ['message.parts[0]', { message: message({ parts: [{ text, data: 1 }] }) }],
    ['message.parts[0]', { message: message({ parts: [{ kind: 'text' }] }) }],
    ['message.parts[0].text', { message: message({ parts: [{ text: 7 }] }) }],
    ['message.parts', { message: message({ parts: [{ text: 'x'.repeat(65_537) }] }) }],
    ['message.contextId', { message: message({ contextId: 'x'.repeat(257) }) }],
    ['message.metadata', { message: message({ metadata: [] }) }],
    ['message.extensions', { message: message({ extensions: 'x' }) }],
    ['message', { message: message({ parts: [{ text: 'a\u0000b' }] }) }],
    ['configuration', { message: message(), configuration: 1 }],
    ['configuration.historyLength', { message: message(), configuration: { historyLength: -1 } }],
    ['configuration.historyLength', { message: message(), configuration: { historyLength: 1.5 } }],
    ['configuration.returnImmediately', { message: message(), configuration: { returnImmediately: 'yes' } }],
    ['tenant', { tenant: 'bob:erp:billing', message: message() }],
    ['tenant', { tenant: 7, message: message() }],
  ];
  for (const [field, params] of wrong) {
    test(`${JSON.stringify(params).slice(0, 90)} is refused for ${field}`, async () => {
      const fake = fakeWire();
      const { error } = json(await post(fake, params));
      assert.equal(error.code, -32602);
      assert.equal(error.data[1].fieldViolations[0].field, field);
      assert.deepEqual(fake.inbounds, [], 'nothing reached the gates');
    });
  }

  test('files go along in a zip, and what stands elsewhere as a reference', async () => {
    const raw = Buffer.from('hello').toString('base64');
    const parts = [
      { text },
      { raw, filename: '../../etc/passwd' },
      { raw, filename: 'passwd' },
      { raw, mediaType: 'text/plain' },
      { url: 'https://x.test/a', filename: 'a' },
    ];
    const fake = fakeWire();
    await post(fake, { message: message({ parts }), configuration: now });
    const v03 = { messageId: 'm', role: 'user', parts: [{ kind: 'file', file: { bytes: raw, name: 'a.txt' } }] };
    await post(fake, { message: v03 }, { method: 'message/send' });
    const [first, second] = fake.inbounds;
    // Of the zip's central directory: APPNOTE 6.3.10 §4.3.12.
    const names = (zip: Buffer | null | undefined) =>
      (zip?.toString('latin1') ?? '')
        .split('PK\u0001\u0002')
        .slice(1)
        .map((entry) => entry.slice(42, 42 + entry.charCodeAt(24)));
    assert.deepEqual(names(first!.zip), ['passwd', '2-passwd', 'file-4.txt']);
    assert.deepEqual(names(second!.zip), ['a.txt']);
    assert.deepEqual(first!.envelope!.refs, [{ url: 'https://x.test/a', note: 'a' }]);
    assert.deepEqual(first!.envelope!.body, { type: 'text/plain', text });
    assert.equal(first!.envelope!.files?.bytes, first!.zip!.length);
    assert.equal(first!.a2aText, JSON.stringify(message({ parts })), 'small files stay in the message too');
    const large = Buffer.alloc(200_000).toString('base64');
    await post(fake, { message: message({ parts: [{ raw: large, filename: 'big' }] }), configuration: now });
    assert.deepEqual(JSON.parse(fake.inbounds[2]!.a2aText!).parts, [{ filename: 'big', url: 'zip:big' }]);
    const bad = await post(fake, { message: message({ parts: [{ raw: '<html>' }] }), configuration: now });
    assert.equal(json(bad).error.data[1].fieldViolations[0].field, 'message.parts[0].raw');
  });

  test('an Idempotency-Key makes a repeat a repeat, a message id does not', async () => {
    const fake = fakeWire();
    const params = { message: message(), configuration: now };
    await post(fake, params);
    await post(fake, params, { headers: { 'idempotency-key': 'k1' } });
    await post(fake, { ...params, message: message({ messageId: 'other' }) }, { headers: { 'idempotency-key': 'k1' } });
    await post(fake, params, { headers: { 'idempotency-key': 'k2' } });
    const [bare, first, again, other] = fake.inbounds;
    assert.deepEqual(
      fake.inbounds.map((inbound) => inbound.idempotent),
      [false, true, true, true],
    );
    assert.equal(first!.envelope!.id, again!.envelope!.id);
    assert.notEqual(first!.envelope!.id, other!.envelope!.id);
    assert.equal(bare!.envelope!.id, 'm1');
  });

  test('the addressee comes from the path, the tenant or the front desk', async () => {
    const bob = agent({ user: 'bob', team: 'erp', handle: 'billing' });
    const ids: [target: string, tenant: string | undefined, id: string | undefined, to: string][] = [
      ['/', undefined, 'agent-ana-close', 'acme/finance/ana/close'],
      ['/a2a/v1', undefined, 'agent-ana-close', 'acme/finance/ana/close'],
      ['/a2a/v1/', 'bob:erp:billing', 'agent-bob-billing', 'acme/erp/bob/billing'],
      ['/a2a/v1/bob', undefined, 'agent-bob-billing', 'acme/erp/bob/billing'],
      ['/a2a/v1/bob:erp:billing/', undefined, 'agent-bob-billing', 'acme/erp/bob/billing'],
      ['/a2a/v1/bob%3Aerp%3Abilling', 'bob:erp:billing', 'agent-bob-billing', 'acme/erp/bob/billing'],
      ['/agents/bob', undefined, 'agent-bob-billing', 'acme/erp/bob/billing'],
      ['/agents/bob/erp/billing', undefined, 'agent-bob-billing', 'acme/erp/bob/billing'],
      ['/orgs/acme/agents/bob/erp/billing', undefined, 'agent-bob-billing', 'acme/erp/bob/billing'],
      ['/a2a/v1/eve', undefined, undefined, 'did:web:acme.test:agents:eve'],
      ['/agents/eve/x/y', undefined, undefined, 'did:web:acme.test:agents:eve:x:y'],
    ];
    for (const [target, tenant, id, to] of ids) {
      const fake = fakeWire([agent(), bob]);
      await post(fake, { ...(tenant && { tenant }), message: message(), configuration: now }, { target });
      const [inbound] = fake.inbounds;
      assert.deepEqual([inbound!.addressee?.id, inbound!.envelope!.to], [id, to], target);
    }
    for (const target of ['/a2a/v1/Ana', '/a2a/v1/a:b', '/a2a/v1/a:b:c:d', '/a2a/v1/..:a:b']) {
      assert.equal(json(await post(fakeWire(), { message: message() }, { target })).error.code, -32602, target);
    }
  });
});

describe('a blocking send', () => {
  const working: Partial<TaskView> = { state: 'working' };

  test('waits for the end and answers with the artifact', async () => {
    const fake = fakeWire();
    const pending = post(fake, { message: message() });
    await turns();
    assert.equal(fake.waits[0]!.ms, 25_000);
    fake.change('task-1', working);
    await turns();
    fake.change('task-1', {
      state: 'completed',
      messages: [...fake.views.get('task-1')!.messages, told('reply', 'r1', 'Yes.')],
    });
    const { task } = json(await pending).result;
    assert.equal(task.status.state, 'TASK_STATE_COMPLETED');
    assert.deepEqual(task.artifacts, [{ artifactId: 'r1', parts: [{ text: 'Yes.', mediaType: 'text/plain' }] }]);
  });

  for (const state of ['input_required', 'auth_required', 'failed', 'rejected', 'canceled'] as const) {
    test(`ends at ${state}`, async () => {
      const fake = fakeWire();
      const pending = post(fake, { message: message() });
      await turns();
      fake.change('task-1', { state });
      assert.equal(json(await pending).result.task.status.state, `TASK_STATE_${state.toUpperCase()}`);
    });
  }

  test('answers the task as it stands after 25 s', async () => {
    const fake = fakeWire();
    const pending = post(fake, { message: message() });
    await turns();
    fake.change('task-1', working);
    await turns();
    fake.clock.advance(25_000);
    assert.equal(json(await pending).result.task.status.state, 'TASK_STATE_WORKING');
  });

  test('ends when the caller goes away', async () => {
    const fake = fakeWire();
    const gone = new AbortController();
    const pending = post(fake, { message: message() }, { gone: gone.signal });
    await turns();
    gone.abort();
    await pending;
  });

  test('0.3 waits only when it is asked to', async () => {
    const fake = fakeWire();
    const v03 = { messageId: 'm', role: 'user', parts: [{ kind: 'text', text }] };
    assert.equal(json(await post(fake, { message: v03 }, { method: 'message/send' })).result.status.state, 'submitted');
    const pending = post(fake, { message: v03, configuration: { blocking: true } }, { method: 'message/send' });
    await turns();
    fake.change('task-2', { state: 'completed' });
    assert.equal(json(await pending).result.status.state, 'completed');
  });
});

describe('the REDSYN extension', () => {
  // Numbers, escapes, blanks and order that a second printing would change.
  const envelope =
    '{ "kind":"request","v":1,"id":"e1","from":"globex/erp/bob/billing","to":"acme/finance/ana/close","thread":"t-theirs",' +
    '"body":{"type":"application/json","data":{"z":1.0,"a":1E2,"big":12345678901234567890,"\\u0061b":"\\u00e9"}},"extra":[ 1 ] }';
  const params = (text: string, over: object = {}) => {
    const whole = JSON.stringify({
      message: message({
        contextId: 'ctx-wire',
        metadata: { [REDSYN_EXTENSION]: '@' },
        extensions: [REDSYN_EXTENSION],
        ...over,
      }),
    });
    return whole.replace('"@"', () => text);
  };

  test('the envelope is taken byte for byte and answered at once', async () => {
    const fake = fakeWire();
    const response = await post(fake, params(envelope), {
      headers: { 'a2a-extensions': `${REDSYN_EXTENSION}, https://x.test/unknown` },
    });
    const [inbound] = fake.inbounds;
    assert.equal(inbound!.envelopeText, envelope);
    assert.deepEqual(
      [inbound!.envelope!.id, inbound!.envelope!.from, inbound!.thread],
      ['e1', 'globex/erp/bob/billing', 'ctx-wire'],
    );
    assert.deepEqual(
      [inbound!.idempotent, inbound!.answers, inbound!.a2aText, inbound!.addressee?.id],
      [true, 'inbox', undefined, 'agent-ana-close'],
    );
    const { task } = json(response).result;
    assert.deepEqual(task.metadata, {
      [REDSYN_EXTENSION]: {
        id: 'e1',
        thread: 'ctx-wire',
        to: 'acme/finance/ana/close#s1',
        signed: false,
        duplicate: false,
      },
    });
    assert.equal(task.status.state, 'TASK_STATE_SUBMITTED');
    assert.equal(response.headers?.['a2a-extensions'], REDSYN_EXTENSION);
  });

  test('without an id of its own it has that of its wrapping', async () => {
    const fake = fakeWire();
    await post(fake, params(envelope.replace('"id":"e1",', '')));
    assert.equal(fake.inbounds[0]!.envelope!.id, 'm1');
  });

  test('a tenant that names nobody is left to the gates, and reaches nobody', async () => {
    const fake = fakeWire();
    const { error } = json(await post(fake, params(envelope), { target: '/a2a/v1/eve:x:y' }));
    // `to` stays as its node sealed it: another one would tell a missing agent from a hidden one by a broken seal.
    assert.equal(fake.inbounds[0]!.envelope!.to, 'acme/finance/ana/close');
    assert.equal(fake.inbounds[0]!.addressee, null);
    assert.equal(error.data[0].metadata.code, 'address_not_found');
  });

  test('a bad envelope is refused by its own field', async () => {
    for (const bad of [
      '7',
      '{"v":2}',
      '{"v":1,"kind":"reply","from":"a/b/c/d","body":{"type":"text/plain","text":""}}',
    ]) {
      const { error } = json(await post(fakeWire(), params(bad)));
      assert.equal(error.code, -32602, bad);
    }
  });
});

describe('a follow-up in a task', () => {
  test('is handed on with the task and the context that it names', async () => {
    const fake = fakeWire();
    await post(fake, { message: message({ contextId: 'ctx' }), configuration: now });
    const { task } = json(await post(fake, { message: message({ taskId: 'task-1' }), configuration: now })).result;
    assert.deepEqual([task.id, task.contextId], ['task-1', 'ctx']);
    assert.equal(fake.views.size, 1, 'no other task was opened');
  });

  test('an unknown task, another agent and an ended task are refused', async () => {
    const fake = fakeWire([agent(), agent({ user: 'bob', team: 'erp', handle: 'billing' })]);
    await post(fake, { message: message({ contextId: 'ctx' }), configuration: now });
    const follow = async (over: object, target = url) =>
      json(await post(fake, { message: message(over), configuration: now }, { target })).error.code;
    assert.equal(await follow({ taskId: 'nope' }), -32001);
    assert.equal(await follow({ taskId: 'task-1' }, '/a2a/v1/bob:erp:billing'), -32001);
    fake.change('task-1', { state: 'completed' });
    assert.equal(await follow({ taskId: 'task-1' }), -32004);
    assert.equal(fake.accepted.length, 1, 'nothing was kept');
  });
});

describe('GetTask', () => {
  test('is for the person of the token, or for nobody', async () => {
    const fake = fakeWire();
    await post(fake, { message: message(), configuration: now });
    const asked = { id: 'task-1', historyLength: 0 };
    const { result } = json(await post(fake, asked, { method: 'GetTask', headers: { authorization: 'Bearer ana' } }));
    assert.deepEqual([result.id, result.history, result.status.state], ['task-1', undefined, 'TASK_STATE_SUBMITTED']);
    await post(fake, { id: 'task-1' }, { method: 'tasks/get' });
    assert.deepEqual(fake.viewers, [{ kind: 'member', memberIds: ['member-ana'] }, { kind: 'anonymous' }]);
  });

  test('a proof that does not hold is 401 and nothing is looked up', async () => {
    const fake = fakeWire();
    const response = await post(
      fake,
      { id: 'task-1' },
      { method: 'GetTask', headers: { authorization: 'Bearer wrong' } },
    );
    assert.equal(response.status, 401);
    assert.deepEqual(fake.viewers, []);
  });

  test('unknown, and of another agent, are the same', async () => {
    const fake = fakeWire([agent(), agent({ user: 'bob', team: 'erp', handle: 'billing' })]);
    await post(fake, { message: message(), configuration: now });
    const unknown = await post(fake, { id: 'nope' }, { method: 'GetTask' });
    const others = await post(fake, { id: 'task-1' }, { method: 'GetTask', target: '/a2a/v1/bob:erp:billing' });
    assert.equal(json(unknown).error.code, -32001);
    assert.deepEqual(json(others), json(unknown));
  });

  for (const [field, params] of [
    ['id', {}],
    ['id', { id: 7 }],
    ['historyLength', { id: 'a', historyLength: -1 }],
  ] as const) {
    test(`${JSON.stringify(params)} is refused for ${field}`, async () => {
      const { error } = json(await post(fakeWire(), params, { method: 'GetTask' }));
      assert.deepEqual([error.code, error.data[1].fieldViolations[0].field], [-32602, field]);
    });
  }
});

const taskOf = (view: TaskView, form: TaskForm): A2aTask =>
  TaskFold.of(view, { part: () => ({ url: 'https://acme.test/files' }) }).task(form);

describe('tasks in both versions', () => {
  const at = Date.UTC(2026, 8, 21, 14, 13, 20);
  const asked: TaskMessage = {
    seq: 1,
    id: 'inner',
    kind: 'request',
    fromAsker: true,
    envelope: envelopeOf('request', 'inner', text),
    createdAt: at,
    a2aText: JSON.stringify({
      kind: 'message',
      messageId: 'm1',
      role: 'user',
      parts: [{ kind: 'text', text }],
      contextId: 'x',
    }),
  };
  const progress = told('progress', 'p1', 'Which year?');
  const reply = told('reply', 'r1', 'Yes.');
  const base: TaskView = {
    id: 'task-1',
    thread: 'ctx',
    asked: { agentId: 'a', address: 'x' },
    state: 'submitted',
    reason: null,
    createdAt: at,
    updatedAt: at,
    messages: [asked],
  };

  const views: [state: ExchangeState, messages: TaskMessage[], reason: string | null][] = [
    ['submitted', [asked], null],
    ['working', [asked, progress], null],
    ['input_required', [asked, progress], null],
    ['auth_required', [asked], null],
    ['completed', [asked, progress, reply], null],
    ['failed', [asked, { ...reply, envelope: { ...reply.envelope, error: true } }], 'agent_error'],
    ['canceled', [asked], 'canceled'],
    ['rejected', [asked], 'policy_denied'],
  ];
  for (const [state, messages, reason] of views) {
    test(`${state}: what the SDK reads of 1.0 and of 0.3 is the same task`, () => {
      const view = { ...base, state, messages, reason };
      const v1 = Task.fromJSON(taskOf(view, { historyLength: undefined }));
      const v03 = taskToV03(taskOf(view, { historyLength: undefined }));
      const { payload } = legacyPushNotificationToV1StreamResponse(v03);
      assert.equal(payload?.$case, 'task');
      assert.deepEqual(withoutMediaTypes(Task.toJSON(payload!.value as Task)), withoutMediaTypes(Task.toJSON(v1)));
    });
  }

  test('1.0, golden', () => {
    const view: TaskView = { ...base, state: 'completed', messages: [asked, progress, reply], updatedAt: at + 1 };
    assert.deepEqual(taskOf(view, { historyLength: undefined }), {
      id: 'task-1',
      contextId: 'ctx',
      status: { state: 'TASK_STATE_COMPLETED', timestamp: '2026-09-21T14:13:20.001Z' },
      artifacts: [{ artifactId: 'r1', parts: [{ text: 'Yes.', mediaType: 'text/plain' }] }],
      history: [
        { messageId: 'm1', parts: [{ text }], role: 'ROLE_USER', contextId: 'ctx', taskId: 'task-1' },
        {
          messageId: 'p1',
          parts: [{ text: 'Which year?', mediaType: 'text/plain' }],
          role: 'ROLE_AGENT',
          contextId: 'ctx',
          taskId: 'task-1',
        },
      ],
    });
  });

  test('0.3, golden', () => {
    const view: TaskView = { ...base, state: 'input_required', messages: [asked, progress], updatedAt: at };
    assert.deepEqual(taskToV03(taskOf(view, { historyLength: undefined })), {
      kind: 'task',
      id: 'task-1',
      contextId: 'ctx',
      status: {
        state: 'input-required',
        message: {
          kind: 'message',
          messageId: 'p1',
          contextId: 'ctx',
          taskId: 'task-1',
          role: 'agent',
          parts: [{ kind: 'text', text: 'Which year?' }],
        },
        timestamp: '2026-09-21T14:13:20.000Z',
      },
      history: [
        {
          kind: 'message',
          messageId: 'm1',
          contextId: 'ctx',
          taskId: 'task-1',
          role: 'user',
          parts: [{ kind: 'text', text }],
        },
      ],
    });
  });

  test('historyLength: 0 has no history, n the newest n', () => {
    const view: TaskView = { ...base, state: 'completed', messages: [asked, progress, reply] };
    const history = (historyLength: number) => taskOf(view, { historyLength }).history;
    assert.equal(history(0), undefined);
    assert.deepEqual(
      history(1)?.map((one) => one.messageId),
      ['p1'],
    );
    assert.equal(history(100)?.length, 2);
  });
});

describe('refusals', () => {
  test('every code has its JSON-RPC form, and is told by its code', () => {
    for (const code of Object.keys(refusals) as RefusalCode[]) {
      const error = ofRefusal(refuse(code, undefined, { detail: 'secret-detail' }).by('policy'));
      const [info] = error.data as [{ reason: string; metadata: Record<string, unknown> }];
      assert.match(info.reason, /^[A-Z_]+$/);
      assert.deepEqual([info.metadata.code, info.metadata.gate], [code, 'policy']);
      assert.ok(Object.values(info.metadata).every((value) => typeof value === 'string'));
      assert.doesNotMatch(JSON.stringify(error), /secret-detail/);
    }
  });

  async function refused(code: RefusalCode, headers: Record<string, string> = {}, method = 'SendMessage', extra = {}) {
    const fake = fakeWire();
    fake.refusal = refuse(code, undefined, extra).by('authenticate');
    const sent =
      method === 'SendMessage' ? message() : { messageId: 'm', role: 'user', parts: [{ kind: 'text', text }] };
    return post(fake, { message: sent }, { headers, method });
  }

  test('a stranger that declared nothing hears which extension it needs', async () => {
    const response = await refused('unauthenticated');
    const { error } = json(response);
    assert.deepEqual([response.status, error.code, error.data[0].reason], [200, -32008, 'EXTENSION_SUPPORT_REQUIRED']);
    assert.equal(error.data[0].metadata.extension, SIGNATURE_EXTENSION);
  });

  test('one that declared it, tried a proof, or speaks 0.3 gets 401 and what to do', async () => {
    for (const response of [
      await refused('unauthenticated', { 'a2a-extensions': SIGNATURE_EXTENSION }),
      await refused('unauthenticated', { authorization: 'Bearer x' }),
      await refused('signature_failed', { 'signature-input': 'x', signature: 'y' }),
      await refused('unauthenticated', {}, 'message/send'),
    ]) {
      assert.equal(response.status, 401);
      assert.match(response.headers?.['www-authenticate'] ?? '', /^Bearer/);
      assert.match(response.headers?.['accept-signature'] ?? '', /^sig1=\("@method"/);
      assert.equal(json(response).id, 1);
    }
  });

  test('429 has Retry-After; what waits for the owner is no HTTP error', async () => {
    const limited = await refused('rate_limited', {}, 'SendMessage', { retryAfter: 2.2 });
    assert.deepEqual([limited.status, limited.headers?.['retry-after']], [429, '3']);
    const pending = await refused('pending_connection');
    const [info] = json(pending).error.data;
    assert.deepEqual(
      [pending.status, info.reason, info.domain, info.metadata.retryable],
      [200, 'PENDING_CONNECTION', 'gatehouse.dev', 'true'],
    );
  });
});

function told(kind: MessageKind, id: string, words: string): TaskMessage {
  return { seq: 2, id, kind, fromAsker: false, envelope: envelopeOf(kind, id, words), a2aText: null, createdAt: 0 };
}

function envelopeOf(kind: MessageKind, id: string, words: string): Envelope {
  return { v: 1, id, kind, from: 'acme/finance/ana/close', body: { type: 'text/plain', text: words } };
}

/** 0.3 has no media type on text parts. */
function withoutMediaTypes(task: unknown): unknown {
  return JSON.parse(JSON.stringify(task, (key, value) => (key === 'mediaType' ? undefined : value)));
}

async function turns(): Promise<void> {
  for (let i = 0; i < 5; i++) await new Promise(setImmediate);
}
