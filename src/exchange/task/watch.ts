import type { Db, Notifier } from '../../db/types.ts';
import type { Clock } from '../../lib/clock.ts';
import { Refusal } from '../../lib/refusal.ts';
import type { MessageRow } from '../store.ts';
import { readTask, toMessage } from '../tasks.ts';
import type { ExchangeState, TaskMessage, TaskView, Viewer } from '../types.ts';
import { type ChangeRow, changesSince } from './store.ts';

/** What came to a task, in order. `state` is that of the task after all of `messages`, unless more of them follow in the next change. */
export interface TaskChange {
  messages: readonly TaskMessage[];
  more: boolean;
  state: ExchangeState;
  reason: string | null;
  updatedAt: number;
}

/** Follows a task from a view of it on, without a gap and without a repeat, whichever replica changes it. */
export interface TaskWatch {
  readonly view: TaskView;
  /** The next change; null when the watch was closed: by whoever holds it, because the gateway stops, or because it was cut. */
  next(): Promise<TaskChange | null>;
  /** Resolves when too much had piled up unread. */
  readonly cut: Promise<void>;
  close(): void;
}

/** A reader that is this far behind is cut: what it missed it gets by asking for the task. */
const mostUnread = 1_000;
const mostUnreadBytes = 8 * 1024 * 1024;
const readAtOnce = 200;
const retryMs = 1_000;
/** A wake-up that was lost costs at most this. */
const lookAgainMs = 60_000;

/** One look at the database per task and change, however many follow it in this process. */
export class TaskWatches {
  readonly #db: Db;
  readonly #notifier: Pick<Notifier, 'subscribe'>;
  readonly #clock: Clock;
  readonly #feeds = new Map<string, Feed>();
  #closed = false;

  constructor(deps: { db: Db; notifier: Pick<Notifier, 'subscribe'>; clock: Clock }) {
    this.#db = deps.db;
    this.#notifier = deps.notifier;
    this.#clock = deps.clock;
  }

