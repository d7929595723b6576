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
        await pump(stream, render, clock, write);
      } finally {
        gone.removeEventListener('abort', close);
        close();
      }
    },
    // Also when the stream was never begun: the client had gone before, or asked with HEAD.
    written: () => stream.close(),
  };
}

/** Whoever reads too slowly is broken off, not ended in order: the stream must not look complete. */
async function pump(
  stream: TaskStream,
  render: (told: Told) => string,
  clock: Clock,
  write: (text: string) => Promise<void>,
): Promise<void> {
  let isCut = false;
  let breakOff = (): void => {};
  const cut = (): void => {
    isCut = true;
    breakOff();
    stream.close();
  };
  void stream.cut.then(cut);

  const send = (text: string): Promise<void> =>
    new Promise((resolve, reject) => {
      const cancel = clock.after(stalledMs, cut);
      breakOff = () => reject(new CallerGone());
      write(text).then(resolve, reject).finally(cancel);
    });

  const next = async (): Promise<Told[] | null> => {
    const beat = (): void => {
      cancel = clock.after(heartbeatMs, beat);
      send(': still here\n\n').catch(cut);
    };
    let cancel = clock.after(heartbeatMs, beat);
    try {
      return await stream.next();
    } finally {
      cancel();
    }
  };

  for (let told = await next(); told !== null; told = await next()) {
    for (const each of told) await send(`data: ${render(each)}\n\n`);
  }
  if (isCut) throw new CallerGone();
}
