import type { Db, Notifier, Tx } from '../db/types.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { itemDelay, longestPauseMs, trip } from './circuit.ts';
import { Leases, leaseMs } from './leases.ts';
import {
  type Claimed,
  claim,
  closeCircuit,
  lockExpired,
  mendTimes,
  nextTime,
  removeItem,
  returnItem,
  stopCircuit,
  unknownKinds,
} from './store.ts';
import type { Sender, SendResult } from './types.ts';

export interface WorkerOptions {
  db: Db;
  notifier: Notifier;
  clock: Clock;
  log: Log;
  random: () => number;
  /** Items under way in this process, and to one destination over all replicas. */
  maxInFlight: number;
  perDestination: number;
  /** A try that takes longer counts as a destination that is down. */
  sendTimeoutMs: number;
  /** Called when a try has come to an end and its end is recorded. */
  onOutcome: (id: number, result: SendResult) => void;
  /** Called when a circuit opened here. */
  onDown: (destination: string) => void;
}

/** Without any wake the worker looks this often. */
const safetyNet = 60_000;
const shortestPause = 50;
const faultPause = 1_000;

/**
 * Claims, sends, records. Wakes by the notifier's topic `outbox` and by the next time at which something falls due; asks nothing while
 * it is idle. A try whose end could not be recorded is made again when its lease ends: the other side knows a message by its id.
 */
export class Worker {
  readonly #options: WorkerOptions;
  readonly #senders = new Map<string, Sender>();
  readonly #inFlight = new Set<Promise<void>>();
  readonly #leases: Leases;
  readonly #stopping = new AbortController();
  /** What to look at: everything, the destinations of these rows, these destinations. */
  #all = false;
  #ids = new Set<number>();
  #destinations = new Set<string>();
  #running: Promise<void> | undefined;
  #expiring: Promise<void> | undefined;
  #unsubscribe = (): void => {};
  #cancelTimer = (): void => {};
  /** The database failed: nothing is asked of it until the timer. */
  #paused = false;
  #mendedAt = Number.NEGATIVE_INFINITY;
  #unknown = new Set<string>();

  constructor(options: WorkerOptions) {
    this.#options = options;
    this.#leases = new Leases(options);
  }