  /** Subscribes first and reads then: what happens in between is in the view, and not told again. */
  async watch(exchangeId: string, viewer: Viewer): Promise<TaskWatch | Refusal> {
    const reader = new Reader();
    const feed = this.#feed(exchangeId);
    feed.add(reader);
    const leave = (): void => {
      reader.close();
      feed.remove(reader);
      if (feed.ended && this.#feeds.get(exchangeId) === feed) this.#feeds.delete(exchangeId);
    };
    if (this.#closed) leave();
    try {
      const view = await readTask(this.#db, exchangeId, viewer);
      if (view instanceof Refusal) {
        leave();
        return view;
      }
      reader.begin(view);
      feed.begin(view);
      return { view, next: () => reader.next(), cut: reader.cut, close: leave };
    } catch (error) {
      leave();
      throw error;
    }
  }

  /** Ends every watch: the gateway stops. */
  close(): void {
    this.#closed = true;
    for (const feed of this.#feeds.values()) feed.end();
    this.#feeds.clear();
  }

  stats(): { tasks: number; readers: number } {
    return { tasks: this.#feeds.size, readers: [...this.#feeds.values()].reduce((sum, feed) => sum + feed.size, 0) };
  }

  #feed(exchangeId: string): Feed {
    const there = this.#feeds.get(exchangeId);
    if (there && !there.ended) return there;
    const feed = new Feed(this.#clock, (seq) => changesSince(this.#db, exchangeId, seq, readAtOnce));
    feed.onEnd(this.#notifier.subscribe(`exchange:${exchangeId}`, () => feed.wake()));
    this.#feeds.set(exchangeId, feed);
    return feed;
  }
}

/** Reads what is new of one task, once for all its readers. */
class Feed {
  readonly #clock: Clock;
  readonly #read: (seq: number) => Promise<ChangeRow[]>;
  readonly #readers = new Set<Reader>();
  /** The newest message read; undefined until the first reader has its view. */
  #seq: number | undefined;
  #updatedAt = 0;
  #stale = false;
  #running = false;
  #ended = false;
  #unsubscribe = (): void => {};
  #cancelLook = (): void => {};

  constructor(clock: Clock, read: (seq: number) => Promise<ChangeRow[]>) {
    this.#clock = clock;
    this.#read = read;
  }

  get size(): number {
    return this.#readers.size;
  }

  get ended(): boolean {
    return this.#ended;
  }

  onEnd(unsubscribe: () => void): void {
    this.#unsubscribe = unsubscribe;
  }

  add(reader: Reader): void {
    this.#readers.add(reader);
  }

  /** The last one to go ends it. */
  remove(reader: Reader): void {
    this.#readers.delete(reader);
    if (this.#readers.size === 0) this.end();
  }

  begin(view: TaskView): void {
    if (this.#seq !== undefined || this.#ended) return;
    this.#seq = lastSeq(view);
    this.#updatedAt = view.updatedAt;
    this.#lookIn(lookAgainMs);
    if (this.#stale) this.wake();
  }

  wake(): void {
    this.#stale = true;
    if (!this.#running && this.#seq !== undefined && !this.#ended) void this.#run();
  }

  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#unsubscribe();
    this.#cancelLook();
    for (const reader of this.#readers) reader.close();
    this.#readers.clear();
  }

  async #run(): Promise<void> {
    this.#running = true;
    try {
      while (this.#stale && !this.#ended) {
        this.#stale = false;
        this.#tell(await this.#read(this.#seq!));
      }
      this.#lookIn(lookAgainMs);
    } catch {
      // The database is away: whoever follows goes on waiting.
      this.#lookIn(retryMs);
    } finally {
      this.#running = false;
    }
  }

  #tell(rows: ChangeRow[]): void {
    const [first] = rows;
    // Taken back before it was accepted.
    if (!first) {
      this.end();
      return;
    }
    const messages = rows.filter((row): row is ChangeRow & MessageRow => row.seq != null);
    if (messages.length === 0 && first.updated_at === this.#updatedAt) return;
    const more = messages.length === readAtOnce;
    this.#seq = messages.at(-1)?.seq ?? this.#seq;
    this.#updatedAt = first.updated_at;
    this.#stale ||= more;
    const change: TaskChange = {
      messages: messages.map(toMessage),
      more,
      state: first.state,
      reason: first.reason,
      updatedAt: first.updated_at,
    };
    const bytes = messages.reduce((sum, row) => sum + row.envelope.length + (row.a2a?.length ?? 0), 0);
    for (const reader of this.#readers) reader.take(change, bytes);
  }

  #lookIn(ms: number): void {
    this.#cancelLook();
    if (this.#ended) return;
    this.#cancelLook = this.#clock.after(ms, () => this.wake());
  }
}

/** What one follower has still to read. */
class Reader {
  readonly #unread: { change: TaskChange; bytes: number }[] = [];
  #behind = { messages: 0, bytes: 0 };
  #seen: { seq: number; updatedAt: number } | undefined;
  #closed = false;
  #wake = (): void => {};
  #overrun = (): void => {};
  readonly cut = new Promise<void>((resolve) => {
    this.#overrun = resolve;
  });

  begin(view: TaskView): void {
    this.#seen = { seq: lastSeq(view), updatedAt: view.updatedAt };
  }

  take(change: TaskChange, bytes: number): void {
    if (this.#closed) return;
    this.#count(change, bytes, 1);
    // One change alone may be more: it is there, and holding it costs nothing.
    if (this.#unread.length > 0 && (this.#behind.messages > mostUnread || this.#behind.bytes > mostUnreadBytes)) {
      this.#overrun();
      this.close();
      return;
    }
    this.#unread.push({ change, bytes });
    this.#wake();
  }

  close(): void {
    this.#closed = true;
    this.#unread.length = 0;
    this.#wake();
  }

  async next(): Promise<TaskChange | null> {
    for (;;) {
      const next = this.#unread.shift();
      if (next) {
        this.#count(next.change, next.bytes, -1);
        const fresh = this.#fresh(next.change);
        if (fresh) return fresh;
        continue;
      }
      if (this.#closed) return null;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  #count({ messages }: TaskChange, bytes: number, sign: 1 | -1): void {
    this.#behind.messages += sign * messages.length;
    this.#behind.bytes += sign * bytes;
  }

  /** Without what the view had already. */
  #fresh(change: TaskChange): TaskChange | undefined {
    const { seq, updatedAt } = this.#seen!;
    if (change.updatedAt <= updatedAt) return undefined;
    return { ...change, messages: change.messages.filter((message) => message.seq > seq) };
  }
}

function lastSeq({ messages }: TaskView): number {
  return messages.at(-1)?.seq ?? 0;
}
