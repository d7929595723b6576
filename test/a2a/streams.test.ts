import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { after, describe, it } from 'node:test';
import { parseSseStream } from '@a2a-js/sdk';
import { eventually } from '../support/gateway.ts';
import { ask, message, path, rpc, startDesk } from './desk.ts';

const desk = await startDesk({ after });
const { gateway } = desk;
const second = await gateway.replica();

interface Stream {
  status: number;
  type: string | null;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into events
  events: any[];
  /** Resolves when the server has ended the stream. */
  ended: Promise<void>;
  until(many: number): Promise<void>;
  close(): void;
}

async function open(
  method: string,
  params: object,
  base = gateway.url,
  headers: Record<string, string> = {},
): Promise<Stream> {
  const gone = new AbortController();
  const response = await fetch(base + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'a2a-version': '1.0', ...headers },
    body: JSON.stringify({ jsonrpc: '2.0', id: 'x', method, params }),
    signal: gone.signal,
  });
  const type = response.headers.get('content-type');
  // biome-ignore lint/suspicious/noExplicitAny: tests look into events
  const events: any[] = [];
  const read = async (): Promise<void> => {
    if (type !== 'text/event-stream') {
      events.push(await response.json());
      return;
    }
    for await (const { data } of parseSseStream(response)) events.push(JSON.parse(data).result);
  };
  const ended = read().catch(() => undefined);
  return {
    status: response.status,
    type,
    events,
    ended,
    until: async (many) => void (await eventually(`${many} events`, async () => events.length >= many)),
    close: () => gone.abort(),
  };
}

const subscribe = (id: string, base?: string, headers?: Record<string, string>): Promise<Stream> =>
  open('SubscribeToTask', { id }, base, headers);

