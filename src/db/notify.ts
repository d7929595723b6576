import { randomBytes } from 'node:crypto';
import pg from 'pg';
import type { Clock } from '../lib/clock.ts';
import { type ConnectionOptions, clientConfig, type Log } from './connection.ts';
import type { Notifier } from './types.ts';

/** The one channel. */
export const channel = 'gatehouse';

/** PostgreSQL takes less than 8,000 bytes of payload. */
const maxPayload = 7_500;
/** How often the listener proves that it still hears, and how long it waits for its own voice. */
const beatEvery = 30_000;
const beatWithin = 2_000;
/** Without a listener that hears, every waiter looks again this often. */
const pollEvery = 1_000;
const longestPause = 10_000;

export interface NotifierOptions extends ConnectionOptions {
  clock: Clock;
  log: Log;
  /** Sends one payload over the channel on a connection other than the listener's. */
  send: (payload: string) => Promise<unknown>;
  plain?: boolean;
}

/**
 * Wakes local waiters, and those of other replicas through NOTIFY.
 *
 * - **listening**: one connection of its own (a pooled one idles out). When it breaks it is made anew after a jittered pause, and then
 *   every waiter is woken once, since what was said meanwhile is lost.
 * - **deaf**: the listener never hears its own beat, as behind a pgbouncer in transaction mode. Waiters are woken every second.
 */
export class PgNotifier implements Notifier {
  readonly origin = randomBytes(9).toString('base64url');
  #options: NotifierOptions;
  #topics = new Map<string, Set<{ fn: () => void }>>();
  #client: pg.Client | undefined;
  #failures = 0;
  #heard = false;
  #everHeard = false;
  #deaf = false;
  #closed = false;
  #timers = new Set<() => void>();

  constructor(options: NotifierOptions) {
    this.#options = options;
  }

  /** Resolves when the first attempt to listen has succeeded or failed; a failed one is repeated until `close`. */
  start(): Promise<void> {
    return this.#listen();
  }

  subscribe(topic: string, fn: () => void): () => void {
    const entry = { fn };
    const entries = this.#topics.get(topic) ?? new Set();
    this.#topics.set(topic, entries.add(entry));
    return () => {
      entries.delete(entry);
      if (entries.size === 0 && this.#topics.get(topic) === entries) this.#topics.delete(topic);
    };
  }

  async publish(topics: readonly string[]): Promise<void> {
    this.wake(topics);
    try {
      for (const payload of this.payloads(topics)) await this.#options.send(payload);
    } catch (error) {
      this.#options.log.warn(
        { err: error },
        'other replicas were not told of a change; they will look again by themselves',
      );
    }
  }

  /** Calls the waiters of this process. One that throws does not keep the others asleep. */
  wake(topics: Iterable<string>): void {
    for (const topic of topics) {
      for (const { fn } of [...(this.#topics.get(topic) ?? [])]) {
        try {
          fn();
        } catch (error) {
          this.#options.log.error({ err: error, topic }, 'a waiter failed when it was woken');
        }
      }
    }
  }

  /** The topics as payloads of NOTIFY: each once, as few payloads as the size allows. */
  payloads(topics: Iterable<string>): string[] {
    const head = `{"o":${JSON.stringify(this.origin)},"t":[`;
    const all: string[] = [];
    let now = '';
    for (const topic of new Set(topics)) {
      const item = JSON.stringify(topic);
      if (now !== '' && Buffer.byteLength(head) + Buffer.byteLength(now) + Buffer.byteLength(item) + 3 > maxPayload) {
        all.push(`${head}${now}]}`);
        now = '';
      }
      now += now === '' ? item : `,${item}`;
    }
    if (now !== '') all.push(`${head}${now}]}`);
    return all;
  }

  /** Topics that somebody waits for, and whether the listener is connected. */
  stats(): { topics: number; listening: boolean } {
    return { topics: this.#topics.size, listening: this.#client !== undefined };
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const cancel of this.#timers) cancel();
    this.#timers.clear();
    const client = this.#client;
    this.#client = undefined;
    await client?.end().catch(() => undefined);
  }

  async #listen(): Promise<void> {
    if (this.#closed) return;
    const { log, plain } = this.#options;
    const client = new pg.Client(clientConfig({ ...this.#options, applicationName: 'gatehouse listener' }, plain));
    const lost = (error?: Error): void => this.#lost(client, error);
    this.#client = client;
    client.on('notification', (notice) => this.#received(notice.payload ?? ''));
    client.on('error', lost);
    client.on('end', lost);
    try {
      await client.connect();
      await client.query(`listen ${channel}`);
    } catch (error) {
      lost(error as Error);
      return;
    }
    if (this.#client !== client) return;
    if (this.#failures > 0) log.info({ attempts: this.#failures }, 'listening to the database again');
    this.#failures = 0;
    this.#wakeAll();
    void this.#beat(client);
  }

  #lost(client: pg.Client, error?: Error): void {
    if (this.#client !== client) return;
    this.#client = undefined;
    void client.end().catch(() => undefined);
    const pause = Math.min(longestPause, 100 * 2 ** this.#failures) * (0.5 + Math.random() / 2);
    this.#failures += 1;
    this.#options.log.warn(
      { err: error, pause: Math.round(pause) },
      'the connection that listens to the database was lost',
    );
    this.#after(pause, () => void this.#listen());
  }

  /** A payload is a hint from whoever may write to the channel: anything but our own form is passed over. */
  #received(payload: string): void {
    let topics: unknown[];
    try {
      const said = JSON.parse(payload) as { o?: unknown; t?: unknown } | null;
      if (said?.o === this.origin) {
        this.#heard = true;
        return;
      }
      if (!Array.isArray(said?.t)) return;
      topics = said.t;
    } catch {
      this.#options.log.warn({ bytes: payload.length }, 'a notification that is not ours was passed over');
      return;
    }
    this.wake(topics.filter((topic) => typeof topic === 'string'));
  }

  /** Speaks on another connection and listens for it here: a dead connection and a pooler that swallows notices both stay silent. */
  async #beat(client: pg.Client): Promise<void> {
    if (this.#client !== client) return;
    this.#heard = false;
    try {
      await this.#options.send(JSON.stringify({ o: this.origin, t: [] }));
    } catch {
      this.#after(beatEvery, () => void this.#beat(client));
      return;
    }
    this.#after(beatWithin, () => {
      if (this.#client !== client) return;
      if (this.#heard) {
        this.#everHeard = true;
        this.#deaf = false;
      } else if (this.#everHeard) {
        this.#lost(client, new Error('the listener no longer hears'));
        return;
      } else if (!this.#deaf) {
        this.#deaf = true;
        this.#options.log.warn(
          {},
          'notifications do not come through (a pooler in transaction mode?); waiters look again every second. Point DATABASE_URL at the server itself',
        );
        this.#poll();
      }
      this.#after(beatEvery, () => void this.#beat(client));
    });
  }

  #poll(): void {
    this.#after(pollEvery, () => {
      if (!this.#deaf) return;
      this.#wakeAll();
      this.#poll();
    });
  }

  #wakeAll(): void {
    this.wake([...this.#topics.keys()]);
  }

  #after(ms: number, fn: () => void): void {
    if (this.#closed) return;
    const cancel = this.#options.clock.after(ms, () => {
      this.#timers.delete(cancel);
      fn();
    });
    this.#timers.add(cancel);
  }
}
