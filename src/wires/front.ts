import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import express, { type Express, type NextFunction, type Request, type Response } from 'express';
import { sendAnswer } from '../lib/answer.ts';
import { discardBody, hasBody, readBody } from '../lib/body.ts';
import { type Clock, systemClock } from '../lib/clock.ts';
import type { HttpResponse, RenderRefusal, Route } from '../lib/http.ts';
import { networks } from '../lib/ip.ts';
import type { Log } from '../lib/log.ts';
import { type HeadOptions, type RequestHead, readHead } from '../lib/raw.ts';
import { Refusal, refuse } from '../lib/refusal.ts';
import { type PathMatch, type RouteMatch, RouteTable } from '../lib/routes.ts';
import { Turns } from '../lib/turns.ts';

export interface FrontLimits {
  /** Bytes of body taken by a route that does not say. */
  readonly bodyBytes: number;
  /** For a whole body to arrive. */
  readonly bodyMs: number;
  readonly headersMs: number;
  /** For a whole request to arrive; a slow answer, such as a long poll, is not counted. */
  readonly requestMs: number;
  /** Idle connections; longer than the 60 s of common proxies, so that the proxy closes first. */
  readonly keepAliveMs: number;
  /** How long a caller whose body is not wanted may go on sending it after the answer. */
  readonly lingerMs: number;
  readonly lingerBytes: number;
  /** Bodies larger than a route takes from everybody, in hand at once. */
  readonly largeBodies: number;
}

const defaultLimits: FrontLimits = {
  bodyBytes: 80 * 1024,
  bodyMs: 30_000,
  headersMs: 10_000,
  requestMs: 60_000,
  keepAliveMs: 65_000,
  lingerMs: 2_000,
  lingerBytes: 1024 * 1024,
  largeBodies: 16,
};

export interface FrontOptions {
  readonly routes: readonly Route[];
  /** By path prefix, in whole segments; the longest that fits says no. `/` must be there. */
  readonly renderers: Readonly<Record<string, RenderRefusal>>;
  /** Addresses and CIDRs of proxies whose X-Forwarded-* counts. */
  readonly trustProxy: readonly string[];
  /** Of the public URL. */
  readonly scheme: HeadOptions['scheme'];
  readonly requestId: () => string;
  readonly log: Log;
  readonly limits?: Partial<FrontLimits>;
  readonly clock?: Clock;
  /** Puts middleware and foreign apps on the Express app, before the routes that are not hot. Their bodies are unread. */
  readonly mount?: (app: Express) => void;
}

export interface Front {
  /** Not yet listening. */
  readonly server: Server;
  /** Takes nothing new, lets requests in flight finish, and after `graceMs` cuts what is left. */
  close(graceMs?: number): Promise<void>;
}

/**
 * The one HTTP server (design §5). Hot routes are answered before Express sees them; everything else passes through it. Both kinds have
 * the same contract, the same checks of the raw request before, and the same refusals.
 */
export function createFront(options: FrontOptions): Front {
  return new HttpFront(options);
}

interface Caller {
  readonly message: IncomingMessage;
  readonly response: ServerResponse;
  readonly gone: AbortSignal;
}

/** One request on its way through the front. */
interface Arrival extends Caller {
  readonly head: RequestHead;
  readonly match: PathMatch | undefined;
  readonly found: RouteMatch | undefined;
}

interface Pending {
  readonly response: ServerResponse;
  readonly gone: AbortController;
}

type Spoken = Pick<RequestHead, 'method' | 'path'>;

class HttpFront implements Front {
  readonly server: Server;
  readonly #options: FrontOptions;
  readonly #limits: FrontLimits;
  readonly #clock: Clock;
  readonly #head: HeadOptions;
  readonly #table: RouteTable;
  readonly #renderers: ReadonlyArray<readonly [string, RenderRefusal]>;
  readonly #app: Express;
  readonly #large: Turns;
  /** What Express hands back to us. */
  readonly #arrivals = new WeakMap<IncomingMessage, Arrival>();
  /** What a connection still has to answer: more than one request when the caller pipelines. */
  readonly #pending = new WeakMap<Duplex, Set<Pending>>();
  #closed: Promise<void> | undefined;

