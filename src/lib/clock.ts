/** The only source of time. Milliseconds since 1970. Tests pass a clock that they move by hand. */
export interface Clock {
  now(): number;
  /** Calls `fn` once after `ms`; the returned function cancels. A pending timer does not keep the process alive. */
  after(ms: number, fn: () => void): () => void;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  after(ms, fn) {
    const timer = setTimeout(fn, Math.min(Math.max(ms, 0), 2 ** 31 - 1));
    timer.unref();
    return () => clearTimeout(timer);
  },
};

/** The same for a program that only waits: a pending timer keeps its process alive. */
export const foregroundClock: Clock = {
  now: () => Date.now(),
  after(ms, fn) {
    const timer = setTimeout(fn, Math.min(Math.max(ms, 0), 2 ** 31 - 1));
    return () => clearTimeout(timer);
  },
};

/** Resolves after `ms` or as soon as `signal` aborts. */
export function sleep(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = (): void => {
      cancel();
      signal?.removeEventListener('abort', done);
      resolve();
    };
    const cancel = clock.after(ms, done);
    signal?.addEventListener('abort', done, { once: true });
  });
}

/** A clock that stands still until it is moved. For tests. */
export class ManualClock implements Clock {
  #now: number;
  #timers = new Set<{ at: number; fn: () => void }>();

  constructor(now = Date.UTC(2026, 8, 21, 14, 13, 20)) {
    this.#now = now;
  }

  now(): number {
    return this.#now;
  }

  after(ms: number, fn: () => void): () => void {
    const timer = { at: this.#now + Math.max(ms, 0), fn };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  /** Moves time forward and runs what falls due, in order of its due time. */
  advance(ms: number): void {
    const end = this.#now + ms;
    for (;;) {
      const due = [...this.#timers].filter((t) => t.at <= end).sort((a, b) => a.at - b.at)[0];
      if (!due) break;
      this.#timers.delete(due);
      this.#now = Math.max(this.#now, due.at);
      due.fn();
    }
    this.#now = end;
  }

  /** Sets the time without running timers: a clock that jumps. */
  jump(to: number): void {
    this.#now = to;
  }
}
