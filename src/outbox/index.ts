import type { Db, Notifier, Tx } from '../db/types.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { clearCircuit, heard, insertItem, isDown, listCircuits, tryCircuits } from './store.ts';
import type { Circuit, NewOutboxItem, Sender, SendResult } from './types.ts';
import { Worker } from './worker.ts';

export type { Circuit, GivenUp, NewOutboxItem, OutboxItem, Sender, SendResult } from './types.ts';

/** All that leaves the gateway (design §5): durable, in order within a lane, idempotent by message id at the other end. */
export interface Outbox {
  /** Owes `item` to the outside once `tx` commits. Answers its id. */
  enqueue(tx: Tx, item: NewOutboxItem): Promise<number>;
  /** Sends these from this process at once, as far as their lanes and circuits allow. Call it right after the commit. */
  sendNow(ids: readonly number[]): void;
  /**
   * The outcome of the next try of an item that this process makes, once it is recorded; null when there is none within `timeoutMs`
   * (its destination is down, or another replica took it). May be called before the commit, and up to some seconds after the try.
   */
  firstTry(id: number, timeoutMs: number): Promise<SendResult | null>;
  /** Nothing is tried there now, so that nobody need wait for a first try. */
  isDown(destination: string): Promise<boolean>;
  /** The destination proved to be calling us: its circuit closes and what waits for it is due at once. Cheap; never rejects. */
  heardFrom(destination: string): Promise<void>;
  /** What waits for the destination is due at once, whenever it was heard last: it told us that the wait is over. */
  dueNow(destination: string): Promise<void>;
  /** Destinations that are down or stopped, those with an alert first. */
  circuits(): Promise<Circuit[]>;
  /** The operator's order to try again at once. False when the destination was not down. */
  clearCircuit(destination: string): Promise<boolean>;
  /**
   * Destinations that are down are tried at once, and their pauses begin anew: for a gateway that starts, since the fault may have been its
   * own, and two that wait for each other would wait for the longer of their pauses. Never rejects.
   */
  tryAll(): Promise<void>;
  /** A second start does nothing. */
  start(senders: readonly Sender[]): void;
  /** Claims nothing more; resolves when what is under way has ended. May be called twice. */
  stop(): Promise<void>;
  /** Items under way in this process, and whether it is looking for more. */
  stats(): { inFlight: number; busy: boolean };
}

export interface OutboxOptions {
  db: Db;
  notifier: Notifier;
  clock: Clock;
  log: Log;
  random?: () => number;
  /** Items under way in this process. Default 128. */
  maxInFlight?: number;
  /** Items under way to one destination, over all replicas. Default 8. */
  perDestination?: number;
  /** Milliseconds that one try may take. Default 25,000. */
  sendTimeoutMs?: number;
}

/** How long the outcome of a try is remembered for who asks after it, and how many are. */
const rememberMs = 10_000;
const rememberMost = 1_000;
/** A destination that calls all the time costs one query in this time. */
const hearEvery = 2_000;
const hearMost = 10_000;

export function createOutbox(options: OutboxOptions): Outbox {
  const { db, notifier, clock, log } = options;
  const waiting = new Map<number, Set<(result: SendResult | null) => void>>();
  const recent = new Map<number, { result: SendResult; at: number }>();
  const heardAt = new Map<string, number>();

  const worker = new Worker({
    random: Math.random,
    maxInFlight: 128,
    perDestination: 8,
    sendTimeoutMs: 25_000,
    ...options,
    onOutcome(id, result) {
      for (const settle of waiting.get(id) ?? []) settle(result);
      recent.delete(id);
      recent.set(id, { result, at: clock.now() });
      for (const [old, { at }] of recent) {
        if (recent.size <= rememberMost && clock.now() - at < rememberMs) break;
        recent.delete(old);
      }
    },
    onDown: (destination) => void heardAt.delete(destination),
  });

  return {
    async enqueue(tx, item) {
      const id = await insertItem(tx, item, clock.now());
      tx.notify('outbox');
      return id;
    },
    sendNow: (ids) => worker.sendNow(ids),
    firstTry(id, timeoutMs) {
      const known = recent.get(id);
      if (known && clock.now() - known.at < rememberMs) return Promise.resolve(known.result);
      return new Promise((resolve) => {
        const settle = (result: SendResult | null): void => {
          cancel();
          waiters.delete(settle);
          if (waiters.size === 0) waiting.delete(id);
          resolve(result);
        };
        const waiters = waiting.get(id) ?? new Set();
        waiting.set(id, waiters.add(settle));
        const cancel = clock.after(timeoutMs, () => settle(null));
      });
    },
    isDown: (destination) => isDown(db, destination, clock.now()),
    async heardFrom(destination) {
      const now = clock.now();
      const last = heardAt.get(destination);
      if (last !== undefined && now >= last && now - last < hearEvery) return;
      if (heardAt.size >= hearMost) heardAt.clear();
      heardAt.set(destination, now);
      try {
        if (await heard(db, destination, now)) await notifier.publish(['outbox']);
      } catch (error) {
        heardAt.delete(destination);
        log.warn({ err: error, destination }, 'a destination called, but its circuit could not be closed');
      }
    },
    async dueNow(destination) {
      if (await heard(db, destination, clock.now())) await notifier.publish(['outbox']);
    },
    circuits: () => listCircuits(db),
    async clearCircuit(destination) {
      const cleared = await clearCircuit(db, destination);
      if (cleared) await notifier.publish(['outbox']);
      return cleared;
    },
    async tryAll() {
      try {
        if (await tryCircuits(db, clock.now())) await notifier.publish(['outbox']);
      } catch (error) {
        log.warn({ err: error }, 'destinations that are down could not be tried at once');
      }
    },
    start: (senders) => worker.start(senders),
    async stop() {
      await worker.stop();
      for (const waiters of [...waiting.values()]) for (const settle of [...waiters]) settle(null);
    },
    stats: () => worker.stats(),
  };
}