describe('a stream', () => {
  it('tells a task that ends at once from its beginning', async () => {
    const stream = await open('SendStreamingMessage', { message: message('hello') });
    await stream.ended;
    assert.equal(stream.type, 'text/event-stream');
    assert.deepEqual(
      stream.events.map((event) => Object.keys(event)[0]),
      ['task', 'artifactUpdate', 'statusUpdate'],
    );
    assert.equal(stream.events[0].task.status.state, 'TASK_STATE_SUBMITTED');
  });

  it('ends where the agent asks, and goes on with the answer', async () => {
    const first = await open('SendStreamingMessage', { message: message('ask') });
    await first.ended;
    const { taskId, contextId, status } = first.events.at(-1).statusUpdate;
    assert.equal(status.state, 'TASK_STATE_INPUT_REQUIRED');
    const next = await open('SendStreamingMessage', { message: message('done', { taskId, contextId }) });
    await next.ended;
    assert.deepEqual(
      next.events.map((event) => (event.task ?? event.statusUpdate).status.state),
      ['TASK_STATE_WORKING', 'TASK_STATE_COMPLETED'],
    );
    assert.equal(next.events[0].task.id, taskId);
    assert.equal(next.events[0].task.history.length, 3, 'request, question, answer');
  });

  it('stays open while an authorisation is awaited', async () => {
    const stream = await open('SendStreamingMessage', { message: message('login') });
    await stream.until(2);
    const request = await desk.took(({ body }) => body.text === 'login');
    assert.equal(stream.events[1].statusUpdate.status.state, 'TASK_STATE_AUTH_REQUIRED');
    await desk.post(desk.answering(request, 'reply', 'Welcome.'));
    await stream.ended;
    assert.equal(stream.events.at(-1).statusUpdate.status.state, 'TASK_STATE_COMPLETED');
  });

  it('tells every follower the same, on every replica, and one that goes away changes nothing', async () => {
    const task = await ask(gateway, 'hold same', { configuration: { returnImmediately: true } });
    const request = await desk.took(({ body }) => body.text === 'hold same');
    const streams = await Promise.all([
      subscribe(task.id),
      subscribe(task.id),
      subscribe(task.id, second.base),
      subscribe(task.id, second.base),
    ]);
    await Promise.all(streams.map((stream) => stream.until(1)));
    const gone = await subscribe(task.id);
    await gone.until(1);
    gone.close();
    // Half of what the agent says goes to one replica, half to the other.
    for (let i = 0; i < 20; i++) {
      const chunk = { artifacts: [{ artifactId: 'a', parts: [{ text: `${i} ` }], append: i > 0 }] };
      const { status } = await desk.post(desk.answering(request, 'progress', chunk), i % 2 ? gateway.url : second.base);
      assert.equal(status, 201);
    }
    await desk.post(desk.answering(request, 'reply', { status: { state: 'TASK_STATE_COMPLETED' } }), second.base);
    await Promise.all(streams.map((stream) => stream.ended));
    const [one, ...others] = streams.map((stream) => JSON.stringify(stream.events));
    for (const other of others) assert.equal(other, one);
    const told = streams[0]!.events.flatMap((event) => event.artifactUpdate?.artifact.parts[0].text ?? []);
    assert.equal(told.join(''), Array.from({ length: 20 }, (_, i) => `${i} `).join(''));
    const { json } = await rpc(gateway, 'GetTask', { id: task.id });
    assert.equal(json.result.artifacts[0].parts.map((part: { text: string }) => part.text).join(''), told.join(''));
  });

  it('loses nothing and repeats nothing, whenever it begins', async () => {
    const task = await ask(gateway, 'hold gaps', { configuration: { returnImmediately: true } });
    const request = await desk.took(({ body }) => body.text === 'hold gaps');
    const streams: Stream[] = [];
    const opening: Promise<unknown>[] = [];
    for (let i = 0; i < 30; i++) {
      opening.push(subscribe(task.id, i % 2 ? gateway.url : second.base).then((stream) => streams.push(stream)));
      const chunk = { artifacts: [{ artifactId: 'a', parts: [{ text: `${i},` }], append: i > 0 }] };
      await desk.post(desk.answering(request, 'progress', chunk));
    }
    await Promise.all(opening);
    await desk.post(desk.answering(request, 'reply', { status: { state: 'TASK_STATE_COMPLETED' } }));
    await Promise.all(streams.map((stream) => stream.ended));
    const whole = Array.from({ length: 30 }, (_, i) => `${i},`).join('');
    assert.equal(streams.length, 30);
    for (const { events } of streams) {
      const [{ task: seen }, ...updates] = events;
      const before = (seen.artifacts ?? []).flatMap((artifact: { parts: { text: string }[] }) => artifact.parts);
      const later = updates.flatMap((event) => event.artifactUpdate?.artifact.parts ?? []);
      assert.equal([...before, ...later].map((part) => part.text).join(''), whole);
    }
  });

  it('is told of a cancel and of an end that no agent wrote', async () => {
    const task = await ask(gateway, 'hold end', { configuration: { returnImmediately: true } });
    const stream = await subscribe(task.id, second.base);
    await stream.until(1);
    await rpc(gateway, 'CancelTask', { id: task.id });
    await stream.ended;
    assert.equal(stream.events.at(-1).statusUpdate.status.state, 'TASK_STATE_CANCELED');
  });

  it('is refused as any call is before it begins', async () => {
    const ended = await ask(gateway, 'done');
    const unknown = await subscribe('01ARZ3NDEKTSV4RRFFQ69G5FAV');
    const over = await subscribe(ended.id);
    const bad = await open('SendStreamingMessage', { message: { messageId: 'x', role: 'ROLE_USER', parts: [] } });
    await Promise.all([unknown.ended, over.ended, bad.ended]);
    for (const [stream, code] of [
      [unknown, -32001],
      [over, -32004],
      [bad, -32602],
    ] as const) {
      assert.equal(stream.type, 'application/json');
      assert.equal(stream.events[0].error.code, code);
    }
    const legacy = await fetch(gateway.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tasks/resubscribe', params: { id: ended.id } }),
    });
    assert.match(await legacy.text(), /"kind":"task".*"state":"completed"/, '0.3 gets the task and the end');
  });

  it('ends in a moment when the gateway stops, and the task goes on elsewhere', async () => {
    const third = await gateway.replica();
    const task = await ask(gateway, 'hold stop', { configuration: { returnImmediately: true } });
    const stream = await subscribe(task.id, third.base);
    const blocked = fetch(third.base + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'a2a-version': '1.0' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SendMessage', params: { message: message('hold too') } }),
    });
    await stream.until(1);
    await desk.took(({ body }) => body.text === 'hold too');
    const began = Date.now();
    await third.stop();
    assert.ok(Date.now() - began < 5_000, 'the stop waited for nobody');
    await stream.ended;
    const { result } = (await (await blocked).json()) as { result: { task: { status: { state: string } } } };
    assert.equal(result.task.status.state, 'TASK_STATE_SUBMITTED', 'a blocking send answers the task as it stands');
    const request = await desk.took(({ body }) => body.text === 'hold stop');
    await desk.post(desk.answering(request, 'reply', 'Later.'));
    const { json } = await rpc(gateway, 'GetTask', { id: task.id });
    assert.equal(json.result.status.state, 'TASK_STATE_COMPLETED');
  });
});