  constructor(options: FrontOptions) {
    this.#options = options;
    this.#limits = { ...defaultLimits, ...options.limits };
    this.#large = new Turns(this.#limits.largeBodies);
    this.#clock = options.clock ?? systemClock;
    this.#head = { scheme: options.scheme, trusted: networks(options.trustProxy) };
    this.#table = new RouteTable(options.routes);
    this.#renderers = Object.entries(options.renderers).sort(([a], [b]) => b.length - a.length);
    if (!options.renderers['/']) throw new Error('a renderer for the prefix / is missing');
    this.#app = this.#expressApp();
    this.server = createServer(
      {
        headersTimeout: this.#limits.headersMs,
        requestTimeout: this.#limits.requestMs,
        keepAliveTimeout: this.#limits.keepAliveMs,
        connectionsCheckingInterval: 5_000,
        // A missing Host is refused by readHead, in JSON.
        requireHostHeader: false,
      },
      (message, response) => this.#arrive(message, response),
    );
    // node drops the fields beyond its count without a word; readHead counts, and the size is bounded all the same.
    this.server.maxHeadersCount = 0;
    this.server.on('connection', (socket) => this.#watch(socket));
    this.server.on('clientError', (error: NodeJS.ErrnoException, socket) => this.#unreadable(error, socket));
  }

  close(graceMs = 30_000): Promise<void> {
    this.#closed ??= new Promise((resolve) => {
      const cancel = this.#clock.after(graceMs, () => this.server.closeAllConnections());
      this.server.close(() => {
        cancel();
        resolve();
      });
    });
    return this.#closed;
  }

