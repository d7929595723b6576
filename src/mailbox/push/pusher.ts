import type { Db, Notifier } from '../../db/types.ts';
import { backoff } from '../../lib/backoff.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Log } from '../../lib/log.ts';
import type { Delivered } from '../store.ts';
import {
  type Claimed,
  claimPushes,
  endPush,
  listWebhooks,
  noteFailure,
  notePresence,
  releasePush,
  retryPush,
} from './store.ts';

export interface PushTarget {
  url: string;
  /** The HMAC key, as text. */
  secret: string;
  /** The REDSYN date in which the agent's org is spoken to. */
  version: string;
}

export type Pushed =
  | { outcome: 'taken' }
  /** `reason`: for the agent's owner. */
  | { outcome: 'failed'; reason: string; retryAfterMs?: number | undefined };

export interface PusherOptions {
  db: Db;
  notifier: Notifier;
  clock: Clock;
  log: Log;
  /** Opens the secret of an agent's webhook. */
  open(agentId: string, sealed: Uint8Array): string;
  /** One try: a wire's client. What it throws counts as a failure. `signal` aborts when the gateway stops. */
  push(delivery: Delivered, target: PushTarget, signal: AbortSignal): Promise<Pushed>;
  /** Ends what is over, so that its sender need not wait for the next sweep. */
  sweep(): Promise<unknown>;
  random?: () => number;
  /** Tries under way to one host, and in all, in this process. */
  perHost?: number;
  maxInFlight?: number;
}

/** REDSYN "Webhooks": 10 s, 20 s, 40 s … up to an hour. */
const schedule = { baseMs: 10_000, capMs: 3_600_000 };
const tries = 10;
/** A lease outlives the try: the client gives up after 15 s. */
const leaseMs = 40_000;
const longestSleep = 30_000;
const shortestSleep = 20;
const faultSleep = 1_000;
const stopWithin = 3_000;

interface Box {
  host: string;
  unsubscribe(): void;
  cancelLook(): void;
  running: boolean;
  stale: boolean;
  /** It has more than its host takes now. */
  full: boolean;
}

/** Pushes what waits for agents with a webhook; migrations/fn_push.sql says how a push is kept. Woken like a long poll; asks nothing while it is idle. */
export class Pusher {
  readonly #options: PusherOptions;
  readonly #boxes = new Map<string, Box>();
  readonly #hosts = new Map<string, number>();
  readonly #inFlight = new Set<Promise<void>>();
  readonly #stopping = new AbortController();
  readonly #cut = new AbortController();
  #unsubscribe = (): void => {};
  #reloading: Promise<void> = Promise.resolve();
  #cancelReload = (): void => {};
  #running = new Set<Promise<void>>();

  constructor(options: PusherOptions) {
    this.#options = options;
  }

  start(): void {
    this.#unsubscribe = this.#options.notifier.subscribe('webhooks', () => this.#reload());
    this.#reload();
  }