describe('the only gateway', () => {
  it('starts again in the middle: a blocking send and a stream end, are taken up again, and the tasks are the same', async (t) => {
    const ends: (() => Promise<void>)[] = [];
    t.after(async () => {
      for (const end of ends.reverse()) await end();
    });
    const alone = await startDesk({ after: (fn) => void ends.push(fn) });
    const { url, token } = alone.gateway;
    const headers = { authorization: `Bearer ${token}`, 'idempotency-key': 'once' };
    const blocking = async (): Promise<Stream> => {
      const answer = await open('SendMessage', { message: message('hold blocking') }, url, headers);
      await answer.ended;
      return answer;
    };
    const stream = await open('SendStreamingMessage', { message: message('hold stream') }, url);
    const blocked = blocking();
    await stream.until(1);
    const { id } = stream.events[0].task;
    const [streamed, sent] = [
      await alone.took(({ body }) => body.text === 'hold stream'),
      await alone.took(({ body }) => body.text === 'hold blocking'),
    ];
    await alone.post(alone.answering(streamed, 'progress', 'At it.'));
    await stream.until(2);

    await alone.gateway.restart();
    await stream.ended;
    const [{ result: before }] = (await blocked).events;
    assert.equal(before.task.status.state, 'TASK_STATE_SUBMITTED', 'answered as it stood');

    const again = blocking();
    const resumed = await subscribe(id, url);
    await resumed.until(1);
    assert.equal(resumed.events[0].task.status.message.parts[0].text, 'At it.');
    await alone.post(alone.answering(streamed, 'reply', 'Streamed.'));
    await alone.post(alone.answering(sent, 'reply', 'Sent.'));
    await resumed.ended;
    assert.equal(resumed.events.at(-1).statusUpdate.status.state, 'TASK_STATE_COMPLETED');
    const [{ result: after }] = (await again).events;
    assert.equal(after.task.id, before.task.id);
    assert.equal(after.task.artifacts[0].parts[0].text, 'Sent.');
    assert.equal(alone.taken.filter(({ body }) => body.text === 'hold blocking').length, 1, 'asked once');
  });
});

describe('many streams', () => {
  /** A stream without a fetch around it: the socket and what came. */
  const raw = (id: string, reads = true): Promise<{ socket: Socket; text: () => string }> =>
    new Promise((resolve, reject) => {
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SubscribeToTask', params: { id } });
      const socket = connect(Number(gateway.authority.split(':')[1]), '127.0.0.1');
      let text = '';
      socket.on('error', reject);
      socket.on('connect', () => {
        socket.write(
          `POST ${path} HTTP/1.1\r\nhost: ${gateway.authority}\r\na2a-version: 1.0\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
        );
      });
      let isOpen = false;
      socket.on('data', (chunk) => {
        text += chunk;
        if (isOpen || !text.includes('data: ')) return;
        isOpen = true;
        if (!reads) socket.pause();
        resolve({ socket, text: () => text });
      });
    });

  it('a thousand of them cost little, are all told, and leave nothing behind', async () => {
    const task = await ask(gateway, 'hold thousand', { configuration: { returnImmediately: true } });
    const request = await desk.took(({ body }) => body.text === 'hold thousand');
    const before = process.memoryUsage().rss;
    const streams: Awaited<ReturnType<typeof raw>>[] = [];
    for (let i = 0; i < 20; i++) {
      streams.push(...(await Promise.all(Array.from({ length: 50 }, () => raw(task.id)))));
    }
    assert.ok(process.memoryUsage().rss - before < 300 * 1024 * 1024, 'memory of client and server together');
    const began = Date.now();
    await desk.post(desk.answering(request, 'progress', 'Working.'));
    await eventually('all were told', async () => streams.every(({ text }) => text().includes('TASK_STATE_WORKING')));
    assert.ok(Date.now() - began < 5_000);
    const { status } = await gateway.call('GET', '/healthz');
    assert.equal(status, 200);
    for (const { socket } of streams.slice(0, 999)) socket.destroy();
    await desk.post(desk.answering(request, 'reply', 'Done.'));
    await eventually('the last one is told too', async () => streams[999]!.text().includes('TASK_STATE_COMPLETED'));
    streams[999]!.socket.destroy();
  });

  it('a client that stops reading is cut, and harms nobody else', async () => {
    const task = await ask(gateway, 'hold slow', { configuration: { returnImmediately: true } });
    const request = await desk.took(({ body }) => body.text === 'hold slow');
    const slow = await raw(task.id, false);
    const closed = new Promise((resolve) => slow.socket.once('close', resolve));
    const quick = await subscribe(task.id);
    await quick.until(1);
    const filler = 'x'.repeat(60_000);
    // More than the sockets' buffers and the queue hold.
    for (let i = 0; i < 400; i += 20) {
      await Promise.all(
        Array.from({ length: 20 }, (_, k) =>
          desk.post(
            desk.answering(request, 'progress', {
              artifacts: [{ artifactId: `a${i + k}`, parts: [{ text: filler }] }],
            }),
          ),
        ),
      );
    }
    await desk.post(desk.answering(request, 'reply', 'Done.'));
    await quick.ended;
    assert.equal(quick.events.at(-1).statusUpdate.status.state, 'TASK_STATE_COMPLETED');
    assert.equal(quick.events.filter((event) => event.artifactUpdate).length, 401);
    assert.ok(slow.text().length < 5_000_000);
    slow.socket.resume();
    await closed;
    assert.ok(!slow.text().includes('TASK_STATE_COMPLETED'), 'it was cut before the end');
  });
});
