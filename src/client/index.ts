import { newMessageId, signedEnvelope } from './envelope.ts';
import type { NodeKeys } from './keys.ts';

export { type NodeKeys, nodeKeys } from './keys.ts';

/** An envelope as the relay delivers it (REDSYN "El sobre"). */
export interface DeliveredEnvelope {
  v: 1;
  id: string;
  kind: 'request' | 'progress' | 'reply' | 'event';
  from: string;
  to: string;
  thread: string;
  reply_to: string | null;
  ts: number;
  body: Body;
  refs: unknown[];
  error: boolean;
  expires: number;
  attempts: number;
  signed: boolean;
  sig: { alg: string; key: string; value: string; payload: string; node: string | null; fingerprint: string } | null;
  [more: string]: unknown;
}

export interface Body {
  type: string;
  text?: string;
  data?: unknown;
  [more: string]: unknown;
}

/** What `send` writes; text is short for a body of text/plain. */
export interface Outgoing {
  from: string;
  to: string;
  text?: string;
  body?: Body;
  id?: string;
  thread?: string;
  /** Seconds. */
  ttl?: number;
  refs?: unknown[];
}

export interface Sent {
  id: string;
  thread: string;
  to: string;
  signed: boolean;
  duplicate?: boolean;
}

/** The gateway said no. `status` and `code` are its own; `quota` and what else it told stand in `data`. */
export class GatehouseError extends Error {
  override name = 'GatehouseError';
  readonly status: number;
  readonly code: string;
  readonly data: Record<string, unknown>;

  constructor(status: number, data: Record<string, unknown>) {
    super(typeof data.error === 'string' ? data.error : `the gateway answered ${status}`);
    this.status = status;
    this.code = typeof data.code === 'string' ? data.code : 'unknown';
    this.data = data;
  }

  /** REDSYN "Límites": a 5xx, a plain 429 or no answer may be repeated with the same id; a quota may not. */
  get retryable(): boolean {
    return (this.status >= 500 || this.status === 429) && this.data.quota !== true;
  }
}

export interface ClientOptions {
  /** Base URL of one's own gateway. */
  url: string;
  /** `ghn_…` */
  token: string;
  /** With keys, everything is signed. Register them once: {@link Client.registerKeys}. */
  keys?: NodeKeys;
  fetch?: typeof fetch;
}

export type Answer = string | Body | { body: Body; error?: boolean } | undefined;

export interface Incoming {
  envelope: DeliveredEnvelope;
  /** Tells the asker how far it is; the request stays open. */
  progress(text: string, data?: unknown): Promise<void>;
}

/** A REDSYN client over HTTP: it only calls out, so that an agent behind NAT works like any server. */
export class Client {
  readonly #base: string;
  readonly #token: string;
  readonly #keys: NodeKeys | undefined;
  readonly #fetch: typeof fetch;

  constructor({ url, token, keys, fetch: fetchWith = fetch }: ClientOptions) {
    this.#base = `${url.replace(/\/$/, '')}/redsyn/v1`;
    this.#token = token;
    this.#keys = keys;
    this.#fetch = fetchWith;
  }

