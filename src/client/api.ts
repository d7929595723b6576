import { type Clock, foregroundClock } from '../lib/clock.ts';
import { pathOf } from './addresses.ts';
import { type CallOptions, Http, type Retries } from './http.ts';
import type { NodeKeys } from './keys.ts';
import type { Announcement, DeliveredEnvelope } from './types.ts';

export interface ApiOptions {
  /** Base URL of one's own gateway. */
  url: string;
  /** `ghn_…` */
  token: string;
  /** With keys, everything is signed, and sealed for agents that have a key. Register them once: {@link Api.registerKeys}. */
  keys?: NodeKeys;
  /** The agent that acts when a call does not name one. */
  agent?: string;
  fetch?: typeof fetch;
  clock?: Clock;
  /** How often and how fast a call that may be repeated is. Default: 6 tries, 0.5 s doubled up to 30 s. */
  retries?: Partial<Retries>;
}

export interface TakeOptions {
  /** Seconds to hold the call until something comes, at most 25. */
  wait?: number;
  /** Seconds until what was not acked goes back. */
  lease?: number;
  max?: number;
  /** Only the answers to this request. */
  replyTo?: string;
  signal?: AbortSignal;
}

export interface Topic {
  /** `topic:org/team/name` */
  topic: string;
  /** The agents that listen. */
  agents: string[];
  /** Other orgs that listen. */
  orgs?: string[];
  [more: string]: unknown;
}

const defaultRetries: Retries = { tries: 6, baseMs: 500, capMs: 30_000 };

/** The calls of REDSYN's HTTP API, one method each, with its retry rule. What is sent and received stands in `Client`. */
export class Api {
  readonly keys: NodeKeys | undefined;
  readonly agent: string | undefined;
  protected readonly http: Http;
  protected readonly clock: Clock;

  constructor(options: ApiOptions) {
    const { url, token, keys, agent, clock = foregroundClock, retries } = options;
    this.keys = keys;
    this.agent = agent;
    this.clock = clock;
    const fetchWith = options.fetch ?? fetch;
    this.http = new Http({ url, token, clock, fetch: fetchWith, retries: { ...defaultRetries, ...retries } });
  }

  /** Any call of the API, `path` below `/redsyn/v1`; the answer's JSON. Throws {@link GatehouseError} and {@link NoAnswerError}. */
  call<T = Record<string, unknown>>(method: string, path: string, body?: unknown, options?: CallOptions): Promise<T> {
    return this.http.call<T>(method, path, body, options);
  }

  me(): Promise<Record<string, unknown>> {
    return this.read('/me');
  }

  /** Registers this node's public keys with the gateway. Replacing others that are there takes `rotate`. */
  async registerKeys(rotate = false): Promise<void> {
    const body = { ...this.ownKeys().registration(), ...(rotate && { rotate }) };
    await this.call('PUT', '/nodes/key', body, { retry: true });
  }

  /** Announces one of your agents as listening (REDSYN "Agentes y presencia"). The first time makes it. */
  announce(address: string, about: Announcement = {}): Promise<Record<string, unknown>> {
    return this.call('PUT', `/agents/${pathOf(address)}`, { listening: true, ...about }, { retry: true });
  }

  /** Takes what waits for an agent, as it arrived: see {@link receive}. */
  async take(address: string, { signal, replyTo, ...options }: TakeOptions = {}): Promise<DeliveredEnvelope[]> {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(options)) if (value !== undefined) query.set(name, String(value));
    if (replyTo !== undefined) query.set('reply_to', replyTo);
    const { items } = await this.call<{ items: DeliveredEnvelope[] }>(
      'GET',
      `/inbox/${pathOf(address)}?${query}`,
      undefined,
      { signal, timeoutMs: ((options.wait ?? 0) + 20) * 1000 },
    );
    return items;
  }

  /** Confirms what was taken. */
  async ack(address: string, ids: readonly string[]): Promise<void> {
    if (ids.length > 0) await this.call('POST', `/inbox/${pathOf(address)}/ack`, { ids }, { retry: true });
  }

  /** Withdraws a request that nobody took. `pending`: another gateway that has it could not be asked yet. */
  cancel(id: string): Promise<{ id: string; canceled?: boolean; pending?: unknown }> {
    return this.call('POST', `/messages/${encodeURIComponent(id)}/cancel`, {}, { retry: true });
  }

  /** A conversation, as far as you may see it; sealed messages as they are. */
  async thread(id: string): Promise<DeliveredEnvelope[]> {
    const { messages } = await this.read<{ messages: DeliveredEnvelope[] }>(`/threads/${encodeURIComponent(id)}`);
    return messages;
  }

  /** Lets one of your agents (default: the client's) get the events of a topic. `pending`: its gateway could not be asked yet. */
  subscribe(topic: string, agent = this.ownAgent()): Promise<{ agent: string; topic: string; pending?: unknown }> {
    return this.call('PUT', '/subscriptions', { agent, topic }, { retry: true });
  }

  async unsubscribe(topic: string, agent = this.ownAgent()): Promise<void> {
    await this.call('POST', '/subscriptions/remove', { agent, topic }, { retry: true });
  }

  /** The topics of your orgs, and who listens to them. */
  async topics(): Promise<Topic[]> {
    const all: Topic[] = [];
    for (let after: string | undefined = ''; after !== undefined; ) {
      const query: string = after === '' ? '' : `?${new URLSearchParams({ after })}`;
      const page: { topics: Topic[]; next?: string } = await this.read(`/topics${query}`);
      all.push(...page.topics);
      after = page.next;
    }
    return all;
  }

  /** Has an agent's messages pushed to a URL. Answers the secret for {@link verifyWebhook}, which is told only this once. */
  async setWebhook(address: string, url: string): Promise<string> {
    const { secret } = await this.call<{ secret: string }>('PUT', `/agents/${pathOf(address)}/webhook`, { url });
    return secret;
  }

  /** Back to the inbox. */
  async removeWebhook(address: string): Promise<void> {
    await this.call('DELETE', `/agents/${pathOf(address)}/webhook`, undefined, { retry: true });
  }

  session<T = Record<string, unknown>>(address: string, session: string): Promise<T> {
    return this.read(sessionPath(address, session));
  }

  async renameSession(address: string, session: string, title: string): Promise<void> {
    await this.call('PUT', sessionPath(address, session), { title }, { retry: true });
  }

  async closeSession(address: string, session: string): Promise<void> {
    await this.call('POST', `${sessionPath(address, session)}/close`, {}, { retry: true });
  }

  /** The agents that you reach. */
  async directory<T = Record<string, unknown>>(options: { online?: boolean; sessions?: boolean } = {}): Promise<T[]> {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(options)) if (value) query.set(name, '1');
    return (await this.read<{ agents: T[] }>(`/directory?${query}`)).agents;
  }

  protected read<T>(path: string): Promise<T> {
    return this.call<T>('GET', path, undefined, { retry: true });
  }

  protected ownAgent(): string {
    if (this.agent === undefined) throw new TypeError('say which agent: `from`, or `agent` when making the client');
    return this.agent;
  }

  protected ownKeys(): NodeKeys {
    if (!this.keys) throw new TypeError('this client was made without keys');
    return this.keys;
  }
}

function sessionPath(address: string, session: string): string {
  return `/agents/${pathOf(address)}/sessions/${encodeURIComponent(session)}`;
}
