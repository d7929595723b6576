import { createHash } from 'node:crypto';
import pg from 'pg';
import { type Clock, sleep, systemClock } from '../lib/clock.ts';
import { type ConnectionOptions, clientConfig, type Log, sqlState } from './connection.ts';
import { channel, PgNotifier } from './notify.ts';
import type { Db, Notifier, QueryOptions, QueryResult, Tx } from './types.ts';

export interface PoolOptions extends ConnectionOptions {
  /** Connections of the pool; the listener takes one more. Default 10. */
  max?: number;
  clock: Clock;
  log: Log;
}

export interface Database extends Db {
  readonly notifier: Notifier;
  /** `busy` connections are checked out; `waiting` callers wait for one. */
  stats(): { total: number; busy: number; waiting: number; topics: number; listening: boolean };
  /** Ends the listener and, once what is under way is done, the pool. A second call waits for the first. */
  close(): Promise<void>;
}

const oldestServer = 140_000;
const serializationFailure = '40001';
const deadlockDetected = '40P01';
const protocolViolation = '08P01';
const tries = 4;
/** The prepared statement is another session's, or was there before, or gives other columns since a migration. */
const unprepared: ReadonlySet<string> = new Set(['26000', '42P05', '0A000']);

/**
 * Connects, and fails with the reason when it cannot. Works through a pgbouncer in transaction mode: no session state but prepared look-ups,
 * which are given up where the pooler does not know them; where the pooler refuses the timeouts as start-up parameters, transactions set them for themselves. LISTEN does not pass
 * such a pooler: see {@link PgNotifier}.
 */
export async function openPool(options: PoolOptions): Promise<Database> {
  try {
    return await open(options, false);
  } catch (error) {
    if (sqlState(error) !== protocolViolation) throw error;
    options.log.warn(
      { err: error },
      'the database refuses timeouts at the start of a connection; only transactions are timed',
    );
    return await open(options, true);
  }
}

async function open(options: PoolOptions, plain: boolean): Promise<Database> {
  const pool = new pg.Pool({ ...clientConfig(options, plain), max: options.max ?? 10, idleTimeoutMillis: 30_000 });
  pool.on('error', (error) => options.log.warn({ err: error }, 'an idle database connection was lost'));
  const notifier = new PgNotifier({
    ...options,
    plain,
    send: (payload) => pool.query(`select pg_notify('${channel}', $1)`, [payload]),
  });
  const database = new PgDatabase(pool, notifier, options, plain);
  try {
    const { rows } = await database.query<{ version: number }>(
      "select current_setting('server_version_num')::int as version",
    );
    const version = rows[0]?.version ?? 0;
    if (version < oldestServer) throw new Error(`PostgreSQL 14 or newer is needed; this server says ${version}`);
    await notifier.start();
  } catch (error) {
    await database.close();
    throw error;
  }
  return database;
}

class PgDatabase implements Database {
  readonly notifier: PgNotifier;
  #pool: pg.Pool;
  #options: PoolOptions;
  #begin: string;
  /** Until a pooler shows that it gives one session's statements to another. */
  #prepares = true;
  #closing: Promise<void> | undefined;

  constructor(pool: pg.Pool, notifier: PgNotifier, options: PoolOptions, plain: boolean) {
    this.#pool = pool;
    this.notifier = notifier;
    this.#options = options;
    const statement = options.statementTimeout ?? 30_000;
    const idle = options.idleInTransactionTimeout ?? 15_000;
    this.#begin = plain
      ? `begin; set local statement_timeout = ${statement}; set local idle_in_transaction_session_timeout = ${idle}`
      : 'begin';
  }

  async query<R = Record<string, unknown>>(
    text: string,
    values?: readonly unknown[],
    options: QueryOptions = {},
  ): Promise<QueryResult<R>> {
    if (!options.prepare || !this.#prepares) return shaped<R>(await this.#pool.query(text, values as unknown[]));
    try {
      return shaped<R>(await this.#pool.query({ name: nameOf(text), text, values: values as unknown[] }));
    } catch (error) {
      if (!unprepared.has(sqlState(error) ?? '')) throw error;
      this.#prepares = false;
      this.#options.log.info(
        { err: error },
        'statements are not kept prepared (a pooler between?): each is planned anew',
      );
      return this.query(text, values);
    }
  }

  async tx<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#once(work);
      } catch (error) {
        const state = sqlState(error);
        if (attempt === tries || (state !== serializationFailure && state !== deadlockDetected)) throw error;
        // The server's time, not the domain's: a test whose clock stands still must get past a deadlock too.
        await sleep(systemClock, Math.random() * 20 * attempt);
      }
    }
  }

  async #once<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    const client = await this.#pool.connect();
    // While a client is checked out nobody else hears its `error`, and an unheard one ends the process.
    const broken = (error: Error): void =>
      this.#options.log.warn({ err: error }, 'a database connection was lost in a transaction');
    client.on('error', broken);
    const topics = new Set<string>();
    let open = true;
    const tx: Tx = {
      async query<R>(text: string, values?: readonly unknown[]) {
        if (!open) throw new Error('a query came after its transaction had ended: an `await` is missing');
        return shaped<R>(await client.query(text, values as unknown[]));
      },
      notify: (topic) => void topics.add(topic),
    };
    let unusable: boolean | undefined;
    let result: T;
    try {
      await client.query(this.#begin);
      result = await work(tx);
      open = false;
      const notices = this.notifier
        .payloads(topics)
        .map((p) => `select pg_notify('${channel}', ${pg.escapeLiteral(p)}); `);
      const ended = await client.query(`${notices.join('')}commit`);
      if (lastCommand(ended) !== 'COMMIT') {
        throw new Error(
          'the transaction was rolled back: one of its statements had failed and the failure was swallowed',
        );
      }
    } catch (error) {
      open = false;
      await client.query('rollback').catch(() => {
        unusable = true;
      });
      throw error;
    } finally {
      client.off('error', broken);
      client.release(unusable);
    }
    this.notifier.wake(topics);
    return result;
  }

  stats(): ReturnType<Database['stats']> {
    const { totalCount, idleCount, waitingCount } = this.#pool;
    return { total: totalCount, busy: totalCount - idleCount, waiting: waitingCount, ...this.notifier.stats() };
  }

  close(): Promise<void> {
    this.#closing ??= this.notifier.close().then(() => this.#pool.end());
    return this.#closing;
  }
}

const names = new Map<string, string>();

/** The same text has the same name on every connection and in every process. */
function nameOf(text: string): string {
  let name = names.get(text);
  if (name === undefined) {
    name = `gatehouse_${createHash('sha256').update(text).digest('hex').slice(0, 24)}`;
    names.set(text, name);
  }
  return name;
}

function shaped<R>(result: pg.QueryResult): QueryResult<R> {
  return { rows: result.rows as R[], rowCount: result.rowCount ?? 0 };
}

/** Several statements in one message answer with a list. */
function lastCommand(result: pg.QueryResult | pg.QueryResult[]): string | undefined {
  return (Array.isArray(result) ? result.at(-1) : result)?.command;
}