  start(senders: readonly Sender[]): void {
    if (this.#senders.size > 0 || this.#stopping.signal.aborted) return;
    for (const sender of senders) this.#senders.set(sender.kind, sender);
    this.#unsubscribe = this.#options.notifier.subscribe('outbox', () => this.#lookAtAll());
    this.#lookAtAll();
    this.#expire();
  }

  /** Looks at the destinations of these rows at once, however much else there is to look at. */
  sendNow(ids: readonly number[]): void {
    for (const id of ids) this.#ids.add(id);
    this.#wake();
  }

  /** Claims nothing more; resolves when what is under way has ended and is recorded. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#unsubscribe();
    this.#cancelTimer();
    await this.#running;
    await this.#expiring;
    await Promise.all(this.#inFlight);
    // What was ours to send next is somebody else's now.
    if (this.#senders.size > 0) await this.#options.notifier.publish(['outbox']);
  }

  stats(): { inFlight: number; busy: boolean } {
    return { inFlight: this.#inFlight.size, busy: this.#running !== undefined || this.#expiring !== undefined };
  }

  #lookAtAll(): void {
    this.#all = true;
    this.#wake();
  }

  #wake(): void {
    if (this.#running || this.#senders.size === 0 || !this.#hasWork()) return;
    this.#running = this.#run().finally(() => {
      this.#running = undefined;
      this.#wake();
    });
  }

  #hasWork(): boolean {
    if (this.#paused || this.#stopping.signal.aborted || this.#inFlight.size >= this.#options.maxInFlight) return false;
    return this.#all || this.#ids.size > 0 || this.#destinations.size > 0;
  }

  async #run(): Promise<void> {
    try {
      await this.#mend();
      while (this.#hasWork()) await this.#claim();
      if (!this.#stopping.signal.aborted) await this.#rest();
    } catch (error) {
      this.#options.log.warn({ err: error }, 'the outbox could not be read; it is read again');
      this.#paused = true;
      this.#sleep(faultPause);
    }
  }

  async #claim(): Promise<void> {
    const { db, clock, maxInFlight, perDestination } = this.#options;
    // Rows that were asked for go first: a look at everything takes longer.
    const some = this.#ids.size > 0 || this.#destinations.size > 0;
    const ids = some ? [...this.#ids] : null;
    const destinations = some ? [...this.#destinations] : null;
    if (some) {
      this.#ids.clear();
      this.#destinations.clear();
    } else {
      this.#all = false;
    }
    const now = clock.now();
    const most = maxInFlight - this.#inFlight.size;
    let rows: Claimed[];
    try {
      rows = await claim(db, {
        now,
        leaseUntil: now + leaseMs,
        kinds: [...this.#senders.keys()],
        most,
        perDestination,
        ids,
        destinations,
      });
    } catch (error) {
      this.#all = true;
      throw error;
    }
    // What did not fit is looked for when there is room again.
    if (rows.length === most) this.#all = true;
    for (const row of rows) {
      if (!this.#leases.hold(row)) continue;
      const sending: Promise<void> = this.#send(row).finally(() => {
        this.#inFlight.delete(sending);
        this.#destinations.add(row.destination);
        this.#wake();
      });
      this.#inFlight.add(sending);
    }
  }

  async #send(item: Claimed): Promise<void> {
    const { clock, log, onOutcome } = this.#options;
    const sender = this.#senders.get(item.kind) as Sender;
    const startedAt = clock.now();
    const result = await this.#try(sender, item);
    await this.#leases.settle(item);
    try {
      // When the clock jumped over the lease, this process may have claimed the item anew meanwhile: then the first record was of a lease that is gone.
      let lease: number;
      do {
        lease = item.leaseUntil;
        await this.#record(sender, item, startedAt, result);
      } while (result.outcome === 'retry' && item.leaseUntil !== lease);
      onOutcome(item.id, result);
    } catch (error) {
      log.error(
        { err: error, item: item.id, kind: item.kind, outcome: result.outcome },
        'the outcome of a try could not be recorded; the item is sent again when its lease ends',
      );
    } finally {
      this.#leases.drop(item);
    }
  }

  async #try(sender: Sender, item: Claimed): Promise<SendResult> {
    const { clock, log, sendTimeoutMs } = this.#options;
    const tooLong = new AbortController();
    let cancel = (): void => {};
    const late = new Promise<SendResult>((resolve) => {
      cancel = clock.after(sendTimeoutMs, () => {
        tooLong.abort();
        resolve({ outcome: 'retry', reason: 'no answer in time', destinationDown: true });
      });
    });
    try {
      return await Promise.race([sender.send(item, tooLong.signal), late]);
    } catch (error) {
      log.error({ err: error, item: item.id, kind: item.kind }, 'a sender failed; the item is tried again');
      return { outcome: 'retry', reason: 'a fault of the sender', destinationDown: false };
    } finally {
      cancel();
    }
  }

  async #record(sender: Sender, item: Claimed, startedAt: number, result: SendResult): Promise<void> {
    const { db, log } = this.#options;
    if (result.outcome === 'delivered') {
      await db.tx(async (tx) => {
        await closeCircuit(tx, item.destination);
        if (await removeItem(tx, item.id)) await sender.onDelivered?.(tx, item, result);
      });
    } else if (result.outcome === 'refused') {
      const { code, words, status, data } = result;
      await db.tx(async (tx) => {
        if (result.stopDestination)
          await stopCircuit(tx, item.destination, `${status}: ${words}`, this.#options.clock.now());
        else await closeCircuit(tx, item.destination);
        if (await removeItem(tx, item.id)) {
          await sender.onGivenUp?.(tx, item, { code, words, status, ...(data && { data }) });
        }
      });
      if (result.stopDestination) {
        this.#options.onDown(item.destination);
        log.error(
          { destination: item.destination, status, words },
          'a destination refuses us: nothing more is sent there',
        );
      }
    } else {
      await db.tx((tx) => this.#putBack(tx, sender, item, startedAt, result));
      if (result.destinationDown) this.#options.onDown(item.destination);
      if (item.expiresAt <= this.#options.clock.now()) this.#expire();
    }
  }

  async #putBack(
    tx: Tx,
    sender: Sender,
    item: Claimed,
    startedAt: number,
    result: SendResult & { outcome: 'retry' },
  ): Promise<void> {
    const { clock, random, log } = this.#options;
    const now = clock.now();
    const { destination } = item;
    const asked = Math.min(result.retryAfterMs ?? 0, longestPauseMs);
    const own = sender.retryDelay?.(item.attempts);
    if (result.destinationDown) {
      const q = { destination, startedAt, now, error: result.reason, retryAfterMs: result.retryAfterMs };
      if (await trip(tx, q, random)) log.warn({ destination, reason: result.reason }, 'a destination is down');
      await returnItem(tx, item, own === undefined ? null : now + Math.max(own, asked), result.reason);
    } else {
      await closeCircuit(tx, destination);
      await returnItem(tx, item, now + Math.max(own ?? itemDelay(item.attempts, random), asked), result.reason);
    }
  }

  /** Sleeps until something falls due, at most a minute. */
  async #rest(): Promise<void> {
    const { db, clock } = this.#options;
    const now = clock.now();
    const next = await nextTime(db, now);
    this.#sleep(Math.min(next === null ? safetyNet : Math.max(next - now, shortestPause), safetyNet));
  }

