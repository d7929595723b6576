import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { ManualClock } from '../../src/lib/clock.ts';
import { storedZip } from '../../src/lib/zip-write.ts';
import { eventually, person } from '../support/gateway.ts';
import { sendSigned, startPeer } from '../support/peer.ts';
import { receiver } from '../support/receiver.ts';
import { address, ask, message, path, rpc, startDesk, tenant } from './desk.ts';

const desk = await startDesk({ after });
const { gateway } = desk;
const { token } = gateway;
const bob = await person(gateway, 'bob');
const immediately = { configuration: { returnImmediately: true } };

// biome-ignore lint/suspicious/noExplicitAny: tests look into answers
const result = async (method: string, params: object, by: { token?: string | undefined } = { token }): Promise<any> => {
  const { json } = await rpc(gateway, method, params, by);
  assert.equal(json.error, undefined, JSON.stringify(json.error));
  return json.result;
};
const code = async (method: string, params: object, by: { token?: string | undefined } = { token }): Promise<number> =>
  (await rpc(gateway, method, params, by)).json.error?.code;

describe('ListTasks', () => {
  it('pages stay right while tasks are added and change', async () => {
    const contextId = 'paging';
    const made: string[] = [];
    for (let i = 0; i < 7; i++)
      made.push((await ask(gateway, `hold p${i}`, { token, more: { contextId }, ...immediately })).id);
    const first = await result('ListTasks', { contextId, pageSize: 3 });
    assert.deepEqual([first.tasks.length, first.pageSize, first.totalSize], [3, 3, 7]);
    // Added, and one of the first page changes: neither moves what is still to come.
    await ask(gateway, 'hold more', { token, more: { contextId }, ...immediately });
    const request = await desk.took(({ body }) => body.text === 'hold p6');
    await desk.post(desk.answering(request, 'progress', 'Moved.'));
    const rest: string[] = [];
    let { nextPageToken } = first;
    for (let pages = 0; nextPageToken !== ''; pages++) {
      assert.ok(pages < 5);
      const page = await result('ListTasks', { contextId, pageSize: 3, pageToken: nextPageToken });
      assert.equal(page.totalSize, 8);
      rest.push(...page.tasks.map(({ id }: { id: string }) => id));
      ({ nextPageToken } = page);
    }
    assert.deepEqual([...first.tasks.map(({ id }: { id: string }) => id), ...rest], made.reverse());
  });

  it('filters by state, time, context and agent, and shows what is asked for', async () => {
    const contextId = 'filters';
    const done = await ask(gateway, 'hello', { token, more: { contextId } });
    const waiting = await ask(gateway, 'ask', { token, more: { contextId } });
    const ids = async (more: object): Promise<string[]> =>
      (await result('ListTasks', { contextId, ...more })).tasks.map(({ id }: { id: string }) => id);
    assert.deepEqual(await ids({}), [waiting.id, done.id]);
    assert.deepEqual(await ids({ status: 'TASK_STATE_COMPLETED' }), [done.id]);
    assert.deepEqual(await ids({ status: 6 }), [waiting.id]);
    assert.deepEqual(await ids({ statusTimestampAfter: waiting.status.timestamp }), [waiting.id], 'at or after');
    assert.deepEqual(await ids({ tenant }), [waiting.id, done.id]);
    assert.deepEqual(await ids({ contextId: 'another' }), []);
    const [, plain] = (await result('ListTasks', { contextId })).tasks;
    assert.deepEqual(['artifacts' in plain, 'history' in plain], [false, false]);
    const [asked, whole] = (await result('ListTasks', { contextId, includeArtifacts: true, historyLength: 1 })).tasks;
    assert.deepEqual(
      [asked.artifacts, whole.artifacts[0].parts[0].text, whole.history.length],
      [[], 'You said: hello', 1],
    );
    assert.equal(asked.status.message.parts[0].text, 'Which year?');
  });

  it("shows nobody else's tasks, and to nobody in particular those of a context that only she was told", async () => {
    const contextId = 'mine alone';
    await ask(gateway, 'done', { token, more: { contextId } });
    assert.equal((await result('ListTasks', { contextId }, { token: bob.token })).totalSize, 0);
    assert.equal((await result('ListTasks', { contextId }, {})).totalSize, 0);
    const anonymous = await ask(gateway, 'done');
    await ask(gateway, 'done again', { more: { contextId: anonymous.contextId } });
    assert.equal((await result('ListTasks', {}, {})).totalSize, 0, 'without a context there is nothing to know her by');
    assert.equal((await result('ListTasks', { contextId: anonymous.contextId }, {})).totalSize, 2);
    // A context that callers make up is no secret.
    await ask(gateway, 'done', { more: { contextId: 'guess' } });
    assert.equal((await result('ListTasks', { contextId: 'guess' }, {})).totalSize, 0);
  });

  for (const [field, params] of [
    ['pageSize', { pageSize: 0 }],
    ['pageSize', { pageSize: 101 }],
    ['pageSize', { pageSize: -1 }],
    ['pageToken', { pageToken: 'nonsense' }],
    ['pageToken', { pageToken: Buffer.from("1.'; drop").toString('base64url') }],
    ['status', { status: 'completed' }],
    ['status', { status: 99 }],
    ['statusTimestampAfter', { statusTimestampAfter: 'yesterday' }],
    ['historyLength', { historyLength: -1 }],
    ['includeArtifacts', { includeArtifacts: 'yes' }],
    ['contextId', { contextId: 7 }],
  ] as const) {
    it(`${JSON.stringify(params)} is refused for ${field}`, async () => {
      const { json } = await rpc(gateway, 'ListTasks', params, { token });
      assert.deepEqual([json.error?.code, json.error?.data[1].fieldViolations[0].field], [-32602, field]);
    });
  }
});

