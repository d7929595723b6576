/** Rows and how many were touched. `bigint` columns arrive as numbers: every one of ours stays below 2^53. */
export interface QueryResult<R> {
  rows: R[];
  rowCount: number;
}

export interface QueryOptions {
  /**
   * Parsed and planned once per connection and not each time, which costs more than a look-up by key itself. For look-ups by key on the way of
   * every message: the plan is kept, so it must be the same for all values and all sizes of the tables. Nothing in a transaction.
   */
  prepare?: boolean;
}

/** What a store function takes first: the pool, or the transaction it is part of. */
export interface Queryable {
  query<R = Record<string, unknown>>(
    text: string,
    values?: readonly unknown[],
    options?: QueryOptions,
  ): Promise<QueryResult<R>>;
}

export interface Tx extends Queryable {
  /** Wakes waiters of `topic` on every replica once this transaction has committed. Collected: one NOTIFY per transaction, inside it. */
  notify(topic: string): void;
}

export interface Db extends Queryable {
  /** Runs `work` in one transaction (READ COMMITTED); rolls back when it throws. Retries deadlocks and serialisation failures up to 3 times. */
  tx<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
}

/** Wake-ups across replicas. A wake is a hint, never the truth: subscribe, query, then wait. */
export interface Notifier {
  /** `fn` runs when someone committed `tx.notify(topic)` here or on another replica, and after every reconnect of the listener. */
  subscribe(topic: string, fn: () => void): () => void;
  /** Names this process in a NOTIFY, so that it does not wake itself twice. */
  readonly origin: string;
  /** Wakes the waiters of this process alone: for a statement that has notified the other replicas itself. */
  wake(topics: Iterable<string>): void;
  /** Wakes local waiters at once and other replicas with one NOTIFY (outside a transaction). */
  publish(topics: readonly string[]): Promise<void>;
}
