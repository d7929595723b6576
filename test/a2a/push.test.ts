import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { StreamResponse } from '@a2a-js/sdk';
import { legacyPushNotificationToV1StreamResponse } from '@a2a-js/sdk/compat/v0_3';
import { createFetch, type GuardedFetch } from '../../src/lib/fetch.ts';
import { eventually, person } from '../support/gateway.ts';
import { type Arrived, receiver } from '../support/receiver.ts';
import { ask, message, path, rpc, startDesk } from './desk.ts';

const desk = await startDesk({ after });
const { gateway } = desk;
const { token } = gateway;
const bob = await person(gateway, 'bob');
const immediately = { configuration: { returnImmediately: true } };
const authentication = { scheme: 'Bearer', credentials: 's3cret' };
const state = (hit: Arrived): string => (hit.json.task ?? hit.json).status.state;

describe('push notifications', () => {
  it('tell a 1.0 subscriber in its dialect, with its token and its authentication', async (t) => {
    const { url, arrived: hits } = await receiver(t);
    const task = await ask(gateway, 'hold push1', {
      configuration: { returnImmediately: true, taskPushNotificationConfig: { url, token: 'tok-1', authentication } },
    });
    const request = await desk.took(({ body }) => body.text === 'hold push1');
    await desk.post(desk.answering(request, 'progress', 'At it.'));
    await eventually('the progress was pushed', async () => hits.length === 1);
    await desk.post(desk.answering(request, 'reply', 'Done.'));
    await eventually('the end was pushed', async () => hits.some((hit) => state(hit) === 'TASK_STATE_COMPLETED'));
    for (const { headers, json } of hits) {
      assert.equal(headers['content-type'], 'application/a2a+json');
      assert.equal(headers['x-a2a-notification-token'], 'tok-1');
      assert.equal(headers.authorization, 'Bearer s3cret');
      assert.equal(StreamResponse.fromJSON(json).payload?.$case, 'task');
    }
    assert.deepEqual([state(hits[0]!), hits[0]!.json.task.id], ['TASK_STATE_WORKING', task.id]);
    assert.equal(hits.at(-1)!.json.task.artifacts[0].parts[0].text, 'Done.');
  });

  it('tell a 0.3 subscriber in its own', async (t) => {
    const { url, arrived: hits } = await receiver(t);
    const params = {
      message: { kind: 'message', messageId: 'v', role: 'user', parts: [{ kind: 'text', text: 'done' }] },
      configuration: {
        pushNotificationConfig: { url, token: 'tok-3', authentication: { schemes: ['Basic'], credentials: 'YTpi' } },
      },
    };
    await rpc(gateway, 'message/send', params);
    await eventually('it was pushed', async () => hits.length > 0);
    const { headers, json } = hits.at(-1)!;
    assert.deepEqual(
      [headers['content-type'], headers['x-a2a-notification-token'], headers.authorization],
      ['application/json', 'tok-3', 'Basic YTpi'],
    );
    assert.deepEqual([json.kind, json.status.state], ['task', 'completed']);
    assert.equal(legacyPushNotificationToV1StreamResponse(json).payload?.$case, 'task');
  });

  it('are tried again until the webhook takes them, and then tell how things stand by now', async (t) => {
    const hook = await receiver(t);
    const { url, arrived: hits } = hook;
    hook.answer = (_, response) => {
      response.writeHead(hits.length < 2 ? 503 : 200, { 'retry-after': '1' }).end();
      return undefined;
    };
    const task = await ask(gateway, 'hold retry', immediately);
    await rpc(gateway, 'CreateTaskPushNotificationConfig', { taskId: task.id, url });
    const request = await desk.took(({ body }) => body.text === 'hold retry');
    await desk.post(desk.answering(request, 'progress', 'One.'));
    await eventually('the first try', async () => hits.length === 1);
    await desk.post(desk.answering(request, 'reply', 'Two.'));
    await eventually(
      'a later try tells the end',
      async () => hits.length > 1 && state(hits.at(-1)!) === 'TASK_STATE_COMPLETED',
    );
  });

  it('that fail are seen with the task by whoever asked it, until one is taken', async (t) => {
    const hook = await receiver(t);
    let status = 503;
    hook.answer = (_, response) => {
      response.writeHead(status).end();
      return undefined;
    };
    const task = await ask(gateway, 'hold errors', { token, ...immediately });
    await rpc(gateway, 'CreateTaskPushNotificationConfig', { taskId: task.id, id: 'mine', url: hook.url }, { token });
    const errors = async () => {
      const { result } = (await rpc(gateway, 'GetTask', { id: task.id }, { token })).json;
      return result.metadata?.pushNotificationErrors;
    };
    assert.equal(await errors(), undefined);
    const request = await desk.took(({ body }) => body.text === 'hold errors');
    await desk.post(desk.answering(request, 'progress', 'One.'));
    const [error, ...more] = await eventually('the error is shown', errors);
    assert.deepEqual([error.id, error.error, more], ['mine', 'it answered 503', []]);
    assert.ok(Math.abs(Date.parse(error.at) - Date.now()) < 60_000);
    status = 200;
    const { db, notifier } = gateway.database;
    await db.query('delete from circuits where destination = $1', [new URL(hook.url).origin]);
    await db.query(`update outbox set due_at = 0 where kind = 'push'`);
    await notifier.publish(['outbox']);
    await eventually('a push was taken', async () => (await errors()) === undefined);
    status = 410;
    await desk.post(desk.answering(request, 'reply', 'Two.'));
    const [gone] = await eventually('that the webhook is gone is shown', errors);
    assert.equal(gone.error, 'given up: the webhook is gone');
  });

  it('end with the config, and tell of a cancel', async (t) => {
    const [kept, deleted] = [await receiver(t), await receiver(t)];
    const task = await ask(gateway, 'hold two', immediately);
    for (const [id, url] of [
      ['kept', kept.url],
      ['deleted', deleted.url],
    ] as const) {
      await rpc(gateway, 'CreateTaskPushNotificationConfig', { taskId: task.id, id, url });
    }
    await rpc(gateway, 'DeleteTaskPushNotificationConfig', { taskId: task.id, id: 'deleted' });
    await rpc(gateway, 'CancelTask', { id: task.id });
    await eventually('the cancel was pushed', async () => kept.arrived.length === 1);
    assert.equal(state(kept.arrived[0]!), 'TASK_STATE_CANCELED');
    assert.equal(deleted.arrived.length, 0);
  });

  it('survive a crash between the change and the push: another replica delivers', async (t) => {
    const { url, arrived: hits } = await receiver(t);
    const task = await ask(gateway, 'hold crash', immediately);
    await rpc(gateway, 'CreateTaskPushNotificationConfig', { taskId: task.id, url });
    const request = await desk.took(({ body }) => body.text === 'hold crash');
    const second = await gateway.replica();
    await desk.post(desk.answering(request, 'reply', 'Done.'), second.base);
    await second.stop();
    await eventually('it was pushed', async () => hits.length > 0);
  });

  it('are kept sealed', async () => {
    const task = await ask(gateway, 'hold sealed', { token, ...immediately });
    const config = { taskId: task.id, url: 'http://localhost:9/x', token: 'plain-token', authentication };
    await rpc(gateway, 'CreateTaskPushNotificationConfig', config, { token });
    const { rows } = await gateway.database.db.query<{ text: string }>(
      "select p::text || encode(secrets, 'escape') as text from push_configs p where p.exchange_id = $1",
      [task.id],
    );
    assert.equal(rows.length, 1);
    assert.doesNotMatch(rows[0]!.text, /plain-token|s3cret/);
  });

  it('follow no redirect (WEB-02)', async (t) => {
    const inside = await receiver(t);
    const outside = await receiver(t);
    outside.answer = (_, response) => {
      response.writeHead(307, { location: inside.url }).end();
      return undefined;
    };
    await ask(gateway, 'done', {
      configuration: { returnImmediately: true, taskPushNotificationConfig: { url: outside.url } },
    });
    await eventually('it was tried', async () => outside.arrived.length > 0);
    assert.equal(inside.arrived.length, 0);
  });
});

