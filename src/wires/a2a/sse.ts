import { CallerGone } from '../../lib/answer.ts';
import type { Clock } from '../../lib/clock.ts';
import type { HttpResponse } from '../../lib/http.ts';
import type { TaskStream, Told } from './stream.ts';

/** Proxies close what is silent for a minute. */
const heartbeatMs = 15_000;
/** A client that takes nothing for so long is cut: what it would have heard it gets by asking for the task. */
const stalledMs = 60_000;

/**
 * A stream as Server-Sent Events. Not the SDK's: that one never stops its generator when the client has gone, and writes on however little the client
 * reads. Here a client that reads nothing costs one unsent chunk and a bounded queue, then it is cut.
 */
export function streamResponse(
  stream: TaskStream,
  render: (told: Told) => string,
  clock: Clock,
  headers: Record<string, string>,
): HttpResponse {
  return {
    status: 200,
    headers: {
      'content-type': 'text/event-stream',
      'cache-control': 'no-cache, no-transform',
      // nginx would keep events until its buffer is full.
      'x-accel-buffering': 'no',
      ...headers,
    },
    stream: async (write, gone) => {
      const close = (): void => stream.close();
      gone.addEventListener('abort', close, { once: true });
      try {
        await pump(stream, render, clock, (text) => inTime(write(text), clock));
      } finally {
        gone.removeEventListener('abort', close);
        close();
      }
    },
    // Also when the stream was never begun: the client had gone before, or asked with HEAD.
    written: () => stream.close(),
  };
}

async function pump(
  stream: TaskStream,
  render: (told: Told) => string,
  clock: Clock,
  send: (text: string) => Promise<void>,
): Promise<void> {
  for (;;) {
    const next = stream.next();
    let told = await within(next, heartbeatMs, clock);
    while (told === 'late') {
      await send(': still here\n\n');
      told = await within(next, heartbeatMs, clock);
    }
    if (told === null) return;
    for (const each of told) await send(`data: ${render(each)}\n\n`);
  }
}

async function inTime(writing: Promise<void>, clock: Clock): Promise<void> {
  if ((await within(writing, stalledMs, clock)) === 'late') throw new CallerGone();
}

async function within<T>(work: Promise<T>, ms: number, clock: Clock): Promise<T | 'late'> {
  let cancel = (): void => {};
  const late = new Promise<'late'>((resolve) => {
    cancel = clock.after(ms, () => resolve('late'));
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    cancel();
  }
}
