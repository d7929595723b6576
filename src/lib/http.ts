import type { Refusal } from './refusal.ts';

/** Header fields as they arrived: names lower-cased for look-up, every occurrence kept, order kept. */
export interface HeaderFields {
  /** All values of a field joined with `, ` (RFC 9110 §5.3), or undefined. */
  get(name: string): string | undefined;
  /** Every occurrence, in order. */
  all(name: string): readonly string[];
  /** Name (as sent) and value, in order. */
  readonly raw: ReadonlyArray<readonly [string, string]>;
}

/**
 * A request as every wire sees it, on the hot front and behind Express alike. The body was read once, whole and within the route's
 * limit, before any parsing, so that a digest covers the bytes that came.
 */
export interface HttpRequest {
  readonly method: string;
  /** The request target exactly as on the request line (origin form: path and query). */
  readonly target: string;
  /** Percent-encoded path of the target, without the query. */
  readonly path: string;
  /** The query with its `?`, or '' when the target has none. */
  readonly search: string;
  /** Values of the route's `{name}` segments, percent-decoded. */
  readonly params: Readonly<Record<string, string>>;
  readonly headers: HeaderFields;
  /** `Host`, lower-cased, default port of the scheme dropped; from X-Forwarded-Host only when a trusted proxy sent it. */
  readonly authority: string;
  readonly scheme: 'http' | 'https';
  /** Address of the caller; from X-Forwarded-For only past trusted proxies. */
  readonly ip: string;
  readonly body: Buffer;
  /** Aborted when the caller goes away before the answer was written. */
  readonly gone: AbortSignal;
}

export interface HttpResponse {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
  /** Streams instead of `body`: called once headers are written. `write` resolves when the socket can take more and rejects when the caller is gone. */
  readonly stream?: (write: (chunk: string) => Promise<void>, gone: AbortSignal) => Promise<void>;
  /** Called once when the answer was handed to the operating system whole (`true`) or could not be (`false`). */
  readonly written?: (ok: boolean) => void;
}

export type Handler = (request: HttpRequest) => Promise<HttpResponse>;

/** One row of a wire's route table. */
export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** `/redsyn/v1/inbox/{org}/{team}/{user}/{agent}/ack`; a `{name}` takes one segment. */
  readonly path: string;
  readonly handler: Handler;
  /** Matched on the node server before Express (design §5). */
  readonly hot?: boolean;
  /** Bytes of body taken; more is `payload_too_large`. Default 64 KiB + 16 KiB. */
  readonly maxBody?: number;
  /** For callers that may send more than `maxBody`. */
  readonly large?: LargeBody;
  /** One line for the API description. */
  readonly about?: string;
}

/** Bodies that cost much to read. */
export interface LargeBody {
  readonly maxBody: number;
  /** Asked before any of it is read, with an empty `body`: whether this caller may send it. */
  readonly allow: (request: HttpRequest) => Promise<Refusal | undefined>;
}

/** How a wire says no: every wire has one, so that a refusal before routing (size, form) still speaks the wire's language. */
export type RenderRefusal = (refusal: Refusal, request: Pick<HttpRequest, 'method' | 'path'>) => HttpResponse;