  #expressApp(): Express {
    const app = express().disable('x-powered-by').disable('etag').set('query parser', false).set('env', 'production');
    this.#options.mount?.(app);
    app.use((request: Request) => {
      const arrival = this.#arrivals.get(request)!;
      this.#guard(arrival.response, this.#route(arrival));
    });
    app.use((error: unknown, request: Request, response: Response, _next: NextFunction) => {
      const arrival = this.#arrivals.get(request)!;
      this.#guard(response, this.#fail(arrival, arrival.head, error));
    });
    return app;
  }

  // A queued answer of a pipelined request has no connection yet, and node does not tell it when that connection ends.
  #watch(socket: Duplex): void {
    const pending = new Set<Pending>();
    this.#pending.set(socket, pending);
    socket.once('close', () => {
      for (const { response, gone } of pending) if (!response.writableFinished) gone.abort();
    });
  }

  #arrive(message: IncomingMessage, response: ServerResponse): void {
    const gone = new AbortController();
    const pending = this.#pending.get(message.socket)!;
    const entry = { response, gone };
    pending.add(entry);
    response.once('close', () => {
      pending.delete(entry);
      if (!response.writableFinished) gone.abort();
      if (this.#closed) this.server.closeIdleConnections();
    });

    const caller: Caller = { message, response, gone: gone.signal };
    const head = readHead(message, this.#head);
    if (head instanceof Refusal) {
      const spoken = { method: message.method ?? 'GET', path: (message.url ?? '/').split('?', 1)[0]! };
      this.#guard(response, this.#refuse(caller, spoken, head));
      return;
    }
    const match = this.#table.find(head.path);
    const found = match?.route(head.method) ?? (head.method === 'HEAD' ? match?.route('GET') : undefined);
    const arrival = { ...caller, head, match, found };
    if (found?.route.hot) {
      this.#guard(response, this.#route(arrival));
      return;
    }
    this.#arrivals.set(message, arrival);
    this.#app(message, response);
  }

  /** The last resort, for a renderer that throws: nobody waits for what happens to a request. */
  #guard(response: ServerResponse, work: Promise<void>): void {
    work.catch((error) => {
      this.#options.log.error({ err: error }, 'request abandoned');
      response.destroy();
    });
  }

  async #route(arrival: Arrival): Promise<void> {
    const { head, match, found } = arrival;
    if (!match) return this.#refuse(arrival, head, refuse('not_found'));
    if (!found) return this.#send(arrival, head, this.#otherMethod(head, match));

    const { route, params } = found;
    const maxBytes = route.maxBody ?? this.#limits.bodyBytes;
    const { large } = route;
    const declared = declaredBytes(arrival.message);
    if (!large || declared <= maxBytes || (declared > large.maxBody && declared < Number.POSITIVE_INFINITY)) {
      return this.#handle(arrival, found, large && declared > maxBytes ? large.maxBody : maxBytes);
    }
    const { gone } = arrival;
    let no: Refusal | undefined;
    try {
      no = await large.allow({ ...head, params, body: Buffer.alloc(0), gone });
    } catch (error) {
      return this.#fail(arrival, head, error);
    }
    if (no) return this.#refuse(arrival, head, no);
    return this.#large.take(async () => {
      if (!gone.aborted) await this.#handle(arrival, found, large.maxBody);
    });
  }

  async #handle(arrival: Arrival, { route, params }: RouteMatch, maxBytes: number): Promise<void> {
    const { head } = arrival;
    const body = await readBody(arrival.message, { maxBytes, timeoutMs: this.#limits.bodyMs, clock: this.#clock });
    if (body === undefined) return;
    if (body instanceof Refusal) return this.#refuse(arrival, head, body);

    let answer: HttpResponse;
    try {
      answer = await route.handler({ ...head, params, body, gone: arrival.gone });
    } catch (error) {
      return this.#fail(arrival, head, error);
    }
    return this.#send(arrival, head, answer);
  }

  #otherMethod(head: RequestHead, { methods }: PathMatch): HttpResponse {
    const allow = [...methods, ...(methods.includes('GET') ? ['HEAD'] : []), 'OPTIONS'].join(', ');
    const answer = this.#render(refuse('method_not_allowed'), head);
    if (head.method === 'OPTIONS') {
      // What a wire adds to whatever it answers (Redsyn-Version), without what speaks of the body.
      const { 'content-type': _type, ...own } = answer.headers ?? {};
      return { status: 204, headers: { ...own, allow } };
    }
    return { ...answer, headers: { ...answer.headers, allow } };
  }

  async #refuse(caller: Caller, spoken: Spoken, refusal: Refusal): Promise<void> {
    return this.#send(caller, spoken, this.#render(refusal, spoken));
  }

  /** Our own fault: the log has everything, the caller the number under which the log has it. */
  async #fail(caller: Caller, spoken: Spoken, error: unknown): Promise<void> {
    const request_id = this.#report(spoken, error);
    if (caller.response.headersSent) {
      caller.response.destroy();
      return;
    }
    const answer = this.#render(refuse('internal', undefined, { data: { request_id } }), spoken);
    await this.#write(caller, spoken, { ...answer, headers: { ...answer.headers, 'x-request-id': request_id } });
  }

  async #send(caller: Caller, spoken: Spoken, answer: HttpResponse): Promise<void> {
    try {
      await this.#write(caller, spoken, answer);
    } catch (error) {
      await this.#fail(caller, spoken, error);
    }
  }

  #write({ message, response, gone }: Caller, spoken: Spoken, answer: HttpResponse): Promise<void> {
    // What follows an unread body on the connection cannot be told from the body.
    const unread = hasBody(message) && !message.readableEnded;
    response.shouldKeepAlive = response.shouldKeepAlive && !unread && !this.#closed;
    const { lingerMs: timeoutMs, lingerBytes: maxBytes } = this.#limits;
    return sendAnswer(response, answer, {
      method: spoken.method,
      gone,
      onFault: (error) => void this.#report(spoken, error),
      ...(unread && { linger: () => discardBody(message, { maxBytes, timeoutMs, clock: this.#clock }) }),
    });
  }

  #report(spoken: Spoken, error: unknown): string {
    const request_id = this.#options.requestId();
    this.#options.log.error({ err: error, request_id, method: spoken.method, path: spoken.path }, 'request failed');
    return request_id;
  }

  #render(refusal: Refusal, spoken: Spoken): HttpResponse {
    const fits = ([prefix]: readonly [string, RenderRefusal]): boolean =>
      prefix === '/' || spoken.path === prefix || spoken.path.startsWith(`${prefix}/`);
    const render = this.#renderers.find(fits)?.[1] ?? this.#options.renderers['/']!;
    return render(refusal, spoken);
  }

  /** Bytes that node's parser does not take for a request, or that came too slowly to be one. */
  #unreadable(error: NodeJS.ErrnoException, socket: Duplex): void {
    const pending = [...(this.#pending.get(socket) ?? [])];
    // A second answer in the place of the first would be taken for the first.
    const answering =
      pending.length > 1 || pending.some(({ response }) => response.headersSent && !response.writableFinished);
    if (!socket.writable || error.code === 'ECONNRESET' || answering) {
      socket.destroy();
      return;
    }
    const [status, reason] =
      error.code === 'HPE_HEADER_OVERFLOW'
        ? [431, 'Request Header Fields Too Large']
        : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
          ? [408, 'Request Timeout']
          : [400, 'Bad Request'];
    const { code, words } = refuse('malformed_request');
    const body = JSON.stringify({ error: words, code, status });
    socket.end(
      `HTTP/1.1 ${status} ${reason}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
      () => socket.destroy(),
    );
  }
}

/** Without a length (chunked) it may be of any size. */
function declaredBytes({ headers }: IncomingMessage): number {
  return headers['transfer-encoding'] === undefined ? Number(headers['content-length'] ?? 0) : Number.POSITIVE_INFINITY;
}
