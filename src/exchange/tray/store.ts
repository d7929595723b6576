import type { Db, Queryable } from '../../db/types.ts';

export type Decision = 'allow_once' | 'allow_always' | 'deny' | 'deny_always';
export type Scope = 'peer' | 'peer_action' | 'global';

/** A question that waits, or waited, for an owner. Times in milliseconds. */
export interface PermissionRow {
  id: string;
  owner: string;
  agentId: string;
  level: 'L2' | 'L3';
  action: string;
  effects: string[];
  names: string[];
  domain: string;
  linkId: string | null;
  content: string;
  exchangeId: string;
  expiresAt: number;
  createdAt: number;
  decidableAt: number;
  decision: Decision | 'pending' | 'expired' | 'withdrawn';
  decidedScope: Scope | null;
  decidedAt: number | null;
  requestSeq: number;
  requestId: string;
  conversation: string | null;
  /** The thread as the asker wrote it. */
  peerThread: string;
  askerAddr: string;
}

const columns = `p.id, p.owner, p.agent_id as "agentId", p.level, p.action, p.effects, p.names, p.peer_domain as domain, p.link_id as "linkId",
  p.content, p.exchange_id as "exchangeId", p.expires_at as "expiresAt", p.created_at as "createdAt", p.decidable_at as "decidableAt", p.decision,
  p.decided_scope as "decidedScope", p.decided_at as "decidedAt", e.request_seq as "requestSeq", e.request_id as "requestId",
  e.asked_conversation as conversation, e.asker_thread as "peerThread", e.asker_addr as "askerAddr"`;
const from = 'permissions p join exchanges e on e.id = p.exchange_id';

export async function listPermissions(
  db: Db,
  owners: readonly string[],
  decided: boolean,
  q: { now: number; limit: number },
): Promise<PermissionRow[]> {
  const sql = decided
    ? `select ${columns} from ${from} where p.owner = any($1) and p.decision <> 'pending' and $2::bigint is not null order by p.decided_at desc, p.id desc limit $3`
    : `select ${columns} from ${from} where p.owner = any($1) and p.decision = 'pending' and p.expires_at > $2 order by p.created_at desc, p.id desc limit $3`;
  return (await db.query<PermissionRow>(sql, [owners, q.now, q.limit])).rows;
}

/** Locks the exchange, then the row, as whoever ends the exchange does. Null when no row of these owners has that id. */
export async function lockPermission(
  db: Queryable,
  owners: readonly string[],
  id: string,
): Promise<PermissionRow | null> {
  await db.query(
    'select from exchanges e where e.id = (select exchange_id from permissions where id = $2 and owner = any($1)) for update',
    [owners, id],
  );
  const sql = `select ${columns} from ${from} where p.id = $2 and p.owner = any($1) for update of p`;
  return (await db.query<PermissionRow>(sql, [owners, id])).rows[0] ?? null;
}

export async function permissionById(
  db: Queryable,
  owners: readonly string[],
  id: string,
): Promise<PermissionRow | null> {
  const sql = `select ${columns} from ${from} where p.id = $2 and p.owner = any($1)`;
  return (await db.query<PermissionRow>(sql, [owners, id])).rows[0] ?? null;
}

export async function saveDecision(
  db: Queryable,
  q: { id: string; decision: PermissionRow['decision']; scope: Scope | null; now: number },
): Promise<void> {
  await db.query(
    `update permissions set decision = $2, decided_scope = $3, decided_at = $4 where id = $1 and decision = 'pending'`,
    [q.id, q.decision, q.scope, q.now],
  );
}

/** The topics to wake; none when it had ended. */
export async function release(db: Queryable, exchangeId: string, now: number): Promise<string[]> {
  const { rows } = await db.query<{ wakes: string[] }>('select release_held($1, $2) as wakes', [exchangeId, now]);
  return rows[0]?.wakes ?? [];
}

/** A later rule for the same takes the place of an earlier one. */
export async function saveRule(
  db: Queryable,
  rule: { id: string; owner: string; action: string; peerDid: string; decision: 'allow' | 'deny'; now: number },
): Promise<void> {
  await db.query(
    `insert into standing_rules (id, owner, action, peer_did, decision, created_at) values ($1, $2, $3, $4, $5, $6)
     on conflict (owner, peer_did, action) do update set id = excluded.id, decision = excluded.decision, created_at = excluded.created_at`,
    [rule.id, rule.owner, rule.action, rule.peerDid, rule.decision, rule.now],
  );
}

export async function expiredPermissions(
  db: Db,
  now: number,
  limit: number,
): Promise<Array<{ id: string; owner: string }>> {
  const sql = `select id, owner from permissions where decision = 'pending' and expires_at <= $1 order by expires_at limit $2`;
  return (await db.query<{ id: string; owner: string }>(sql, [now, limit])).rows;
}