  /** Claims nothing more. What is under way has 3 s to end; what is cut off then is pushed again by whoever comes next. */
  async stop(): Promise<void> {
    if (this.#stopping.signal.aborted) return;
    this.#stopping.abort();
    this.#unsubscribe();
    this.#cancelReload();
    for (const box of this.#boxes.values()) this.#close(box);
    await this.#reloading;
    await Promise.all(this.#running);
    const cancel = this.#options.clock.after(stopWithin, () => this.#cut.abort());
    await Promise.all(this.#inFlight);
    cancel();
  }

  stats(): { agents: number; inFlight: number } {
    return { agents: this.#boxes.size, inFlight: this.#inFlight.size };
  }

  /** Reads which agents have a webhook: at the start, when that changed somewhere, and when the listener had lost its connection. */
  #reload(): void {
    this.#reloading = this.#reloading.then(async () => {
      if (this.#stopping.signal.aborted) return;
      this.#cancelReload();
      try {
        const known = new Map((await listWebhooks(this.#options.db)).map(({ agentId, host }) => [agentId, host]));
        for (const [agentId, box] of this.#boxes) {
          if (known.get(agentId) === box.host) continue;
          this.#boxes.delete(agentId);
          this.#close(box);
        }
        for (const [agentId, host] of known) if (!this.#boxes.has(agentId)) this.#open(agentId, host);
        for (const agentId of this.#boxes.keys()) this.#look(agentId);
      } catch (error) {
        this.#options.log.warn({ err: error }, 'the webhooks could not be read; they are read again');
        this.#cancelReload = this.#options.clock.after(faultSleep, () => this.#reload());
      }
    });
  }

  #open(agentId: string, host: string): void {
    const { notifier } = this.#options;
    this.#boxes.set(agentId, {
      host,
      unsubscribe: notifier.subscribe(`inbox:${agentId}`, () => this.#look(agentId)),
      cancelLook: () => {},
      running: false,
      stale: false,
      full: false,
    });
  }

  #close(box: Box): void {
    box.unsubscribe();
    box.cancelLook();
  }

  #look(agentId: string): void {
    const box = this.#boxes.get(agentId);
    if (!box || this.#stopping.signal.aborted) return;
    box.stale = true;
    if (box.running) return;
    box.running = true;
    const run: Promise<void> = this.#run(agentId, box).finally(() => {
      box.running = false;
      this.#running.delete(run);
      if (box.stale) this.#look(agentId);
    });
    this.#running.add(run);
  }

  async #run(agentId: string, box: Box): Promise<void> {
    const { db, clock, log, perHost = 8, maxInFlight = 64 } = this.#options;
    while (box.stale && !this.#stopping.signal.aborted) {
      box.stale = false;
      const room = Math.min(perHost - (this.#hosts.get(box.host) ?? 0), maxInFlight - this.#inFlight.size);
      box.full = room <= 0;
      if (box.full) return;
      // Taken before the question, so that two agents of one host do not both get the last place.
      this.#hold(box.host, room);
      let got = 0;
      try {
        const now = clock.now();
        const { items, wakeAt } = await claimPushes(db, { agentId, max: room, now, until: now + leaseMs });
        got = items.length;
        for (const item of items) this.#send(agentId, box.host, item);
        box.full = got === room;
        this.#lookIn(agentId, box, wakeAt === null ? longestSleep : wakeAt - clock.now());
      } catch (error) {
        log.warn({ err: error, agent: agentId }, 'what a webhook should get could not be read; it is read again');
        this.#lookIn(agentId, box, faultSleep);
      } finally {
        this.#hold(box.host, got - room);
      }
      if (box.full) return;
    }
  }

  #lookIn(agentId: string, box: Box, ms: number): void {
    box.cancelLook();
    if (this.#boxes.get(agentId) !== box || this.#stopping.signal.aborted) return;
    const wait = Math.min(Math.max(ms, shortestSleep), longestSleep);
    box.cancelLook = this.#options.clock.after(wait, () => this.#look(agentId));
  }

  #hold(host: string, by: number): void {
    const held = (this.#hosts.get(host) ?? 0) + by;
    if (held > 0) this.#hosts.set(host, held);
    else this.#hosts.delete(host);
  }

  #send(agentId: string, host: string, item: Claimed): void {
    const sending: Promise<void> = this.#one(agentId, item).finally(() => {
      this.#inFlight.delete(sending);
      this.#hold(host, -1);
      this.#look(agentId);
      for (const [other, box] of this.#boxes) if (box.full && other !== agentId) this.#look(other);
    });
    this.#inFlight.add(sending);
  }

  async #one(agentId: string, item: Claimed): Promise<void> {
    const { db, clock, log, random = Math.random } = this.#options;
    const result = await this.#try(agentId, item);
    const now = clock.now();
    try {
      if (result.outcome === 'taken') {
        await endPush(db, item);
        await notePresence(db, agentId, now);
        return;
      }
      if (this.#cut.signal.aborted) {
        // Nobody knows what became of it, and it is nobody's fault.
        await releasePush(db, item);
        await this.#options.notifier.publish([`inbox:${agentId}`]);
        return;
      }
      const pause = Math.max(
        backoff(item.attempts, schedule, random),
        Math.min(result.retryAfterMs ?? 0, schedule.capMs),
      );
      await retryPush(db, item, { retryAt: now + pause, now });
      await noteFailure(db, agentId, result.reason, now);
      if (item.attempts >= tries) await this.#options.sweep();
    } catch (error) {
      log.error(
        { err: error, delivery: item.deliveryId, outcome: result.outcome },
        'the outcome of a push could not be recorded; it is pushed again when its lease ends',
      );
    }
  }

  async #try(agentId: string, item: Claimed): Promise<Pushed> {
    const { log } = this.#options;
    try {
      const { url, version } = item;
      const secret = this.#options.open(agentId, item.secret);
      return await this.#options.push(item, { url, secret, version }, this.#cut.signal);
    } catch (error) {
      log.error({ err: error, agent: agentId, delivery: item.deliveryId }, 'a push failed; it is tried again');
      return { outcome: 'failed', reason: 'a fault of the gateway' };
    }
  }
}
