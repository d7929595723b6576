import type { Clock } from './clock.ts';

const WINDOW = 60_000;
const MAX_KEYS = 100_000;

/** Counts per key in fixed windows of a minute, in this process. Bounded: past 100,000 keys the one touched longest ago is forgotten. */
export class Windows {
  readonly #clock: Clock;
  readonly #counts = new Map<string, number>();
  #window = -1;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  count(key: string): number {
    this.#turn();
    return this.#counts.get(key) ?? 0;
  }

  add(key: string, by = 1): void {
    this.#turn();
    this.#touch(key, Math.max((this.#counts.get(key) ?? 0) + by, 0));
  }

  /** Others counted too: it stands at `count` at least. */
  raise(key: string, count: number): void {
    this.#turn();
    if (count > (this.#counts.get(key) ?? 0)) this.#touch(key, count);
  }

  /** Seconds until the counts start anew. */
  get secondsLeft(): number {
    return Math.max(Math.ceil((WINDOW - (this.#clock.now() % WINDOW)) / 1000), 1);
  }

  /** A Map keeps the order in which keys came; an `LRUCache` would take room for all 100,000 at once. */
  #touch(key: string, count: number): void {
    this.#counts.delete(key);
    this.#counts.set(key, count);
    if (this.#counts.size > MAX_KEYS) this.#counts.delete(this.#counts.keys().next().value as string);
  }

  #turn(): void {
    const window = Math.floor(this.#clock.now() / WINDOW);
    if (window === this.#window) return;
    this.#window = window;
    this.#counts.clear();
  }
}