  #sleep(ms: number): void {
    this.#cancelTimer();
    if (this.#stopping.signal.aborted) return;
    this.#cancelTimer = this.#options.clock.after(ms, () => {
      this.#paused = false;
      this.#lookAtAll();
      this.#expire();
    });
  }

  #expire(): void {
    if (this.#stopping.signal.aborted) return;
    this.#expiring ??= this.#giveUpExpired()
      .catch((error) =>
        this.#options.log.warn({ err: error }, 'items whose time ran out could not be given up; they are tried again'),
      )
      .finally(() => {
        this.#expiring = undefined;
      });
  }

  async #giveUpExpired(): Promise<void> {
    const { db, clock, log } = this.#options;
    const kinds = [...this.#senders.keys()];
    const except: number[] = [];
    while (!this.#stopping.signal.aborted) {
      let id: number | undefined;
      try {
        await db.tx(async (tx) => {
          const item = await lockExpired(tx, { now: clock.now(), kinds, except });
          id = item?.id;
          if (!item) return;
          await removeItem(tx, item.id);
          const words = 'It expired before it could be delivered.';
          await this.#senders.get(item.kind)?.onGivenUp?.(tx, item, { code: 'expired', words });
        });
      } catch (error) {
        if (id === undefined) throw error;
        except.push(id);
        log.error({ err: error, item: id }, 'an item whose time ran out could not be given up; it is tried again');
      }
      if (id === undefined) return;
    }
  }

  /** Once a minute: what no wake would ever tell. */
  async #mend(): Promise<void> {
    const { db, clock, log } = this.#options;
    const now = clock.now();
    if (now >= this.#mendedAt && now - this.#mendedAt < safetyNet) return;
    await mendTimes(db, now, 2 * longestPauseMs);
    for (const kind of await unknownKinds(db, [...this.#senders.keys()], now)) {
      if (this.#unknown.has(kind)) continue;
      this.#unknown.add(kind);
      log.error({ kind }, 'items of a kind that nobody here sends wait in the outbox; they are left alone');
    }
    this.#mendedAt = now;
  }
}