  /** Any call of the API; the answer's JSON. Throws {@link GatehouseError}. */
  async call<T = Record<string, unknown>>(
    method: string,
    path: string,
    body?: unknown,
    signal?: AbortSignal,
  ): Promise<T> {
    const response = await this.#fetch(this.#base + path, {
      method,
      headers: {
        authorization: `Bearer ${this.#token}`,
        'redsyn-version': '2026-09-25',
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(signal && { signal }),
    });
    const text = await response.text();
    const data = readObject(text);
    if (!response.ok) throw new GatehouseError(response.status, data);
    return data as T;
  }

  me(): Promise<Record<string, unknown>> {
    return this.call('GET', '/me');
  }

  /** Registers this node's public keys with the gateway. Replacing one that is there takes `rotate`. */
  async registerKeys(rotate = false): Promise<void> {
    if (!this.#keys) throw new TypeError('this client was made without keys');
    await this.call('PUT', '/nodes/key', { ...this.#keys.registration(), ...(rotate && { rotate }) });
  }

  /** Announces one of your agents as listening (REDSYN "Agentes y presencia"). */
  announce(address: string, about: Record<string, unknown> = {}): Promise<Record<string, unknown>> {
    return this.call('PUT', `/agents/${path(address)}`, { listening: true, ...about });
  }

  send(message: Outgoing): Promise<Sent> {
    const { text, body, ...rest } = message;
    return this.#post({ ...rest, kind: 'request', body: body ?? { type: 'text/plain', text: text ?? '' } });
  }

  /** Takes what waits for an agent. `wait`: seconds to hold the call; `lease`: seconds until what is not acked goes back. */
  async take(
    address: string,
    options: { wait?: number; lease?: number; max?: number; replyTo?: string; signal?: AbortSignal } = {},
  ): Promise<DeliveredEnvelope[]> {
    const query = new URLSearchParams();
    if (options.wait !== undefined) query.set('wait', String(options.wait));
    if (options.lease !== undefined) query.set('lease', String(options.lease));
    if (options.max !== undefined) query.set('max', String(options.max));
    if (options.replyTo !== undefined) query.set('reply_to', options.replyTo);
    const { items } = await this.call<{ items: DeliveredEnvelope[] }>(
      'GET',
      `/inbox/${path(address)}?${query}`,
      undefined,
      options.signal,
    );
    return items;
  }

  async ack(address: string, ids: readonly string[]): Promise<void> {
    if (ids.length > 0) await this.call('POST', `/inbox/${path(address)}/ack`, { ids });
  }

  /** Ends a request with an answer. The id is derived from the request's, so that a repeat is the same answer. */
  reply(request: DeliveredEnvelope, answer: Answer): Promise<Sent> {
    const { body, error } = readAnswer(answer);
    return this.#post({
      id: `re-${request.id}`.slice(0, 200),
      kind: 'reply',
      from: withoutSession(request.to),
      reply_to: request.id,
      thread: request.thread,
      body,
      ...(error && { error }),
    });
  }

  async progress(request: DeliveredEnvelope, text: string, data?: unknown): Promise<void> {
    await this.#post({
      kind: 'progress',
      from: withoutSession(request.to),
      reply_to: request.id,
      thread: request.thread,
      body: { type: 'text/plain', text, ...(data !== undefined && { data }) },
    });
  }

  /** Sends and waits for the reply; progress goes to `onProgress`. Throws after `timeout` seconds (default 300). */
  async sendAndWait(
    message: Outgoing,
    options: { timeout?: number; onProgress?: (envelope: DeliveredEnvelope) => void } = {},
  ): Promise<DeliveredEnvelope> {
    const until = Date.now() + (options.timeout ?? 300) * 1000;
    const sent = await this.send({ ...message, id: message.id ?? newMessageId() });
    for (;;) {
      const left = Math.ceil((until - Date.now()) / 1000);
      if (left <= 0) throw new Error(`no answer to ${sent.id} within the time`);
      const items = await this.take(withoutSession(message.from), { wait: Math.min(left, 25), replyTo: sent.id });
      for (const item of items) if (item.kind === 'progress') options.onProgress?.(item);
      await this.ack(
        withoutSession(message.from),
        items.map((item) => item.id),
      );
      const reply = items.find((item) => item.kind === 'reply');
      if (reply) return reply;
    }
  }

  /**
   * Takes requests and answers them with what the handler gives, until `signal` aborts. A handler that throws answers with an error
   * reply; one that gives nothing acks without an answer. A gateway that is away is tried again.
   */
  async listen(
    address: string,
    handler: (incoming: Incoming) => Promise<Answer> | Answer,
    options: { signal?: AbortSignal; lease?: number; onFault?: (fault: unknown) => void } = {},
  ): Promise<void> {
    const { signal } = options;
    let pause = 1_000;
    while (!signal?.aborted) {
      try {
        const items = await this.take(address, { wait: 25, lease: options.lease ?? 300, ...(signal && { signal }) });
        for (const envelope of items) await this.#handle(address, envelope, handler);
        pause = 1_000;
      } catch (fault) {
        if (signal?.aborted) return;
        options.onFault?.(fault);
        if (fault instanceof GatehouseError && !fault.retryable) throw fault;
        await new Promise((resolve) => setTimeout(resolve, pause));
        pause = Math.min(pause * 2, 30_000);
      }
    }
  }

  async #handle(
    address: string,
    envelope: DeliveredEnvelope,
    handler: (incoming: Incoming) => Promise<Answer> | Answer,
  ): Promise<void> {
    if (envelope.kind === 'request') {
      let answer: Answer;
      try {
        answer = await handler({ envelope, progress: (text, data) => this.progress(envelope, text, data) });
      } catch (fault) {
        const words = fault instanceof Error ? fault.message : String(fault);
        answer = { body: { type: 'text/plain', text: words }, error: true };
      }
      if (answer !== undefined) {
        await this.reply(envelope, answer).catch((fault: unknown) => {
          // Closed meanwhile (cancelled, expired, answered before a restart): what is left is the ack.
          if (!(fault instanceof GatehouseError && fault.status === 409)) throw fault;
        });
      }
    } else {
      await handler({ envelope, progress: () => Promise.resolve() });
    }
    await this.ack(address, [envelope.id]);
  }

  #post(envelope: Record<string, unknown>): Promise<Sent> {
    const full = { v: 1, id: newMessageId(), ...envelope };
    return this.call('POST', '/messages', this.#keys ? signedEnvelope(full, this.#keys) : full);
  }
}

function readAnswer(answer: Answer): { body: Body; error: boolean } {
  if (typeof answer === 'string' || answer === undefined) {
    return { body: { type: 'text/plain', text: answer ?? '' }, error: false };
  }
  if ('body' in answer && typeof answer.body === 'object') {
    const { body, error } = answer as { body: Body; error?: boolean };
    return { body, error: error ?? false };
  }
  return { body: answer as Body, error: false };
}

function readObject(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

function path(address: string): string {
  return withoutSession(address).split('/').map(encodeURIComponent).join('/');
}

function withoutSession(address: string): string {
  return address.replace(/#.*$/, '');
}
