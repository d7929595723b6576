import type { Db } from '../db/types.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { type Claimed, renewLeases } from './store.ts';

/** How long a killed process keeps others from what it had under way, and from its share of a destination. */
export const leaseMs = 6_000;
const renewEvery = 2_000;

/** Short leases that last as long as their tries do: while anything is under way for long, one statement in two seconds renews them all. */
export class Leases {
  readonly #options: { db: Db; clock: Clock; log: Log };
  readonly #held = new Map<number, Claimed>();
  /** Held, but not renewed: what became of the try is being recorded. */
  readonly #ended = new Set<number>();
  #renewing: Promise<void> | undefined;
  #cancel: (() => void) | undefined;

  constructor(options: { db: Db; clock: Clock; log: Log }) {
    this.#options = options;
  }

  /** False when this process has it under way already: its lease ran out meanwhile, and claiming it has renewed it. */
  hold(item: Claimed): boolean {
    const held = this.#held.get(item.id);
    if (held) {
      held.leaseUntil = item.leaseUntil;
      return false;
    }
    this.#held.set(item.id, item);
    this.#arm();
    return true;
  }

  /** Its try has ended: resolves when no renewal changes this lease any more. It is held until its end is recorded. */
  async settle(item: Claimed): Promise<void> {
    this.#ended.add(item.id);
    await this.#renewing;
  }

  drop(item: Claimed): void {
    this.#held.delete(item.id);
    this.#ended.delete(item.id);
    if (this.#held.size > 0) return;
    this.#cancel?.();
    this.#cancel = undefined;
  }

  #arm(): void {
    if (this.#cancel || this.#renewing || this.#held.size === 0) return;
    this.#cancel = this.#options.clock.after(renewEvery, () => {
      this.#cancel = undefined;
      this.#renewing = this.#renew().finally(() => {
        this.#renewing = undefined;
        this.#arm();
      });
    });
  }

  async #renew(): Promise<void> {
    const { db, clock, log } = this.#options;
    const until = clock.now() + leaseMs;
    // What was claimed just now need not be renewed yet.
    const items = [...this.#held.values()].filter(
      (item) => item.leaseUntil <= until - renewEvery / 2 && !this.#ended.has(item.id),
    );
    if (items.length === 0) return;
    try {
      const renewed = await renewLeases(db, items, until);
      for (const item of items) if (renewed.has(item.id)) item.leaseUntil = until;
    } catch (error) {
      log.warn({ err: error, items: items.length }, 'leases could not be renewed; others may send the same again');
    }
  }
}
