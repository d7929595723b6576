import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import type { Clock } from '../lib/clock.ts';
import { clientConfig, type Log } from './connection.ts';
import type { Queryable } from './types.ts';

/** One numbered file: applied once, never changed. */
interface Step {
  id: number;
  name: string;
  sql: string;
  checksum: string;
}

/** One `fn_*.sql`: `create or replace` statements, applied again whenever it or the last numbered file changed. */
type Repeatable = Omit<Step, 'id'>;

export interface Migrations {
  steps: readonly Step[];
  repeatables: readonly Repeatable[];
  /** Of everything in the folder. */
  checksum: string;
}

/** The schema and this program do not belong together. The message says what to do. */
export class MigrationError extends Error {
  override name = 'MigrationError';
}

/** Any number that other programs on the same database are unlikely to lock. */
const lockKey = 7_184_302_911;

const ledgers = `
  create table if not exists gatehouse_migrations (
    id integer primary key,
    name text not null,
    checksum text not null,
    applied_at bigint not null
  );
  create table if not exists gatehouse_functions (
    name text primary key,
    checksum text not null,
    applied_at bigint not null
  )`;

/** The `migrations` folder of this installation: beside `src/`, beside `dist/`, or wherever above this file. */
export function migrationsFolder(): string {
  for (let at = dirname(fileURLToPath(import.meta.url)); ; at = dirname(at)) {
    const folder = join(at, 'migrations');
    if (existsSync(folder)) return folder;
    if (at === dirname(at)) throw new MigrationError('the folder `migrations` is missing from this installation');
  }
}

export async function readMigrations(folder = migrationsFolder()): Promise<Migrations> {
  const steps: Step[] = [];
  const repeatables: Repeatable[] = [];
  const whole = createHash('sha256');
  for (const name of (await readdir(folder)).filter((file) => file.endsWith('.sql')).sort()) {
    const sql = (await readFile(join(folder, name), 'utf8')).replaceAll('\r\n', '\n');
    const checksum = sha256(sql);
    whole.update(`${name} ${checksum}\n`);
    const number = /^(\d{4})_[a-z0-9_]+\.sql$/.exec(name)?.[1];
    if (number !== undefined) steps.push({ id: Number(number), name, sql, checksum });
    else if (name.startsWith('fn_')) repeatables.push({ name, sql, checksum });
    else throw new MigrationError(`${name}: a migration is called 0001_what.sql, a file of functions fn_what.sql`);
  }
  const twice = steps.find((step, index) => steps[index + 1]?.id === step.id);
  if (twice) throw new MigrationError(`two migrations have the number ${twice.id}`);
  const last = steps.at(-1)?.checksum ?? '';
  return {
    steps,
    repeatables: repeatables.map((file) => ({ ...file, checksum: sha256(`${last} ${file.checksum}`) })),
    checksum: whole.digest('hex'),
  };
}

/**
 * Brings the schema up to this program: forward only, one transaction per file, the ledger's row before the file's statements, all
 * under one advisory lock that ends with the transaction, so that replicas which start together take turns. Refuses with a
 * {@link MigrationError} a database that is newer than this program or that holds another form of an applied file.
 * Answers the names of the files that it applied.
 */
export async function migrate(options: { url: string; clock: Clock; log: Log; folder?: string }): Promise<string[]> {
  const { steps, repeatables } = await readMigrations(options.folder);
  const client = new pg.Client(
    clientConfig({ url: options.url, applicationName: 'gatehouse migrate', statementTimeout: 0 }, true),
  );
  client.on('error', (error) => options.log.warn({ err: error }, 'the connection of the migration was lost'));
  const applied: string[] = [];

  /** `work` answers whether it changed anything. */
  async function locked(name: string, work: () => Promise<boolean>): Promise<void> {
    await client.query('begin');
    try {
      await client.query('set local statement_timeout = 0; set local idle_in_transaction_session_timeout = 0');
      await client.query('select pg_advisory_xact_lock($1)', [lockKey]);
      const changed = await work();
      await client.query('commit');
      if (!changed) return;
      applied.push(name);
    } catch (error) {
      await client.query('rollback').catch(() => undefined);
      throw error instanceof MigrationError
        ? error
        : new Error(`${name}: ${(error as Error).message}`, { cause: error });
    }
  }

  await client.connect();
  try {
    await locked('ledger', async () => {
      await client.query(ledgers);
      return false;
    });
    await refuseStrangers(client, steps);
    for (const step of steps) {
      await locked(step.name, async () => {
        const row = await client.query(
          `insert into gatehouse_migrations (id, name, checksum, applied_at) values ($1, $2, $3, $4)
           on conflict (id) do nothing`,
          [step.id, step.name, step.checksum, options.clock.now()],
        );
        if (row.rowCount === 0) return false;
        await client.query(step.sql);
        return true;
      });
    }
    // Again, for what another replica applied while this one waited for its turn.
    await refuseStrangers(client, steps);
    for (const file of repeatables) {
      await locked(file.name, async () => {
        const row = await client.query(
          `insert into gatehouse_functions (name, checksum, applied_at) values ($1, $2, $3)
           on conflict (name) do update set checksum = excluded.checksum, applied_at = excluded.applied_at
           where gatehouse_functions.checksum <> excluded.checksum`,
          [file.name, file.checksum, options.clock.now()],
        );
        if (row.rowCount === 0) return false;
        await client.query(file.sql);
        return true;
      });
    }
    if (applied.length > 0) options.log.info({ files: applied.length }, 'the schema was brought up to date');
    return applied;
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** Whether the schema is exactly the one of this program: for `/readyz`. */
export async function isMigrated(db: Queryable, migrations: Migrations): Promise<boolean> {
  const { rows } = await db.query<{ name: string; checksum: string }>(
    'select name, checksum from gatehouse_migrations union all select name, checksum from gatehouse_functions',
  );
  const there = new Map(rows.map((row) => [row.name, row.checksum]));
  const wanted = [...migrations.steps, ...migrations.repeatables];
  const last = migrations.steps.at(-1)?.name ?? '';
  const newer = rows.some((row) => /^\d/.test(row.name) && row.name > last);
  return !newer && wanted.every((file) => there.get(file.name) === file.checksum);
}

async function refuseStrangers(client: pg.Client, steps: readonly Step[]): Promise<void> {
  const { rows } = await client.query<{ id: number; name: string; checksum: string }>(
    'select id, name, checksum from gatehouse_migrations order by id',
  );
  const known = new Map(steps.map((step) => [step.id, step]));
  for (const row of rows) {
    const step = known.get(row.id);
    if (!step) {
      throw new MigrationError(
        `the database is newer than this program: it has the migration ${row.name}, which is not known here. Start the release that brought it, or a later one.`,
      );
    }
    if (step.checksum !== row.checksum) {
      throw new MigrationError(
        `${step.name} was changed after it had been applied to this database. Bring the file back as it was and write the change as a new migration.`,
      );
    }
  }
  const last = rows.at(-1)?.id ?? 0;
  const late = steps.find((step) => step.id < last && !rows.some((row) => row.id === step.id));
  if (late) {
    throw new MigrationError(
      `${late.name} comes before a migration that is already applied (number ${last}). Give it a number above that.`,
    );
  }
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
