import pg from 'pg';

export interface ConnectionOptions {
  /** A PostgreSQL URL; `?host=` may name the folder of a unix socket. */
  url: string;
  /** Shown in `pg_stat_activity`. */
  applicationName?: string;
  /** Milliseconds that one statement may take. Default 30,000. */
  statementTimeout?: number;
  /** Milliseconds that a transaction may stand idle before the server ends it. Default 15,000. */
  idleInTransactionTimeout?: number;
  /** Milliseconds to wait for a connection, or for a free place in the pool. Default 10,000. */
  connectTimeout?: number;
}

/** What the gateway says to its database log, and how: pino's loggers fit. */
export interface Log {
  info(fields: object, words: string): void;
  warn(fields: object, words: string): void;
  error(fields: object, words: string): void;
}

const int8 = 20;
const int8Array = 1016;

/** int8 becomes a number: every one of ours stays below 2^53. `sum()` of a bigint is numeric and stays text: cast it. */
const types: pg.CustomTypesConfig = {
  getTypeParser(oid: number, format?: 'text' | 'binary') {
    const standard = pg.types.getTypeParser(oid, format as 'text');
    if (format === 'binary') return standard;
    if (oid === int8) return Number;
    if (oid === int8Array) {
      return (text: string) =>
        (standard(text) as (string | null)[]).map((each) => (each === null ? null : Number(each)));
    }
    return standard;
  },
} as pg.CustomTypesConfig;

/**
 * `plain` leaves out the timeouts that travel as start-up parameters: a pgbouncer refuses a connection that brings them.
 * The client's own timeout stands a little above the server's, for a server that no longer answers at all.
 */
export function clientConfig(options: ConnectionOptions, plain = false): pg.ClientConfig {
  const statement = options.statementTimeout ?? 30_000;
  return {
    connectionString: options.url,
    application_name: options.applicationName ?? 'gatehouse',
    connectionTimeoutMillis: options.connectTimeout ?? 10_000,
    keepAlive: true,
    types,
    ...(statement > 0 && { query_timeout: statement + 5_000 }),
    ...(!plain && {
      statement_timeout: statement,
      idle_in_transaction_session_timeout: options.idleInTransactionTimeout ?? 15_000,
    }),
  };
}

export function sqlState(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === 'string' ? code : undefined;
}
