import type { Queryable } from '../../db/types.ts';
import type { PushError } from '../types.ts';

/** As `set_push_configs` (migrations/fn_tasks.sql) reads it. */
export interface PushRow {
  id: string;
  url: string;
  destination: string;
  /** Sealed, base64. */
  secrets: string | null;
  version: '1.0' | '0.3';
}

export interface StoredPush extends Omit<PushRow, 'secrets'> {
  exchange_id: string;
  secrets: Buffer | null;
  last_error: string | null;
}

const columns = 'p.exchange_id, p.id, p.url, p.destination, p.secrets, p.version, p.last_error';

/** False when the task would have more than `most`. */
export async function setConfigs(
  db: Queryable,
  q: { exchangeId: string; rows: readonly PushRow[]; most: number; now: number },
): Promise<boolean> {
  const { rows } = await db.query<{ done: boolean }>('select set_push_configs($1, $2, $3, $4) as done', [
    q.exchangeId,
    JSON.stringify(q.rows),
    q.most,
    q.now,
  ]);
  return rows[0]!.done;
}

export async function configsOf(db: Queryable, exchangeId: string): Promise<StoredPush[]> {
  const { rows } = await db.query<StoredPush>(
    `select ${columns} from push_configs p where p.exchange_id = $1 order by p.created_at, p.id`,
    [exchangeId],
  );
  return rows;
}

export async function configOf(db: Queryable, exchangeId: string, id: string): Promise<StoredPush | null> {
  const { rows } = await db.query<StoredPush>(
    `select ${columns} from push_configs p where p.exchange_id = $1 and p.id = $2`,
    [exchangeId, id],
  );
  return rows[0] ?? null;
}

export async function removeConfig(db: Queryable, exchangeId: string, id: string): Promise<void> {
  await db.query('delete from push_configs where exchange_id = $1 and id = $2', [exchangeId, id]);
}

/** What came of the last push; null: it was taken. */
export async function recordPush(
  db: Queryable,
  q: { exchangeId: string; id: string; error: string | null; now: number },
): Promise<void> {
  await db.query(
    `update push_configs set last_error = $3, last_error_at = case when $3::text is not null then $4::bigint end
      where exchange_id = $1 and id = $2`,
    [q.exchangeId, q.id, q.error, q.now],
  );
}

/** The configs of a task whose last push failed. */
export async function pushErrorsOf(db: Queryable, exchangeId: string): Promise<PushError[]> {
  const { rows } = await db.query<PushError>(
    `select p.id, p.last_error as error, p.last_error_at as at from push_configs p
      where p.exchange_id = $1 and p.last_error is not null order by p.created_at, p.id`,
    [exchangeId],
  );
  return rows;
}

/** Configs of tasks that ended before. Answers how many went. */
export async function purgeConfigs(db: Queryable, endedBefore: number): Promise<number> {
  const { rowCount } = await db.query(
    `delete from push_configs p using exchanges e where e.id = p.exchange_id and e.ended_at < $1`,
    [endedBefore],
  );
  return rowCount;
}
