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
}

const defaultLimits: FrontLimits = {
  bodyBytes: 80 * 1024,
  bodyMs: 30_000,
  headersMs: 10_000,
  requestMs: 60_000,
  keepAliveMs: 65_000,
  lingerMs: 2_000,
  lingerBytes: 1024 * 1024,
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

/** One request on its way through the front. */
interface Arrival {
  readonly message: IncomingMessage;
  readonly response: ServerResponse;
  readonly gone: AbortSignal;
  readonly head: RequestHead;
  readonly match: PathMatch | undefined;
  readonly found: RouteMatch | undefined;
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
  /** What Express hands back to us. */
  readonly #arrivals = new WeakMap<IncomingMessage, Arrival>();
  /** The answer that a connection is busy with. */
  readonly #answering = new WeakMap<Duplex, ServerResponse>();
  #closed: Promise<void> | undefined;

  constructor(options: FrontOptions) {
    this.#options = options;
    this.#limits = { ...defaultLimits, ...options.limits };
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
    const app = express().disable('x-powered-by').disable('etag').set('query parser', false);
    this.#options.mount?.(app);
    app.use((request: Request) => {
      void this.#route(this.#arrivals.get(request)!);
    });
    app.use((error: unknown, request: Request, response: Response, next: NextFunction) => {
      if (response.headersSent) return next(error);
      const arrival = this.#arrivals.get(request)!;
      void this.#send(arrival, arrival.head, this.#fault(arrival.head, error));
    });
    return app;
  }

  #arrive(message: IncomingMessage, response: ServerResponse): void {
    const gone = new AbortController();
    this.#answering.set(message.socket, response);
    response.once('close', () => {
      if (!response.writableFinished) gone.abort();
      if (this.#closed) this.server.closeIdleConnections();
    });
    const signal = gone.signal;
    const head = readHead(message, this.#head);
    if (head instanceof Refusal) {
      const spoken = { method: message.method ?? 'GET', path: (message.url ?? '/').split('?', 1)[0]! };
      void this.#send({ message, response, gone: signal }, spoken, this.#render(head, spoken));
      return;
    }
    const match = this.#table.find(head.path);
    const found = match?.route(head.method) ?? (head.method === 'HEAD' ? match?.route('GET') : undefined);
    const arrival = { message, response, gone: signal, head, match, found };
    if (found?.route.hot) {
      void this.#route(arrival);
      return;
    }
    this.#arrivals.set(message, arrival);
    this.#app(message, response);
  }

  async #route(arrival: Arrival): Promise<void> {
    const { head, match, found } = arrival;
    if (!match) return this.#send(arrival, head, this.#render(refuse('not_found'), head));
    if (!found) return this.#send(arrival, head, this.#otherMethod(head, match));

    const { route, params } = found;
    const maxBytes = route.maxBody ?? this.#limits.bodyBytes;
    const body = await readBody(arrival.message, { maxBytes, timeoutMs: this.#limits.bodyMs, clock: this.#clock });
    if (body === undefined) return;
    if (body instanceof Refusal) return this.#send(arrival, head, this.#render(body, head));

    let answer: HttpResponse;
    try {
      answer = await route.handler({ ...head, params, body, gone: arrival.gone });
    } catch (error) {
      answer = this.#fault(head, error);
    }
    return this.#send(arrival, head, answer);
  }

  #otherMethod(head: RequestHead, { methods }: PathMatch): HttpResponse {
    const allow = [...methods, ...(methods.includes('GET') ? ['HEAD'] : []), 'OPTIONS'].join(', ');
    if (head.method === 'OPTIONS') return { status: 204, headers: { allow } };
    const answer = this.#render(refuse('method_not_allowed'), head);
    return { ...answer, headers: { ...answer.headers, allow } };
  }

  async #send(
    arrival: Pick<Arrival, 'message' | 'response' | 'gone'>,
    spoken: Spoken,
    answer: HttpResponse,
  ): Promise<void> {
    const { message, response, gone } = arrival;
    // What follows an unread body on the connection cannot be told from the body.
    const unread = hasBody(message) && !message.readableEnded;
    response.shouldKeepAlive = response.shouldKeepAlive && !unread && !this.#closed;
    const { lingerMs: timeoutMs, lingerBytes: maxBytes } = this.#limits;
    const linger = () => discardBody(message, { maxBytes, timeoutMs, clock: this.#clock });
    try {
      await sendAnswer(response, answer, { method: spoken.method, gone, ...(unread && { linger }) });
    } catch (error) {
      const fault = this.#fault(spoken, error);
      if (response.headersSent) response.destroy();
      else await sendAnswer(response, fault, { method: spoken.method, gone });
    }
  }

  /** Our own fault: the log has everything, the caller the number under which the log has it. */
  #fault(spoken: Spoken, error: unknown): HttpResponse {
    const request_id = this.#options.requestId();
    this.#options.log.error({ err: error, request_id, method: spoken.method, path: spoken.path }, 'request failed');
    const answer = this.#render(refuse('internal', undefined, { data: { request_id } }), spoken);
    return { ...answer, headers: { ...answer.headers, 'x-request-id': request_id } };
  }

  #render(refusal: Refusal, spoken: Spoken): HttpResponse {
    const fits = ([prefix]: readonly [string, RenderRefusal]): boolean =>
      prefix === '/' || spoken.path === prefix || spoken.path.startsWith(`${prefix}/`);
    const render = this.#renderers.find(fits)?.[1] ?? this.#options.renderers['/']!;
    return render(refusal, spoken);
  }

  /** Bytes that node's parser does not take for a request, or that came too slowly to be one. */
  #unreadable(error: NodeJS.ErrnoException, socket: Duplex): void {
    const answering = this.#answering.get(socket);
    if (!socket.writable || error.code === 'ECONNRESET' || (answering?.headersSent && !answering.writableFinished)) {
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
    );
  }
}
