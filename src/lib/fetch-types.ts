/** What leaves the gateway. `src/lib/fetch.ts` is the one implementation; tests pass their own. */

export interface FetchInit {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
  /** Bytes of answer taken; more ends the call with `too_large`. Nothing is decoded: `Accept-Encoding: identity` is sent. */
  readonly maxBytes: number;
  /** The status and the header fields are all that is wanted: the body comes back empty, however long it was. */
  readonly withoutBody?: boolean;
  /** From the first look-up of the name to the last byte. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
  /** Takes the answer as it comes, instead of `body`, which is then empty. What it throws ends the call and is thrown by it. */
  readonly onData?: (chunk: Buffer, answer: Pick<FetchResult, 'status' | 'headers'>) => void;
}

export interface FetchResult {
  readonly status: number;
  /** By lower-case name; repeated fields joined with `, `. */
  readonly headers: { get(name: string): string | undefined };
  readonly body: Buffer;
}

/**
 * Sends exactly the path and query of `url` as they are written. Follows no redirect: a 3xx comes back with its status like any other answer,
 * and whoever asked decides what it means (WEB-02). Rejects with `FetchRefused`.
 */
export type Fetch = (url: string, init: FetchInit) => Promise<FetchResult>;

/**
 * Why nothing usable came back. `scheme`, `host` and `address` mean that the guard let no packet out; `redirect` (for callers that want
 * an answer and got a 3xx) and `too_large` mean that the other side answered with what we do not take; the rest are faults of the way there.
 */
export type FetchRefusedReason =
  | 'scheme'
  | 'host'
  | 'address'
  | 'redirect'
  | 'timeout'
  | 'too_large'
  | 'connect'
  | 'tls'
  | 'protocol';

export class FetchRefused extends Error {
  readonly reason: FetchRefusedReason;

  constructor(reason: FetchRefusedReason, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'FetchRefused';
    this.reason = reason;
  }
}
