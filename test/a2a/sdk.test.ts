import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { type Message, type StreamResponse, type Task, TaskState } from '@a2a-js/sdk';
import type { Client } from '@a2a-js/sdk/client';
import { person } from '../support/gateway.ts';
import { type Binding, sdkClient, startDesk } from './desk.ts';

const desk = await startDesk({ after });
const { gateway } = desk;
const bob = await person(gateway, 'bob');

/** Every shape in which the SDK's own clients can speak to the gateway. */
const shapes: readonly (readonly ['1.0' | '0.3', Binding])[] = [
  ['1.0', 'JSONRPC'],
  ['1.0', 'HTTP+JSON'],
  ['0.3', 'JSONRPC'],
  ['0.3', 'HTTP+JSON'],
];

let count = 0;
const send = (text: string, more: Partial<Message> = {}, configuration: object = {}) => ({
  tenant: '',
  message: {
    messageId: `sdk-${++count}`,
    contextId: '',
    taskId: '',
    role: 1,
    parts: [{ content: { $case: 'text' as const, value: text }, metadata: undefined, filename: '', mediaType: '' }],
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
    ...more,
  },
  configuration: {
    acceptedOutputModes: [],
    taskPushNotificationConfig: undefined,
    historyLength: undefined,
    returnImmediately: false,
    ...configuration,
  },
  metadata: undefined,
});

const taskOf = (answer: Message | Task): Task => {
  assert.ok('status' in answer, 'a task');
  return answer;
};
const textOf = (message: Message | undefined): unknown => message?.parts[0]?.content?.value;

async function all(stream: AsyncIterable<StreamResponse>): Promise<StreamResponse[]> {
  const events: StreamResponse[] = [];
  for await (const event of stream) events.push(event);
  return events;
}

/** Artifact updates and states, in order. */
const story = (events: readonly StreamResponse[]): string[] =>
  events.map(({ payload }) => {
    switch (payload?.$case) {
      case 'task':
        return `task ${TaskState[payload.value.status!.state]}`;
      case 'statusUpdate':
        return TaskState[payload.value.status!.state]!;
      case 'artifactUpdate':
        return `${payload.value.artifact!.artifactId} ${payload.value.artifact!.parts.map(({ content }) => JSON.stringify(content?.$case === 'raw' ? [...content.value] : content?.value)).join()}`;
      default:
        return String(payload?.$case);
    }
  });

