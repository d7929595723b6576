import { randomBytes } from 'node:crypto';
import type { Log } from '../../src/db/connection.ts';
import { migrate, readMigrations } from '../../src/db/migrate.ts';
import { type Database, openPool, type PoolOptions } from '../../src/db/pool.ts';
import type { Db, Notifier } from '../../src/db/types.ts';
import { type Clock, sleep, systemClock } from '../../src/lib/clock.ts';

/** A test's context, or the module `node:test` itself for a database that a whole file shares: `freshDatabase({ after })`. */
export interface Lifetime {
  after(fn: () => Promise<void>): void;
}

export interface FreshDatabase {
  readonly url: string;
  readonly db: Database;
  readonly notifier: Notifier;
  /** Another pool and listener on the same database, as a second replica has them. Closed with the database. */
  replica(options?: Partial<PoolOptions>): Promise<Database>;
  /** Closes everything, checks for leaks and drops the database. Called at the end of the lifetime; a second call does nothing. */
  close(): Promise<void>;
}

export interface FreshOptions {
  clock?: Clock;
  log?: Log;
  max?: number;
  /** An empty database, without the schema. */
  empty?: boolean;
}

export const silent: Log = { info: () => undefined, warn: () => undefined, error: () => undefined };

/**
 * A database of its own with the schema of `migrations/`, copied from a template that is made once per run. At its end it fails the
 * test (or the file) when a connection was checked out and not given back, or when somebody else is still connected.
 */
export async function freshDatabase(lifetime: Lifetime, options: FreshOptions = {}): Promise<FreshDatabase> {
  const template = options.empty ? 'template0' : await templateDatabase();
  const name = `${prefix()}${randomBytes(8).toString('hex')}`;
  await admin((db) => db.query(`create database ${name} template ${template}`));
  const url = urlOf(name);
  const pools: Database[] = [];
  const open = async (more: Partial<PoolOptions> = {}): Promise<Database> => {
    const { clock = systemClock, log = silent, max = 8 } = options;
    const pool = await openPool({ url, clock, log, max, ...more });
    pools.push(pool);
    return pool;
  };
  let closing: Promise<void> | undefined;
  const close = (): Promise<void> => {
    closing ??= finish(name, pools);
    return closing;
  };
  lifetime.after(close);
  const db = await open();
  return { url, db, notifier: db.notifier, replica: open, close };
}

/** The URL of a server on which databases may be made: set by `npm test`. */
export function serverUrl(): string {
  const url = process.env.TEST_DATABASE_URL;
  if (!url) throw new Error('TEST_DATABASE_URL is not set: run this test through `npm test -- test/…`');
  return url;
}

/** Runs `work` on a connection of its own to the server's maintenance database. */
export async function admin<T>(work: (db: Db) => Promise<T>): Promise<T> {
  const pool = await openPool({
    url: serverUrl(),
    clock: systemClock,
    log: silent,
    max: 2,
    statementTimeout: 120_000,
    idleInTransactionTimeout: 0,
  });
  try {
    return await work(pool);
  } finally {
    await pool.close();
  }
}

/** A pool ends once all its connections were given back: what a request or a beat still does at the end takes a moment, a leak for ever. */
const endsWithin = 5_000;

async function finish(name: string, pools: Database[]): Promise<void> {
  const leaks: string[] = [];
  await Promise.all(
    pools.map(async (pool) => {
      const late = new AbortController();
      const closed = pool.close().finally(() => late.abort());
      await Promise.race([closed, sleep(systemClock, endsWithin, late.signal)]);
      const { busy, waiting } = pool.stats();
      if (busy > 0 || waiting > 0) leaks.push(`${busy} connections were not given back, ${waiting} callers still wait`);
    }),
  );
  await admin(async (db) => {
    if (leaks.length === 0) leaks.push(...(await strangers(db, name)));
    await db.query(`drop database if exists ${name} with (force)`);
  });
  if (leaks.length > 0) throw new Error(`the test leaks database connections: ${leaks.join('; ')}`);
}

/** Who is still connected a moment after everything was closed: the server needs that moment to see it. */
async function strangers(db: Db, name: string): Promise<string[]> {
  for (let look = 0; ; look++) {
    const { rows } = await db.query<{ application_name: string; query: string }>(
      `select application_name, query from pg_stat_activity where datname = $1 and backend_type = 'client backend'`,
      [name],
    );
    if (rows.length === 0 || look === 100) return rows.map((row) => `"${row.application_name}" after: ${row.query}`);
    await db.query('select pg_sleep(0.02)');
  }
}

let template: Promise<string> | undefined;

/** One template for all files of a run: the first makes it, under a lock of the server, the others wait for it. */
function templateDatabase(): Promise<string> {
  template ??= makeTemplate();
  return template;
}

async function makeTemplate(): Promise<string> {
  const { checksum } = await readMigrations();
  const name = `${prefix()}template_${checksum.slice(0, 12)}`;
  await admin((db) =>
    db.tx(async (lock) => {
      await lock.query('select pg_advisory_xact_lock($1)', [Number.parseInt(checksum.slice(0, 12), 16)]);
      const there = await lock.query('select from pg_database where datname = $1', [name]);
      if (there.rowCount > 0) return;
      // Named only when it is whole; CREATE DATABASE does not run inside the transaction that holds the lock.
      await db.query(`drop database if exists ${name}_part with (force)`);
      await db.query(`create database ${name}_part template template0`);
      await migrate({ url: urlOf(`${name}_part`), clock: systemClock, log: silent });
      await strangers(db, `${name}_part`);
      await db.query(`alter database ${name}_part rename to ${name}`);
    }),
  );
  return name;
}

/** `scripts/test.mjs` drops what begins like this. */
function prefix(): string {
  return `ght_${process.env.TEST_RUN ?? 'byhand'}_`;
}

function urlOf(name: string): string {
  const url = new URL(serverUrl());
  url.pathname = `/${name}`;
  return url.href;
}