describe('CancelTask', () => {
  it('of a task that nobody took removes it from the inbox', async () => {
    await gateway.admin.announce('acme/general/joel/away', { allow: ['anyone'] });
    const { json } = await rpc(
      gateway,
      'SendMessage',
      { message: message('x'), ...immediately },
      { target: '/a2a/v1/joel:general:away' },
    );
    const away = { target: '/a2a/v1/joel:general:away' };
    const canceled = await rpc(gateway, 'CancelTask', { id: json.result.task.id }, away);
    assert.equal(canceled.json.result.status.state, 'TASK_STATE_CANCELED');
    assert.deepEqual(await gateway.admin.take('acme/general/joel/away', { wait: 0 }), []);
  });

  it('tells an agent that took it, and what the agent says later is too late', async () => {
    const task = await ask(gateway, 'hold cancel', immediately);
    const request = await desk.took(({ body }) => body.text === 'hold cancel');
    await desk.post(desk.answering(request, 'progress', 'At it.'));
    await result('CancelTask', { id: task.id }, {});
    const notice = await desk.took(({ reply_to, kind }) => kind === 'progress' && reply_to === request.id);
    assert.deepEqual(
      [notice.thread, notice.to, notice.body.data],
      [request.thread, request.to, { status: { state: 'TASK_STATE_CANCELED' } }],
    );
    const late = await desk.post(desk.answering(request, 'reply', 'Finished!'));
    assert.deepEqual([late.status, late.json.code], [409, 'exchange_closed']);
    const seen = await result('GetTask', { id: task.id }, {});
    assert.equal(seen.status.state, 'TASK_STATE_CANCELED');
    assert.equal(seen.history.at(-1).parts[0].text, 'At it.');
  });

  it('is refused for a task that has ended, and unknown to whoever did not ask', async () => {
    for (const text of ['done', 'fail', 'reject']) {
      const task = await ask(gateway, text);
      assert.equal(await code('CancelTask', { id: task.id }, {}), -32002, text);
    }
    const task = await ask(gateway, 'hold mine', { token, ...immediately });
    assert.equal(await code('CancelTask', { id: task.id }, { token: bob.token }), -32001);
    assert.equal(await code('CancelTask', { id: task.id }, {}), -32001);
    assert.equal(await code('CancelTask', { id: 'nonsense' }), -32001);
    assert.equal(await code('CancelTask', {}), -32602);
    await result('CancelTask', { id: task.id });
    assert.equal(await code('CancelTask', { id: task.id }), -32002, 'a second time');
  });

  it('and a reply at the same moment: one of them wins, and both know which', async () => {
    for (let i = 0; i < 10; i++) {
      const task = await ask(gateway, `hold race${i}`, immediately);
      const request = await desk.took(({ body }) => body.text === `hold race${i}`);
      const [canceled, replied] = await Promise.all([
        rpc(gateway, 'CancelTask', { id: task.id }),
        desk.post(desk.answering(request, 'reply', 'Here.')),
      ]);
      const { status } = await result('GetTask', { id: task.id }, {});
      const won = canceled.json.error === undefined;
      assert.equal(replied.status, won ? 409 : 201);
      assert.equal(status.state, won ? 'TASK_STATE_CANCELED' : 'TASK_STATE_COMPLETED');
    }
  });
});