describe('push notification configs', () => {
  it('are made, replaced, listed and gone', async () => {
    const { id: taskId } = await ask(gateway, 'hold crud', { token, ...immediately });
    const call = async (method: string, params: object, by: object = { token }) =>
      (await rpc(gateway, method, { taskId, ...params }, by)).json;
    const made = (await call('CreateTaskPushNotificationConfig', { url: 'http://localhost:9/a' })).result;
    assert.match(made.id, /^[0-9A-Z]{26}$/, 'an id of ours');
    const again = (await call('CreateTaskPushNotificationConfig', { id: made.id, url: 'http://localhost:9/b' })).result;
    assert.deepEqual([again.id, again.url], [made.id, 'http://localhost:9/b']);
    const listed = (await call('ListTaskPushNotificationConfigs', {})).result;
    assert.deepEqual(
      [listed.configs.length, listed.configs[0].url, listed.nextPageToken],
      [1, 'http://localhost:9/b', ''],
    );
    assert.equal((await call('GetTaskPushNotificationConfig', { id: 'nothing' })).error.code, -32001);
    for (const method of ['GetTaskPushNotificationConfig', 'DeleteTaskPushNotificationConfig']) {
      assert.equal((await call(method, { id: made.id }, { token: bob.token })).error.code, -32001, method);
    }
    assert.deepEqual((await call('DeleteTaskPushNotificationConfig', { id: made.id })).result, {});
    assert.deepEqual((await call('DeleteTaskPushNotificationConfig', { id: made.id })).result, {}, 'twice is the same');
    for (let i = 0; i < 20; i++)
      await call('CreateTaskPushNotificationConfig', { id: `c${i}`, url: 'http://localhost:9/a' });
    const full = await call('CreateTaskPushNotificationConfig', { id: 'one more', url: 'http://localhost:9/a' });
    assert.ok(full.error);
    assert.equal((await call('ListTaskPushNotificationConfigs', {})).result.configs.length, 20);
  });

  it('0.3 needs no id', async () => {
    const { id } = await ask(gateway, 'hold legacy', immediately);
    const config = { url: 'http://localhost:9/a' };
    const set = await rpc(gateway, 'tasks/pushNotificationConfig/set', { taskId: id, pushNotificationConfig: config });
    assert.deepEqual(set.json.result, { taskId: id, pushNotificationConfig: { id: 'default', ...config } });
    const got = await rpc(gateway, 'tasks/pushNotificationConfig/get', { id });
    assert.deepEqual(got.json.result, set.json.result);
    const listed = await rpc(gateway, 'tasks/pushNotificationConfig/list', { id });
    assert.deepEqual(listed.json.result, [set.json.result]);
    const gone = await rpc(gateway, 'tasks/pushNotificationConfig/delete', { id, pushNotificationConfigId: 'default' });
    assert.equal(gone.json.result, null);
  });

  const bad: [what: string, config: object][] = [
    ['no url', {}],
    ['no URL', { url: 'nonsense' }],
    ['a private address', { url: 'http://10.0.0.1/x' }],
    ['metadata of a cloud', { url: 'http://169.254.169.254/latest/meta-data' }],
    ['another scheme', { url: 'file:///etc/passwd' }],
    ['user and password', { url: 'https://u:p@example.com/' }],
    ['CR LF in the token', { token: 'x\r\nX-Admin: 1' }],
    ['NUL in the token', { token: 'x\u0000' }],
    ['LF in the credentials', { authentication: { scheme: 'Bearer', credentials: 'x\nHost: y' } }],
    ['a scheme that is none', { authentication: { scheme: 'Bearer x\r\nA', credentials: 'y' } }],
    ['no scheme', { authentication: { credentials: 'y' } }],
    ['a token that is no text', { token: 7 }],
  ];
  for (const [what, more] of bad) {
    it(`${what} is refused at registration, on every path (WEB-04)`, async () => {
      const config = what === 'no url' ? {} : { url: 'http://localhost:9/x', ...more };
      const { id: taskId } = await ask(gateway, 'hold bad', immediately);
      const set = await rpc(gateway, 'CreateTaskPushNotificationConfig', { taskId, ...config });
      assert.equal(set.json.error?.code, -32602);
      for (const method of ['SendMessage', 'SendStreamingMessage']) {
        const params = { message: message('hold inline'), configuration: { taskPushNotificationConfig: config } };
        assert.equal((await rpc(gateway, method, params)).json.error?.code, -32602, method);
      }
      const rest = await gateway.call('POST', `${path}/tasks/${taskId}/pushNotificationConfigs`, {
        token: null,
        body: config,
      });
      assert.deepEqual([rest.status, rest.json.error.status], [400, 'INVALID_ARGUMENT']);
      const { authentication: auth, ...plain } = config as {
        authentication?: { scheme?: string; credentials: string };
      };
      const legacy = {
        ...plain,
        ...(auth && {
          authentication: { schemes: auth.scheme === undefined ? [] : [auth.scheme], credentials: auth.credentials },
        }),
      };
      const v03 = await rpc(gateway, 'tasks/pushNotificationConfig/set', { taskId, pushNotificationConfig: legacy });
      assert.equal(v03.json.error?.code, -32602, '0.3');
      assert.ok(!desk.taken.some(({ body }) => body.text === 'hold inline'), 'nothing was sent');
    });
  }
});

