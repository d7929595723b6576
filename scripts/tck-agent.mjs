// The agent that the compatibility kit talks to: an ordinary REDSYN client that polls its inbox and does what the kit's message ids ask for.
import { setTimeout as sleep } from 'node:timers/promises';

const completed = 'TASK_STATE_COMPLETED';
const text = (words) => ({ parts: [{ text: words }] });
const artifact = (part, more = {}) => ({ artifacts: [{ artifactId: 'artifact-1', parts: [part], ...more }] });
const done = (more = {}) => ({ reply: { status: { state: completed }, ...more } });
const file = { filename: 'output.txt', mediaType: 'text/plain' };
const aText = { text: 'Generated text content' };
const raw = { raw: Buffer.from('Generated file content').toString('base64'), ...file };
const working = { progress: { status: { state: 'TASK_STATE_WORKING' } } };

/** By the prefix of a message id, the longest first: what the agent says, in order. */
const stories = {
  'tck-complete-task': [{ reply: { status: { state: completed, message: text('Hello from TCK') } } }],
  'tck-input-required': [
    { progress: { status: { state: 'TASK_STATE_INPUT_REQUIRED', message: text('Input required') } } },
  ],
  'tck-reject-task': [{ reply: { status: { state: 'TASK_STATE_REJECTED', message: text('Rejected') } } }],
  'tck-message-response': [{ reply: { message: text('Direct message response') } }],
  'tck-artifact-text': [done(artifact(aText))],
  'tck-artifact-file-url': [done(artifact({ url: 'https://example.com/output.txt', ...file }))],
  'tck-artifact-file': [done(artifact(raw))],
  'tck-artifact-data': [done(artifact({ data: { key: 'value', count: 42 } }))],
  'tck-stream-001': [working, { progress: artifact({ text: 'Stream hello from TCK' }) }, done()],
  'tck-stream-002': [done()],
  'tck-stream-003': [working, { progress: artifact({ text: 'Stream task lifecycle' }) }, done()],
  'tck-stream-ordering-001': [working, { progress: artifact({ text: 'Ordered output' }) }, done()],
  'tck-stream-artifact-text': [
    working,
    { progress: artifact({ text: 'Streamed text content' }, { lastChunk: true }) },
    done(),
  ],
  'tck-stream-artifact-file': [working, { progress: artifact(raw, { lastChunk: true }) }, done()],
  'tck-stream-artifact-chunked': [
    working,
    { progress: artifact({ text: 'chunk-1 ' }) },
    { progress: artifact({ text: 'chunk-2' }, { append: true, lastChunk: true }) },
    done(),
  ],
  'test-resubscribe-message-id': [working, { wait: 2 * Number(process.env.TCK_STREAMING_TIMEOUT ?? 2) * 1000 }, done()],
};
const prefixes = Object.keys(stories).sort((a, b) => b.length - a.length);
/** 0.3's kit uses random ids. It compares its tasks while they are open, goes on with them for some seconds, and waits 2 s for a stream's next event. */
const anything = [
  { wait: 500 },
  working,
  { wait: 1_400 },
  working,
  { wait: 1_400 },
  working,
  { wait: 700 },
  { reply: { status: { state: completed, message: text('Done') } } },
];

export async function startKitAgent({ url, token, org, pure }) {
  const names = [org, 'general', 'kit', 'echo'];
  const address = names.join('/');
  const stopping = new AbortController();
  const call = async (method, path, body, signal) => {
    const response = await fetch(`${url}/redsyn/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body: JSON.stringify(body) }),
      ...(signal && { signal }),
    });
    return { status: response.status, json: await response.json() };
  };
  await call('PUT', `/agents/${address}`, {
    description: 'Echoes what the compatibility kit says.',
    allow: ['anyone'],
    default: true,
    front_desk: true,
    listening: true,
    profile: {
      name: 'Kit agent',
      skills: [{ id: 'echo', name: 'Echo', description: 'Answers.', tags: ['kit'] }],
      ...(pure && { card: '1.0' }),
    },
  });

  async function serve(envelope) {
    const id = envelope.a2a?.messageId ?? '';
    const prefix = prefixes.find((each) => id.startsWith(each));
    const story = prefix ? stories[prefix] : id.startsWith('tck-') ? stories['tck-complete-task'] : anything;
    for (const { wait, progress, reply } of story) {
      if (stopping.signal.aborted) return;
      if (wait) {
        await sleep(wait, undefined, { ref: false });
        continue;
      }
      const { status, json } = await call('POST', '/messages', {
        v: 1,
        kind: progress ? 'progress' : 'reply',
        from: address,
        thread: envelope.thread,
        reply_to: envelope.id,
        body: { type: 'application/a2a+json', data: progress ?? reply },
      });
      // Canceled, or answered already.
      if (status === 409) return;
      if (status !== 201) console.error('the kit agent was refused:', json);
    }
  }

  async function listen() {
    while (!stopping.signal.aborted) {
      const took = await call('GET', `/inbox/${address}?wait=25&max=50`, undefined, stopping.signal).catch(() => null);
      const items = took?.json.items ?? [];
      for (const item of items) {
        if (item.kind !== 'request') continue;
        serve(item).catch((error) => stopping.signal.aborted || console.error('the kit agent failed:', error));
      }
      if (items.length > 0) await call('POST', `/inbox/${address}/ack`, { ids: items.map((item) => item.id) });
    }
  }
  const listening = listen();
  return {
    /** The kit looks for the card beneath it. */
    base: `${url}/agents/kit/general/echo`,
    async stop() {
      stopping.abort();
      await listening;
    },
  };
}