describe('going on with a task', () => {
  it('reaches the agent in the same session, and a reply to either message ends it', async () => {
    for (const answered of ['first', 'second'] as const) {
      const task = await ask(gateway, `hold ${answered} q`, { token, ...immediately });
      const first = await desk.took(({ body }) => body.text === `hold ${answered} q`);
      await desk.post(
        desk.answering(first, 'progress', 'Which?', {
          body: { type: 'application/json', data: { question: 'Which?' } },
        }),
      );
      const more = { taskId: task.id, contextId: task.contextId };
      const went = await ask(gateway, `hold ${answered} more`, { token, more, ...immediately });
      assert.deepEqual([went.id, went.status.state], [task.id, 'TASK_STATE_WORKING']);
      const second = await desk.took(({ body }) => body.text === `hold ${answered} more`);
      assert.deepEqual([second.to, second.thread, second.reply_to], [first.to, first.thread, first.id]);
      await desk.post(desk.answering(answered === 'first' ? first : second, 'reply', 'There.'));
      const { status, history } = await result('GetTask', { id: task.id });
      assert.equal(status.state, 'TASK_STATE_COMPLETED');
      assert.deepEqual(
        history.map(({ role, parts }: { role: string; parts: { text?: string }[] }) => [role, parts[0]!.text]),
        [
          ['ROLE_USER', `hold ${answered} q`],
          ['ROLE_AGENT', 'Which?'],
          ['ROLE_USER', `hold ${answered} more`],
        ],
      );
      const late = await desk.post(desk.answering(answered === 'first' ? second : first, 'reply', 'Again.'));
      assert.equal(late.json.code, 'exchange_closed');
    }
  });

  it('takes the context from the task, and refuses another, another agent, and a task that has ended', async () => {
    const task = await ask(gateway, 'ask');
    const again = await ask(gateway, 'ask', { more: { taskId: task.id } });
    assert.equal(again.contextId, task.contextId);
    const send = (more: object, by = {}) => code('SendMessage', { message: message('x', more) }, by);
    assert.equal(await send({ taskId: task.id, contextId: 'another' }, { token: bob.token }), -32001, 'not hers');
    assert.equal(await send({ taskId: task.id, contextId: 'another' }, {}), -32602);
    assert.equal(await send({ taskId: 'nothing' }, {}), -32001);
    await gateway.admin.announce('acme/general/joel/other', { allow: ['anyone'] });
    const elsewhere = await rpc(
      gateway,
      'SendMessage',
      { message: message('x', { taskId: task.id }) },
      { target: '/a2a/v1/joel:general:other' },
    );
    assert.equal(elsewhere.json.error.code, -32001);
    await ask(gateway, 'done', { more: { taskId: task.id } });
    assert.equal(await send({ taskId: task.id }, {}), -32004);
  });

  it('a hundred messages at once, and none is lost', async () => {
    const task = await ask(gateway, 'ask many');
    await Promise.all(
      Array.from({ length: 100 }, (_, i) =>
        ask(gateway, `hold many${i}`, { more: { taskId: task.id }, ...immediately }),
      ),
    );
    for (let i = 0; i < 100; i++) await desk.took(({ body }) => body.text === `hold many${i}`);
    await ask(gateway, 'done', { more: { taskId: task.id } });
    const { history } = await result('GetTask', { id: task.id }, {});
    assert.equal(history.filter(({ role }: { role: string }) => role === 'ROLE_USER').length, 102);
  });

  it('an anonymous caller keeps its conversation by the context that it was given, never by one that it made up', async () => {
    const task = await ask(gateway, 'hold c1', immediately);
    const first = await desk.took(({ body }) => body.text === 'hold c1');
    await ask(gateway, 'hold c2', { more: { contextId: task.contextId }, ...immediately });
    const second = await desk.took(({ body }) => body.text === 'hold c2');
    assert.equal(second.to, first.to, 'the same session');
    const made = await ask(gateway, 'hold c3', { more: { contextId: 'made-up' }, ...immediately });
    assert.equal(made.contextId, 'made-up');
    const third = await desk.took(({ body }) => body.text === 'hold c3');
    await ask(gateway, 'hold c4', { more: { contextId: 'made-up' }, ...immediately });
    const fourth = await desk.took(({ body }) => body.text === 'hold c4');
    assert.notEqual(fourth.to, third.to, 'who writes the same words may be somebody else');
    const foreign = await ask(gateway, 'hold c5', {
      token: bob.token,
      more: { contextId: task.contextId },
      ...immediately,
    });
    assert.equal(foreign.contextId, task.contextId, 'echoed');
    const fifth = await desk.took(({ body }) => body.text === 'hold c5');
    assert.notEqual(fifth.thread, first.thread, 'and not entered');
  });
});

