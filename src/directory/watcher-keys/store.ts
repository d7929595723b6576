import type { Queryable } from '../../db/types.ts';

export interface WatcherKeyRow {
  id: string;
  orgId: string;
  name: string;
  createdAt: number;
  lastSeen: number | null;
}

const columns = 'id, org_id as "orgId", name, created_at as "createdAt", last_seen as "lastSeen"';

export async function insertKey(
  db: Queryable,
  row: { id: string; orgId: string; name: string; keyHash: Buffer; by: string; now: number },
): Promise<void> {
  const sql = `insert into watcher_keys (id, org_id, name, key_hash, created_by, created_at) values ($1, $2, $3, $4, $5, $6)`;
  await db.query(sql, [row.id, row.orgId, row.name, row.keyHash, row.by, row.now]);
}

export async function keysOf(db: Queryable, orgId: string): Promise<WatcherKeyRow[]> {
  const sql = `select ${columns} from watcher_keys where org_id = $1 and revoked_at is null order by created_at, id limit 1000`;
  return (await db.query<WatcherKeyRow>(sql, [orgId])).rows;
}

export async function keyById(db: Queryable, id: string): Promise<WatcherKeyRow | undefined> {
  const sql = `select ${columns} from watcher_keys where id = $1 and revoked_at is null`;
  return (await db.query<WatcherKeyRow>(sql, [id])).rows[0];
}

/** The key that is not revoked. That it was seen is noted once in `every` ms. */
export async function keyByHash(
  db: Queryable,
  q: { keyHash: Buffer; now: number; every: number },
): Promise<WatcherKeyRow | undefined> {
  const sql = `select ${columns} from watcher_keys where key_hash = $1 and revoked_at is null`;
  const row = (await db.query<WatcherKeyRow>(sql, [q.keyHash])).rows[0];
  if (row && (row.lastSeen ?? 0) <= q.now - q.every) {
    await db.query('update watcher_keys set last_seen = $2 where id = $1', [row.id, q.now]);
  }
  return row;
}

/** False when it was revoked before. */
export async function revokeKey(db: Queryable, id: string, now: number): Promise<boolean> {
  const sql = 'update watcher_keys set revoked_at = $2 where id = $1 and revoked_at is null';
  return (await db.query(sql, [id, now])).rowCount === 1;
}
