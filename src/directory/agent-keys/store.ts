import type { Queryable } from '../../db/types.ts';

export interface KeyRow {
  keyHash: Buffer;
  keyId: string;
  agentId: string;
  memberId: string;
}

/** The keys of these hashes that are not revoked. */
export async function keysByHash(db: Queryable, hashes: readonly Buffer[]): Promise<KeyRow[]> {
  const sql = `select k.key_hash as "keyHash", k.id as "keyId", k.agent_id as "agentId", a.member_id as "memberId"
    from agent_keys k join agents a on a.id = k.agent_id where k.key_hash = any($1::bytea[]) and k.revoked_at is null`;
  return (await db.query<KeyRow>(sql, [hashes], { prepare: true })).rows;
}

export async function insertKey(
  db: Queryable,
  row: { id: string; agentId: string; keyHash: Buffer; now: number },
): Promise<void> {
  const sql = 'insert into agent_keys (id, agent_id, key_hash, created_at) values ($1, $2, $3, $4)';
  await db.query(sql, [row.id, row.agentId, row.keyHash, row.now]);
}

/** False when the agent has no key that is not revoked. */
export async function revokeKey(db: Queryable, agentId: string, now: number): Promise<boolean> {
  const sql = 'update agent_keys set revoked_at = $2 where agent_id = $1 and revoked_at is null';
  return (await db.query(sql, [agentId, now])).rowCount > 0;
}

/** Two who make a key for one agent do so one after the other. */
export async function lockAgent(db: Queryable, agentId: string): Promise<void> {
  await db.query('select 1 from agents where id = $1 for no key update', [agentId]);
}

/** Which of these agents have a key, and since when. Milliseconds. */
export async function keyTimes(
  db: Queryable,
  agentIds: readonly string[],
): Promise<Array<{ agentId: string; createdAt: number }>> {
  const sql = `select agent_id as "agentId", created_at as "createdAt" from agent_keys
    where agent_id = any($1::text[]) and revoked_at is null`;
  return (await db.query<{ agentId: string; createdAt: number }>(sql, [agentIds])).rows;
}