describe('a repeated send', () => {
  it('is the first again with an Idempotency-Key, and another without', async () => {
    const params = { message: message('hold twice'), ...immediately };
    const headers = { 'idempotency-key': 'k-1' };
    const send = async (more: object = {}) =>
      (await rpc(gateway, 'SendMessage', params, { token, ...more })).json.result.task.id;
    const first = await send({ headers });
    assert.equal(await send({ headers }), first);
    assert.notEqual(await send(), await send());
    assert.notEqual(await send({ headers, token: bob.token }), first, "somebody else's key is another");
  });
});

describe('a signed peer', () => {
  it('sees what its own DIDs asked, and nobody else does', async (t) => {
    const peer = await startPeer(t);
    const eve = peer.identity('agents:eve');
    const mallory = peer.identity('agents:mallory');
    const call = async (who: typeof eve, method: string, params: object) => {
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
      return (await sendSigned(gateway, { path, body, headers: { 'a2a-version': '1.0' } }, who)).json;
    };
    const { result: sent } = await call(eve, 'SendMessage', { message: message('done') });
    const { id } = sent.task;
    assert.equal((await call(eve, 'GetTask', { id })).result.id, id);
    assert.equal((await call(mallory, 'GetTask', { id })).error.code, -32001);
    assert.equal((await call(eve, 'ListTasks', {})).result.totalSize, 1);
    assert.equal((await call(mallory, 'ListTasks', {})).result.totalSize, 0);
    assert.equal((await call(peer.instance, 'ListTasks', {})).result.totalSize, 1, 'the DID above sees it');
  });
});

describe('files of a reply', () => {
  const zip = storedZip([{ name: 'scan.txt', data: Buffer.from('page 1') }]);
  const files = { zip: zip.toString('base64') };

  it('are an artifact, wherever the task is told: its URL has the zip, and nobody can guess it', async (t) => {
    const hook = await receiver(t);
    const task = await ask(gateway, 'hold zip', {
      configuration: { returnImmediately: true, taskPushNotificationConfig: { url: hook.url } },
    });
    const request = await desk.took(({ body }) => body.text === 'hold zip');
    const { status, json } = await desk.post(desk.answering(request, 'reply', 'See the scan.', { files }));
    assert.equal(status, 201, JSON.stringify(json));
    const { artifacts } = await result('GetTask', { id: task.id }, {});
    assert.deepEqual(artifacts[0].parts, [{ text: 'See the scan.', mediaType: 'text/plain' }]);
    const [{ url, ...part }, ...more] = artifacts[1].parts;
    assert.deepEqual([part, more], [{ filename: 'files.zip', mediaType: 'application/zip' }, []]);
    assert.ok(url.startsWith(`${gateway.url}/a2a/v1/files/`));
    const got = await fetch(url);
    assert.deepEqual([got.status, got.headers.get('content-type')], [200, 'application/zip']);
    assert.match(got.headers.get('content-disposition') ?? '', /^attachment/);
    assert.deepEqual(Buffer.from(await got.arrayBuffer()), zip);
    const [, seq, mac] = /(\d+)\.([^.]+)$/.exec(url)!;
    for (const wrong of [`${Number(seq) - 1}.${mac}`, `${seq}.${'A'.repeat(43)}`, seq!, `0${seq}.${mac}x`]) {
      assert.equal((await fetch(`${gateway.url}/a2a/v1/files/${wrong}`)).status, 404, wrong);
    }
    const pushed = await eventually('the push', async () => hook.arrived.at(-1)?.json.task.artifacts);
    assert.deepEqual(pushed, artifacts);
    const legacy = await result('tasks/get', { id: task.id }, {});
    assert.deepEqual(legacy.artifacts[1].parts, [
      { kind: 'file', file: { uri: url, name: 'files.zip', mimeType: 'application/zip' } },
    ]);
  });

  it('come with a bare message as a task, and stay for a day', async (t) => {
    const clock = new ManualClock(Date.UTC(2026, 8, 21, 12));
    const other = await startDesk(t, {
      clock,
      behave: (_text, say) => say.reply({ message: { parts: [{ text: 'Here.' }] } }, { files }),
    });
    const task = await ask(other.gateway, 'files');
    assert.equal(task.status.message.parts[0].text, 'Here.');
    const [{ url }] = task.artifacts[0].parts;
    assert.equal((await fetch(url)).status, 200);
    clock.advance(86_400_000 - 1_000);
    assert.equal((await fetch(url)).status, 200);
    await eventually('they are gone', async () => {
      clock.advance(60_000);
      return (await fetch(url)).status === 404;
    });
    const { rows } = await other.gateway.database.db.query('select from message_files where zip is not null');
    assert.equal(rows.length, 0);
  });
});

