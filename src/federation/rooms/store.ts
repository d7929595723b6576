import type { Queryable, Tx } from '../../db/types.ts';

export interface MemberRow {
  did: string;
  /** `org/team/user/agent` of a member here; null for one elsewhere. */
  address: string | null;
  name: string;
  url: string | null;
  problem: string | null;
  joinedAt: number;
}

const columns = `m.did, m.name, m.url, m.problem, m.joined_at as "joinedAt",
  o.handle || '/' || t.handle || '/' || w.handle || '/' || a.handle as address`;
const from = `room_members m left join agents a on a.id = m.local_agent left join orgs o on o.id = a.org_id left join teams t on t.id = a.team_id
  left join members w on w.id = a.member_id`;

/** Locks the room's roll, so that its size is counted right. */
export async function lockRoom(tx: Tx, agentId: string): Promise<void> {
  await tx.query('select 1 from mailboxes where agent_id = $1 for no key update', [agentId]);
}

export async function countMembers(db: Queryable, agentId: string): Promise<number> {
  const sql = `select count(*)::int as n from room_members where agent_id = $1 and state = 'member'`;
  return (await db.query<{ n: number }>(sql, [agentId])).rows[0]!.n;
}

export async function membersOf(db: Queryable, agentId: string): Promise<MemberRow[]> {
  const sql = `select ${columns} from ${from} where m.agent_id = $1 and m.state = 'member' order by m.joined_at, m.did`;
  return (await db.query<MemberRow>(sql, [agentId])).rows;
}

/** Whether any of these DIDs, or that agent here, is in. */
export async function isMember(
  db: Queryable,
  q: { agentId: string; dids: readonly string[]; localAgent: string | null },
): Promise<boolean> {
  const sql = `select 1 from room_members where agent_id = $1 and state = 'member' and (did = any($2::text[]) or local_agent = $3) limit 1`;
  return (await db.query(sql, [q.agentId, q.dids, q.localAgent], { prepare: true })).rowCount > 0;
}

/** False when it was in already. */
export async function insertMember(
  db: Queryable,
  q: { agentId: string; did: string; localAgent: string | null; name: string; url: string | null; now: number },
): Promise<boolean> {
  const sql = `insert into room_members as m (agent_id, did, local_agent, name, url, state, joined_at) values ($1, $2, $3, $4, $5, 'member', $6)
    on conflict (agent_id, did) do update set local_agent = $3, name = $4, url = $5, state = 'member', problem = null, joined_at = $6, ended_at = null
      where m.state <> 'member'`;
  return (await db.query(sql, [q.agentId, q.did, q.localAgent, q.name, q.url, q.now])).rowCount > 0;
}

/** The agent here that it was, or null when it lives elsewhere; undefined when it was no member. */
export async function endMember(
  db: Queryable,
  q: { agentId: string; did: string; state: 'left' | 'removed'; now: number },
): Promise<string | null | undefined> {
  const sql = `update room_members set state = $3, ended_at = $4 where agent_id = $1 and did = $2 and state = 'member' returning local_agent as agent`;
  return (await db.query<{ agent: string | null }>(sql, [q.agentId, q.did, q.state, q.now])).rows[0]?.agent;
}

/** The topic of a room, made on its first use. */
export async function topicOfRoom(
  tx: Tx,
  q: { agentId: string; team: string; name: string; newId: string; now: number },
): Promise<string> {
  await tx.query(
    'insert into topics (id, room_agent, team, name, created_at) values ($1, $2, $3, $4, $5) on conflict (room_agent) do nothing',
    [q.newId, q.agentId, q.team, q.name, q.now],
  );
  return (await tx.query<{ id: string }>('select id from topics where room_agent = $1', [q.agentId])).rows[0]!.id;
}

/** A member here listens, or no longer does. What waits for it is still handed out. */
export async function setListening(
  tx: Tx,
  q: { topicId: string; agentId: string; on: boolean; conversation: string; now: number },
): Promise<void> {
  await tx.query(
    `insert into subscriptions as s (topic_id, agent_id, active, conversation, created_at) values ($1, $2, $3, $4, $5)
     on conflict (topic_id, agent_id) do update set active = excluded.active`,
    [q.topicId, q.agentId, q.on, q.conversation, q.now],
  );
}

/** An ephemeral room that is empty again lets nobody in by what was given out before. */
export async function endInvites(db: Queryable, agentId: string, now: number): Promise<void> {
  await db.query(
    'update trust_invites set revoked_at = $2 where agent_id = $1 and revoked_at is null and spent_at is null',
    [agentId, now],
  );
}

/** What happened to the last thing that was sent to a member elsewhere; null: it got it. */
export async function noteProblem(
  db: Queryable,
  q: { agentId: string; did: string; problem: string | null },
): Promise<void> {
  await db.query(
    'update room_members set problem = $3 where agent_id = $1 and did = $2 and problem is distinct from $3',
    [q.agentId, q.did, q.problem?.slice(0, 500) ?? null],
  );
}
