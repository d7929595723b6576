import type { Clock } from './clock.ts';

export interface LoopOptions {
  readonly clock: Clock;
  readonly log: { error(fields: object, words: string): void };
  /** What the log calls it. */
  readonly name: string;
  /** Part of the interval by which each pause may be shorter, so that replicas do not come all at once. Default 0.2. */
  readonly jitter?: number;
  readonly random?: () => number;
}

export interface Loop {
  /** A second start does nothing. The first run comes after one pause. */
  start(): void;
  /** Resolves when no run is under way and none will come. May be called twice, and before `start`. */
  stop(): Promise<void>;
}

/**
 * Runs `job` every `ms` at most, counted from the end of one run to the begin of the next: runs never overlap. A run that fails is logged
 * and the next one comes as usual. `job` gets a signal that aborts at `stop`.
 */
export function every(ms: number, job: (stopping: AbortSignal) => Promise<void>, options: LoopOptions): Loop {
  const { clock, log, name, jitter = 0.2, random = Math.random } = options;
  const stopping = new AbortController();
  let started = false;
  let running: Promise<void> = Promise.resolve();
  let cancel = (): void => {};

  const rest = (): void => {
    if (stopping.signal.aborted) return;
    cancel = clock.after(Math.round(ms * (1 - jitter * random())), () => {
      running = run();
    });
  };
  const run = async (): Promise<void> => {
    try {
      await job(stopping.signal);
    } catch (error) {
      if (!stopping.signal.aborted)
        log.error({ err: error, loop: name }, 'a run of a loop failed; the next one comes as usual');
    }
    rest();
  };

  return {
    start() {
      if (started) return;
      started = true;
      rest();
    },
    stop() {
      stopping.abort();
      cancel();
      return running;
    },
  };
}
