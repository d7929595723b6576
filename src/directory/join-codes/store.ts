import type { Queryable } from '../../db/types.ts';

export interface NewCode {
  id: string;
  orgId: string;
  memberId: string;
  teamId: string;
  codeHash: Buffer;
  now: number;
  until: number;
}

export interface CodeRow {
  id: string;
  orgId: string;
  memberId: string;
  teamId: string;
  team: string;
  createdAt: number;
  expiresAt: number;
  revokedAt: number | null;
  usedAt: number | null;
  agentId: string | null;
}

const columns = `c.id, c.org_id as "orgId", c.member_id as "memberId", c.team_id as "teamId", t.handle as team, c.created_at as "createdAt",
  c.expires_at as "expiresAt", c.revoked_at as "revokedAt", c.used_at as "usedAt", c.agent_id as "agentId"`;

export async function insertCode(db: Queryable, row: NewCode): Promise<void> {
  const sql = `insert into join_codes (id, org_id, member_id, team_id, code_hash, created_at, expires_at)
    values ($1, $2, $3, $4, $5, $6, $7)`;
  await db.query(sql, [row.id, row.orgId, row.memberId, row.teamId, row.codeHash, row.now, row.until]);
}

/** Locked: whoever else brings the same code waits, and then sees that it was used. */
export async function lockCode(tx: Queryable, codeHash: Buffer): Promise<CodeRow | undefined> {
  const sql = `select ${columns} from join_codes c join teams t on t.id = c.team_id where c.code_hash = $1 for update of c`;
  return (await tx.query<CodeRow>(sql, [codeHash])).rows[0];
}

export async function spendCode(tx: Queryable, id: string, agentId: string, now: number): Promise<void> {
  await tx.query('update join_codes set used_at = $3, agent_id = $2 where id = $1', [id, agentId, now]);
}

export async function codeById(db: Queryable, id: string): Promise<CodeRow | undefined> {
  const sql = `select ${columns} from join_codes c join teams t on t.id = c.team_id where c.id = $1`;
  return (await db.query<CodeRow>(sql, [id])).rows[0];
}

/** False when it was used: that is not taken back. */
export async function revokeCode(db: Queryable, id: string, now: number): Promise<boolean> {
  const sql = 'update join_codes set revoked_at = coalesce(revoked_at, $2) where id = $1 and used_at is null';
  return (await db.query(sql, [id, now])).rowCount === 1;
}

/** The newest of an org, 200 at most. */
export async function codesOf(db: Queryable, orgId: string): Promise<CodeRow[]> {
  const sql = `select ${columns} from join_codes c join teams t on t.id = c.team_id where c.org_id = $1
    order by c.created_at desc, c.id limit 200`;
  return (await db.query<CodeRow>(sql, [orgId])).rows;
}

/** The team of this handle that the member is in; without a handle `general`, else her first. */
export async function teamFor(db: Queryable, memberId: string, handle: string | null): Promise<string | undefined> {
  const sql = `select t.id from teams t join team_members m on m.team_id = t.id
    where m.member_id = $1 and ($2::text is null or t.handle = $2) order by t.handle <> 'general', t.created_at, t.id limit 1`;
  return (await db.query<{ id: string }>(sql, [memberId, handle])).rows[0]?.id;
}
