import type { TaskWatch } from '../../exchange/task/index.ts';
import type { TaskFold } from './fold.ts';
import type { StreamResponse } from './protocol.ts';

/** One event of a stream, and whether nothing follows it. */
export interface Told {
  event: StreamResponse;
  final: boolean;
}

/** What a client follows: a task first, then its changes (§3.1.2). Whoever has one reads it or closes it. */
export interface TaskStream {
  /** Null: it has ended. */
  next(): Promise<Told[] | null>;
  /** Resolves when its reader is too far behind. */
  readonly cut: Promise<void>;
  close(): void;
}

/**
 * Ends with the task, or when the task begins to wait for its asker's input: who goes on opens a stream with the message that goes on. It stays
 * open while an authorisation is awaited (§7.6).
 */
export function follow(watch: TaskWatch, fold: TaskFold, first: Told[]): TaskStream {
  let begun: Told[] | undefined = first;
  let ended = first.some(({ final }) => final);
  return {
    async next() {
      if (begun) {
        const told = begun;
        begun = undefined;
        return told;
      }
      while (!ended) {
        const change = await watch.next();
        if (!change) return null;
        const told = tell(fold, fold.take(change));
        ended = told.some(({ final }) => final);
        if (told.length > 0) return told;
      }
      return null;
    },
    cut: watch.cut,
    close: () => watch.close(),
  };
}

/** Events of one change. The last is final when the task then stands where a stream ends. */
export function tell(fold: TaskFold, events: StreamResponse[]): Told[] {
  const ends = fold.isFinal || fold.state === 'input_required';
  return events.map((event, i) => ({ event, final: ends && i === events.length - 1 }));
}
