import { backoff, retryAfter } from '../lib/backoff.ts';
import { type Clock, sleep } from '../lib/clock.ts';
import { EventStream } from '../lib/event-stream.ts';
import { type Fetch, FetchRefused, type FetchResult } from '../lib/fetch-types.ts';
import { readJson } from '../lib/json.ts';
import { Refusal } from '../lib/refusal.ts';
import { type ChatRequest, type Completion, DialectFault } from './dialects/types.ts';
import type { Endpoint } from './settings/index.ts';
import { providers } from './settings/providers.ts';
import { type Failure, failure } from './types.ts';

export interface CallOptions {
  fetch: Fetch;
  clock: Clock;
  signal: AbortSignal;
  /** When the whole turn is over. */
  deadline: number;
  /** Bytes of text that are wanted: what comes behind them is not waited for. */
  mostText: number;
  /** Partial text, as it comes. */
  onText?: ((text: string) => void) | undefined;
}

/** An endpoint that says nothing for so long hangs. */
const idleMs = 45_000;
const mostBytes = 4 * 1024 * 1024;
const tries = 3;
const schedule = { baseMs: 1_000, capMs: 8_000 };
/** A longer `Retry-After` ends the turn: its asker is told, instead of waiting. */
const longestPause = 20_000;
const longestRest = 600_000;

/** Stays in this file: no more is wanted of the answer. */
class Enough extends Error {}

/**
 * One call of the model. Repeated, at most twice, when the endpoint is busy (429, 5xx) or was not reached, and nothing was heard of the answer yet; a
 * `Retry-After` is honoured.
 */
export async function complete(
  endpoint: Endpoint,
  request: Omit<ChatRequest, 'model' | 'maxTokens' | 'streams'>,
  options: CallOptions,
): Promise<Completion | { failure: Failure }> {
  const { clock, signal, deadline } = options;
  for (let attempt = 1; ; attempt++) {
    const result = await once(endpoint, request, options);
    if (!('retry' in result)) return result;
    const pause = Math.max(result.afterMs ?? 0, backoff(attempt, schedule, Math.random));
    const isLast = attempt === tries || pause > longestPause || clock.now() + pause >= deadline || signal.aborted;
    if (isLast) return failure('agent_error', result.retry, result.afterMs);
    await sleep(clock, pause, signal);
  }
}

type Once = Completion | { failure: Failure } | { retry: string; afterMs?: number };

async function once(
  endpoint: Endpoint,
  request: Omit<ChatRequest, 'model' | 'maxTokens' | 'streams'>,
  { fetch, clock, signal, deadline, mostText, onText }: CallOptions,
): Promise<Once> {
  const { baseUrl, key, model, maxTokens, streams } = endpoint;
  const { dialect } = providers[endpoint.provider];
  const reader = dialect.reader();
  const idle = new AbortController();
  const stop = (): void => idle.abort();
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  let cancel = clock.after(idleMs, stop);
  let heard = 0;
  const whole: Buffer[] = [];
  const events = new EventStream((data) => {
    const text = reader.event(data);
    heard += Buffer.byteLength(text);
    if (text !== '') onText?.(text);
    if (heard > mostText) throw new Enough();
  });
  const take = (chunk: Buffer, answer: Pick<FetchResult, 'status' | 'headers'>): void => {
    cancel();
    cancel = clock.after(idleMs, stop);
    if (answer.status !== 200) return;
    if (isStream(answer)) events.push(chunk);
    else whole.push(chunk);
  };
  try {
    const answer = await fetch(baseUrl + dialect.path(baseUrl), {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: streams ? 'text/event-stream, application/json' : 'application/json',
        ...dialect.headers(key),
      },
      body: JSON.stringify(dialect.body({ ...request, model, maxTokens, streams }, baseUrl)),
      maxBytes: mostBytes,
      timeoutMs: Math.max(deadline - clock.now(), 1),
      signal: idle.signal,
      onData: take,
    });
    if (answer.status !== 200) return refused(answer, clock.now());
    if (!isStream(answer)) {
      const json = readJson(Buffer.concat(whole));
      if (json instanceof Refusal) throw new DialectFault('the answer is no JSON');
      reader.whole(json.value);
    }
    return reader.finish();
  } catch (error) {
    if (error instanceof Enough) return { ...reader.soFar(), calls: [], stop: 'length' };
    if (error instanceof DialectFault || error instanceof RangeError) {
      return failure('agent_error', `the endpoint does not speak the API of ${endpoint.provider}: ${error.message}`);
    }
    if (!(error instanceof FetchRefused)) throw error;
    if (heard === 0 && error.reason === 'connect' && !signal.aborted)
      return { retry: 'the endpoint could not be reached' };
    return failure(errorCode(error), words(error));
  } finally {
    cancel();
    signal.removeEventListener('abort', stop);
  }
}

function isStream({ headers }: Pick<FetchResult, 'headers'>): boolean {
  return /^text\/event-stream\b/i.test(headers.get('content-type') ?? '');
}

/** Its own words are not repeated: some endpoints put the key into them. */
function refused({ status, headers }: FetchResult, now: number): Once {
  if (status === 429 || status >= 500) {
    const afterMs = retryAfter(headers.get('retry-after'), now, longestRest);
    return { retry: `the endpoint is busy (HTTP ${status})`, ...(afterMs !== undefined && { afterMs }) };
  }
  if (status === 401 || status === 403) return failure('agent_error', `the endpoint refuses the key (HTTP ${status})`);
  if (status >= 300 && status < 400)
    return failure('agent_error', `the endpoint redirects (HTTP ${status}), which is not followed`);
  const hint = status === 404 ? ': are the base URL and the name of the model right?' : '';
  return failure('agent_error', `the endpoint refuses the call (HTTP ${status})${hint}`);
}

function errorCode({ reason }: FetchRefused): 'invalid_base_url' | 'agent_error' {
  return reason === 'scheme' || reason === 'host' || reason === 'address' ? 'invalid_base_url' : 'agent_error';
}

function words({ reason }: FetchRefused): string {
  switch (reason) {
    case 'timeout':
      return 'the endpoint did not answer in time';
    case 'too_large':
      return 'the endpoint answered with more than 4 MiB';
    case 'scheme':
    case 'host':
    case 'address':
      return 'the base URL leads to no public https address';
    default:
      return `the endpoint could not be called (${reason})`;
  }
}
