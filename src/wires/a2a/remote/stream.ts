import { EventStream } from '../../../lib/event-stream.ts';
import { FetchRefused, type FetchResult } from '../../../lib/fetch-types.ts';
import { readJson } from '../../../lib/json.ts';
import { Refusal } from '../../../lib/refusal.ts';
import type { SendResult } from '../../../outbox/types.ts';
import { otherVersion } from '../client-result.ts';
import { isRecord, type Message } from '../protocol.ts';
import { answersOf } from './answers.ts';
import { callRemote, type Endpoint, readRemote, readRemoteJson } from './calls.ts';
import { after, type RemoteEvent, type TaskNow } from './form.ts';
import { isOutcome, type RemoteOptions, tell } from './options.ts';

/** Streams that one process holds open, in all and to one server, which is given 16 connections (src/lib/fetch.ts); past that, tasks are polled. */
const mostStreams = 1_000;
const mostPerOrigin = 6;
/** A stream is ended after that long, and its task polled on. */
const longestMs = 600_000;
/** Events that wait to be recorded: a server that is faster than the database is polled instead. */
const mostWaiting = 1_000;
const unsupported = -32004;

/** The streams that this process holds open, by exchange. */
export class Streams {
  readonly #open = new Map<string, Promise<void>>();
  readonly #origins = new Map<string, number>();

  hasRoom(url: string): boolean {
    return this.#open.size < mostStreams && (this.#origins.get(originOf(url)) ?? 0) < mostPerOrigin;
  }

  has(exchangeId: string): boolean {
    return this.#open.has(exchangeId);
  }

  /** Until `done` settles. */
  add(exchangeId: string, url: string, done: Promise<void>): void {
    const origin = originOf(url);
    this.#origins.set(origin, (this.#origins.get(origin) ?? 0) + 1);
    const entry: Promise<void> = done.finally(() => {
      if (this.#open.get(exchangeId) === entry) this.#open.delete(exchangeId);
      const left = (this.#origins.get(origin) ?? 1) - 1;
      if (left > 0) this.#origins.set(origin, left);
      else this.#origins.delete(origin);
    });
    this.#open.set(exchangeId, entry);
  }

  async ended(): Promise<void> {
    await Promise.all(this.#open.values());
  }
}

function originOf(url: string): string {
  return new URL(url).origin;
}

export interface Following {
  exchangeId: string;
  ownerId: string;
  attempts: number;
  endpoint: Endpoint;
  message: Message;
  signal: AbortSignal;
  /** Records the first event. What comes after it is told as it comes. */
  opened(event: RemoteEvent): Promise<void>;
}

/**
 * Sends a message and reads what comes of it as a stream. Resolves with the first event recorded; the rest follows while this process lives.
 * A stream that breaks off leaves the task to the poll.
 */
export function follow(
  options: RemoteOptions,
  streams: Streams,
  { exchangeId, ownerId, attempts, endpoint, message, signal, opened }: Following,
): Promise<SendResult | typeof otherVersion> {
  return new Promise((resolve, reject) => {
    const end = new AbortController();
    const stop = (): void => end.abort();
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) stop();
    const plain: Buffer[] = [];
    let answer: Pick<FetchResult, 'status' | 'headers'> | undefined;
    let now: TaskNow | null = null;
    let begun = false;
    let waiting = 0;
    let last = '';
    let chain: Promise<void> = Promise.resolve();

    const take = async (event: RemoteEvent): Promise<void> => {
      if (event.kind === 'message') {
        if (!begun) await opened(event);
        begun = true;
        resolve({ outcome: 'delivered' });
        return stop();
      }
      now = after(now, event);
      if (!begun) {
        await opened(event);
        begun = true;
        resolve({ outcome: 'delivered' });
      }
      // Chunks of an artifact tell nothing yet.
      const keys = `${now.state} ${answersOf(now)
        .map(({ key }) => key)
        .join(' ')}`;
      if (keys === last) return;
      last = keys;
      if (await tell(options, exchangeId, now)) stop();
    };
    const events = new EventStream((data) => {
      if (++waiting > mostWaiting) throw new RangeError('the stream is faster than it can be recorded');
      chain = chain.then(async () => {
        waiting--;
        if (end.signal.aborted) return;
        const result = readEventData(endpoint, answer!, data, attempts);
        if (result === otherVersion || isOutcome(result)) {
          if (!begun) resolve(result);
          stop();
        } else {
          await take(result);
        }
      });
      chain.catch(stop);
    });

    const call = callRemote(
      options,
      endpoint,
      { kind: 'stream', message, push: null },
      {
        ownerId,
        key: exchangeId,
        timeoutMs: longestMs,
        signal: end.signal,
        onData(chunk, head) {
          answer = head;
          if (head.status === 200 && /^text\/event-stream\b/i.test(head.headers.get('content-type') ?? ''))
            events.push(chunk);
          else plain.push(chunk);
        },
      },
    );
    const done = (async () => {
      try {
        const whole = await call;
        await chain;
        if (begun) return;
        if (plain.length === 0 && whole.status === 200) {
          return resolve({ outcome: 'retry', reason: 'the stream ended before it began', destinationDown: true });
        }
        const result = readPlain(endpoint, { ...whole, body: Buffer.concat(plain) }, attempts);
        if (result === otherVersion || isOutcome(result)) resolve(result);
        else await take(result);
      } catch (fault) {
        // What went wrong in recording ended the call.
        const error: unknown = await chain.then(
          () => fault,
          (own: unknown) => own,
        );
        if (!begun) reject(error);
        else if (!(error instanceof FetchRefused || error instanceof RangeError)) {
          options.log.warn(
            { err: error, exchange: exchangeId },
            'a stream of an A2A server failed; its task is polled',
          );
        }
      } finally {
        signal.removeEventListener('abort', stop);
        if (begun) {
          await options.tasks
            .look(exchangeId)
            .catch((error) =>
              options.log.warn({ err: error, exchange: exchangeId }, 'the poll of a task could not be hastened'),
            );
        }
      }
    })();
    streams.add(exchangeId, endpoint.url, done);
  });
}

function readEventData(
  endpoint: Endpoint,
  answer: Pick<FetchResult, 'status' | 'headers'>,
  data: string,
  attempts: number,
): ReturnType<typeof readRemoteJson> {
  const json = readJson(data, { maxDepth: 100, maxMembers: 200_000 });
  const value = json instanceof Refusal ? undefined : json.value;
  if (isUnsupported(value)) return otherVersion;
  return readRemoteJson(endpoint, { ...answer, body: Buffer.alloc(0) }, value, attempts);
}

/** An answer that is no stream: an error, or a server that answers at once. */
function readPlain(endpoint: Endpoint, answer: FetchResult, attempts: number): ReturnType<typeof readRemote> {
  const json = readJson(answer.body);
  return !(json instanceof Refusal) && isUnsupported(json.value)
    ? otherVersion
    : readRemote(endpoint, answer, attempts);
}

/** A card may promise what its server does not have. */
export function isUnsupported(value: unknown): boolean {
  return isRecord(value) && isRecord(value.error) && value.error.code === unsupported;
}