describe('a gateway on the Internet', () => {
  it('reaches no address inside, not even for a name that turns private later (WEB-04)', async (t) => {
    let inside = false;
    const real = createFetch({
      allowLoopback: false,
      resolve: async () => [inside ? '127.0.0.1' : '93.184.215.14'],
    });
    const tried: string[] = [];
    const fetch = Object.assign(
      async (url: string, init: Parameters<GuardedFetch>[1]) => {
        if (!url.startsWith('https://hook.example')) return real(url, init);
        try {
          return await real(url, { ...init, timeoutMs: 1_000 });
        } catch (error) {
          tried.push((error as { reason: string }).reason);
          throw error;
        }
      },
      { close: () => real.close() },
    ) as GuardedFetch;
    const other = await startDesk(t, { fetch });
    const { id: taskId } = await ask(other.gateway, 'hold later', immediately);
    const set = await rpc(other.gateway, 'CreateTaskPushNotificationConfig', { taskId, url: 'https://hook.example/x' });
    assert.equal(set.json.error, undefined);
    inside = true;
    const request = await other.took(({ body }) => body.text === 'hold later');
    await other.post(other.answering(request, 'reply', 'Done.'));
    await eventually('it was tried', async () => tried.length > 0);
    assert.equal(tried[0], 'address');
    const [{ error }] = await eventually('who asked sees why', async () => {
      const { result } = (await rpc(other.gateway, 'GetTask', { id: taskId })).json;
      return result.metadata?.pushNotificationErrors;
    });
    assert.match(error, /^address: /);
  });
});