describe('what nobody can advance any more', () => {
  it('ends in a final state that says why, to a follower too (REL-08)', async (t) => {
    const clock = new ManualClock(Date.UTC(2026, 8, 21, 12));
    const away = await startDesk(t, { clock, behave: async () => undefined });
    const params = { message: message('x', {}), ...immediately };
    const silent = 'acme/general/joel/silent';
    await away.gateway.admin.announce(silent, { allow: ['anyone'] });
    const target = '/a2a/v1/joel:general:silent';
    // One that the agent took, and never what its asker said then.
    const { task: taken } = (await rpc(away.gateway, 'SendMessage', params, { target })).json.result;
    const [request] = await away.gateway.admin.take(silent);
    await away.gateway.admin.ack(silent, [request!.id]);
    const more = { message: message('Well?', { taskId: taken.id }), ...immediately };
    assert.equal((await rpc(away.gateway, 'SendMessage', more, { target })).json.error, undefined);
    const { json } = await rpc(away.gateway, 'SendMessage', params, { target });
    const { id } = json.result.task;
    clock.advance(86_400_000);
    const task = await eventually('the task ended', async () => {
      clock.advance(5_000);
      const { json: seen } = await rpc(away.gateway, 'GetTask', { id }, { target });
      return seen.result.status.state === 'TASK_STATE_FAILED' && seen.result;
    });
    assert.deepEqual(task.metadata, { reason: 'expired' });
    assert.match(task.status.message.parts[0].text, /not delivered: it expired before .*silent took it/);
    const { result: followed } = (await rpc(away.gateway, 'GetTask', { id: taken.id }, { target })).json;
    assert.deepEqual([followed.status.state, followed.metadata], ['TASK_STATE_FAILED', { reason: 'expired' }]);
  });
});

describe('bodies of A2A', () => {
  const refused = async (kind: 'progress' | 'reply', data: unknown, more: object = {}) => {
    await ask(gateway, 'hold body', immediately);
    const request = await desk.took(({ body }) => body.text === 'hold body');
    const { status, json } = await desk.post(desk.answering(request, kind, data as never, more));
    return [status, json.code];
  };
  for (const [kind, data, more] of [
    ['reply', { status: { state: 'TASK_STATE_WORKING' } }],
    ['reply', { status: { state: 'sleeping' } }],
    ['reply', { status: { state: 'TASK_STATE_COMPLETED' } }, { error: true }],
    ['progress', { status: { state: 'TASK_STATE_COMPLETED' } }],
    ['progress', {}],
    ['progress', []],
    ['progress', { artifacts: [] }],
    ['progress', { artifacts: [{ parts: [{ text: 'x' }] }] }],
    ['progress', { artifacts: [{ artifactId: 'a', parts: [] }] }],
    ['progress', { artifacts: [{ artifactId: 'a', parts: [{ text: 'x', raw: 'AA' }] }] }],
    ['progress', { artifacts: [{ artifactId: 'a', parts: [{ raw: '<no base64>' }] }] }],
    ['progress', { artifacts: [{ artifactId: 'a', parts: [{ text: 'x' }], append: 'yes' }] }],
    ['progress', { message: { parts: 'x' } }],
  ] as const) {
    it(`${kind} with ${JSON.stringify(data)} is refused when it is sent`, async () => {
      assert.deepEqual(await refused(kind, data, more), [422, 'invalid_field']);
    });
  }

  it('what the agent hears of a question that came over A2A is the message as it was', async () => {
    const sent = message('hold orig', { metadata: { a: 1 } });
    await rpc(gateway, 'SendMessage', { message: sent, ...immediately });
    const taken = await desk.took(({ body }) => body.text === 'hold orig');
    assert.deepEqual([taken.a2a, taken.from], [sent, 'anonymous']);
    assert.match(taken.to, new RegExp(`^${address}#s\\d+$`));
  });
});
