import { backoff, retryAfter } from '../lib/backoff.ts';
import { type Clock, sleep } from '../lib/clock.ts';
import { GatehouseError, mayPass, NoAnswerError } from './errors.ts';

export const redsynVersion = '2026-09-25';

export interface HttpOptions {
  url: string;
  token: string | null;
  fetch: typeof fetch;
  clock: Clock;
  retries: Retries;
}

export interface Retries {
  /** Tries altogether. */
  tries: number;
  baseMs: number;
  capMs: number;
}

export interface CallOptions {
  signal?: AbortSignal | undefined;
  /** Default 30 s. */
  timeoutMs?: number;
  /** Repeat it on a 5xx, a plain 429 or no answer. Only for calls that may arrive twice. */
  retry?: boolean;
}

const defaultTimeoutMs = 30_000;

/** Calls of `/redsyn/v1`, with the retry rule of REDSYN "Límites". */
export class Http {
  readonly #options: HttpOptions;
  readonly #base: string;

  constructor(options: HttpOptions) {
    this.#options = options;
    this.#base = `${options.url.replace(/\/+$/, '')}/redsyn/v1`;
  }

  async call<T>(method: string, path: string, body?: unknown, options: CallOptions = {}): Promise<T> {
    const { clock, retries } = this.#options;
    // Written once: a repeat is the same bytes.
    const text = body === undefined ? undefined : JSON.stringify(body);
    for (let attempt = 1; ; attempt++) {
      try {
        return (await this.#once(method, path, text, options)) as T;
      } catch (fault) {
        const isLast = attempt >= retries.tries || options.signal?.aborted;
        if (options.retry !== true || isLast || !mayPass(fault)) throw fault;
        await sleep(clock, this.pause(fault, attempt), options.signal);
      }
    }
  }

  /** Milliseconds before the next try: what the gateway asked for, or growing ones with jitter. */
  pause(fault: unknown, attempt: number, limits: Omit<Retries, 'tries'> = this.#options.retries): number {
    const field = fault instanceof GatehouseError ? fault.retryAfter : undefined;
    return retryAfter(field, this.#options.clock.now(), limits.capMs) ?? backoff(attempt, limits);
  }

  async #once(method: string, path: string, body: string | undefined, options: CallOptions): Promise<unknown> {
    const { fetch, token, clock } = this.#options;
    const time = limitTime(clock, options.timeoutMs ?? defaultTimeoutMs, options.signal);
    let response: Response;
    let text: string;
    try {
      response = await fetch(this.#base + path, {
        method,
        headers: {
          ...(token !== null && { authorization: `Bearer ${token}` }),
          'redsyn-version': redsynVersion,
          ...(body !== undefined && { 'content-type': 'application/json' }),
        },
        ...(body !== undefined && { body }),
        redirect: 'manual',
        signal: time.signal,
      });
      text = await response.text();
    } catch (cause) {
      options.signal?.throwIfAborted();
      throw new NoAnswerError(`no answer from ${this.#base}: ${reasonOf(cause)}`, { cause });
    } finally {
      time.end();
    }
    const { status, headers } = response;
    const data = readObject(text);
    if (response.ok) {
      if (data || text === '') return data ?? {};
      // A proxy or a login page in between.
      throw new NoAnswerError(`${this.#base} answered ${status} with something that is not JSON: is that the gateway?`);
    }
    if (status >= 300 && status < 400) {
      const error = `${this.#base} redirects to ${headers.get('location')}: use the URL of the gateway itself`;
      throw new GatehouseError(status, { error, code: 'redirect' });
    }
    throw new GatehouseError(status, data ?? {}, headers.get('retry-after') ?? undefined);
  }
}

/** By hand and not with AbortSignal.any, which in Node 20 keeps what hangs on a long-lived signal for ever. */
function limitTime(clock: Clock, ms: number, outer: AbortSignal | undefined): { signal: AbortSignal; end(): void } {
  const controller = new AbortController();
  const abort = (): void => controller.abort(outer?.reason);
  const cancel = clock.after(ms, () => controller.abort(new Error(`nothing came within ${ms / 1000} s`)));
  if (outer?.aborted) abort();
  outer?.addEventListener('abort', abort, { once: true });
  return {
    signal: controller.signal,
    end() {
      cancel();
      outer?.removeEventListener('abort', abort);
    },
  };
}

function reasonOf(fault: unknown): string {
  if (!(fault instanceof Error)) return String(fault);
  const { cause } = fault;
  if (cause instanceof AggregateError && cause.errors[0] instanceof Error) return cause.errors[0].message;
  return cause instanceof Error ? cause.message : fault.message;
}

function readObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}