for (const [version, binding] of shapes) {
  describe(`the SDK's client, ${version} over ${binding}`, async () => {
    const anonymous: Client = await sdkClient(desk, { version, binding });
    const member: Client = await sdkClient(desk, { version, binding, token: gateway.token });
    const other: Client = await sdkClient(desk, { version, binding, token: bob.token });

    it('sends and is answered when the task ends', async () => {
      const task = taskOf(await anonymous.sendMessage(send('done')));
      assert.equal(task.status?.state, TaskState.TASK_STATE_COMPLETED);
      assert.equal(textOf(task.status?.message), 'Done.');
      assert.deepEqual(task.history.map(textOf), ['done']);
    });

    it('gets a plain answer as an artifact, a refusal as its state, and a bare message', async () => {
      const plain = taskOf(await anonymous.sendMessage(send('hello')));
      assert.equal(plain.artifacts[0]?.parts[0]?.content?.value, 'You said: hello');
      const rejected = taskOf(await anonymous.sendMessage(send('reject')));
      assert.equal(rejected.status?.state, TaskState.TASK_STATE_REJECTED);
      assert.equal(textOf(rejected.status?.message), 'Not mine.');
      const failed = taskOf(await anonymous.sendMessage(send('fail')));
      assert.equal(failed.status?.state, TaskState.TASK_STATE_FAILED);
      assert.deepEqual(failed.metadata, { reason: 'agent_error' });
      const bare = await anonymous.sendMessage(send('message'));
      assert.ok(!('status' in bare), 'no task');
      assert.equal(textOf(bare), 'Just a word.');
    });

    it('asks for a task, and nobody else sees it', async () => {
      const { id } = taskOf(await member.sendMessage(send('done')));
      const task = await member.getTask({ tenant: '', id, historyLength: undefined });
      assert.equal(task.status?.state, TaskState.TASK_STATE_COMPLETED);
      for (const stranger of [other, anonymous]) {
        await assert.rejects(stranger.getTask({ tenant: '', id, historyLength: undefined }), /not found/i);
      }
    });

    it('answers a question in the same task', async () => {
      const asked = taskOf(await anonymous.sendMessage(send('ask')));
      assert.equal(asked.status?.state, TaskState.TASK_STATE_INPUT_REQUIRED);
      const { id, contextId } = asked;
      const task = taskOf(await anonymous.sendMessage(send('done in 2026', { taskId: id, contextId })));
      assert.equal(task.id, id);
      assert.equal(task.status?.state, TaskState.TASK_STATE_COMPLETED);
      assert.equal(task.history.length, 3, 'the question and both messages');
      await assert.rejects(anonymous.sendMessage(send('more', { taskId: id })), /ended|closed/i);
    });

    it('streams what the agent says, chunk by chunk', async () => {
      const events = await all(anonymous.sendMessageStream(send('stream')));
      assert.deepEqual(story(events), [
        'task TASK_STATE_SUBMITTED',
        'TASK_STATE_WORKING',
        'a "one "',
        'a "two"',
        'b {"n":2},[0,1,2]',
        'TASK_STATE_COMPLETED',
      ]);
      const updates = events.flatMap(({ payload }) => (payload?.$case === 'artifactUpdate' ? [payload.value] : []));
      assert.deepEqual(
        updates.map(({ lastChunk }) => lastChunk),
        [false, true, false],
      );
      // The SDK's reader of 0.3 over HTTP+JSON drops `append`.
      if (version === '0.3' && binding === 'HTTP+JSON') return;
      assert.deepEqual(
        updates.map(({ append }) => append),
        [false, true, false],
      );
    });

    it('subscribes to a task that waits, and hears how it ends', async () => {
      const { id, contextId } = taskOf(await anonymous.sendMessage(send('ask')));
      const stream = anonymous.resubscribeTask({ tenant: '', id });
      const first = await stream.next();
      assert.deepEqual(story([first.value as StreamResponse]), ['task TASK_STATE_INPUT_REQUIRED']);
      await anonymous.sendMessage(send('done', { taskId: id, contextId }));
      assert.deepEqual(story(await all(stream)), ['TASK_STATE_WORKING', 'TASK_STATE_COMPLETED']);
    });

    it('cancels what the agent works on, once', async () => {
      const { id } = taskOf(await anonymous.sendMessage(send('hold', {}, { returnImmediately: true })));
      await desk.took((envelope) => envelope.body.text === 'hold');
      const task = await anonymous.cancelTask({ tenant: '', id, metadata: undefined });
      assert.equal(task.status?.state, TaskState.TASK_STATE_CANCELED);
      await assert.rejects(anonymous.cancelTask({ tenant: '', id, metadata: undefined }), /ended|cancel/i);
    });

    it('sets, reads, lists and deletes push notification configs', async () => {
      const { id: taskId } = taskOf(await member.sendMessage(send('hold', {}, { returnImmediately: true })));
      const config = {
        tenant: '',
        taskId,
        id: 'mine',
        url: 'http://localhost:9/hook',
        token: 'tok',
        authentication: { scheme: 'Bearer', credentials: 'secret' },
      };
      const made = await member.createTaskPushNotificationConfig(config);
      assert.deepEqual(
        [made.id, made.url, made.token, made.authentication?.scheme],
        ['mine', config.url, 'tok', 'Bearer'],
      );
      const read = await member.getTaskPushNotificationConfig({ tenant: '', taskId, id: 'mine' });
      assert.deepEqual([read.taskId, read.url, read.authentication?.credentials], [taskId, config.url, 'secret']);
      const listed = await member.listTaskPushNotificationConfig({ tenant: '', taskId, pageSize: 0, pageToken: '' });
      assert.deepEqual(
        listed.configs.map(({ id }) => id),
        ['mine'],
      );
      await assert.rejects(other.getTaskPushNotificationConfig({ tenant: '', taskId, id: 'mine' }), /task not found/i);
      await member.deleteTaskPushNotificationConfig({ tenant: '', taskId, id: 'mine' });
      await member.deleteTaskPushNotificationConfig({ tenant: '', taskId, id: 'mine' });
      await assert.rejects(member.getTaskPushNotificationConfig({ tenant: '', taskId, id: 'mine' }), /no such/i);
    });

    if (version === '1.0') {
      it('lists its own tasks, newest change first', async () => {
        const contextId = `ctx-${version}-${binding}`;
        for (const text of ['done 1', 'done 2', 'ask 3']) await member.sendMessage(send(text, { contextId }));
        const query = {
          tenant: '',
          contextId,
          status: 0,
          pageSize: 2,
          pageToken: '',
          historyLength: 1,
          statusTimestampAfter: undefined,
          includeArtifacts: true,
        };
        const first = await member.listTasks(query);
        assert.deepEqual(
          first.tasks.map((task) => textOf(task.history[0])),
          ['ask 3', 'done 2'],
        );
        assert.equal(first.totalSize, 3);
        const second = await member.listTasks({ ...query, pageToken: first.nextPageToken });
        assert.deepEqual(
          second.tasks.map((task) => textOf(task.history[0])),
          ['done 1'],
        );
        assert.equal(second.nextPageToken, '');
        const waiting = await member.listTasks({ ...query, status: TaskState.TASK_STATE_INPUT_REQUIRED });
        assert.deepEqual([waiting.totalSize, waiting.tasks.length], [1, 1]);
        assert.equal((await other.listTasks(query)).totalSize, 0);
      });
    }
  });
}
