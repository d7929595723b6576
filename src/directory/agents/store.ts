import type { Queryable } from '../../db/types.ts';
import type { Agent, AgentPolicy } from '../types.ts';

interface AgentRow extends Omit<Agent, 'profile' | 'address'> {
  profile: string;
}

const columns = `a.id, a.org_id as "orgId", o.handle as org, o.is_primary as "orgIsPrimary", a.team_id as "teamId", t.handle as team,
  a.member_id as "memberId", m.person_id as "personId", m.handle as "user", a.handle,
  coalesce(a.display_name, a.handle) as name, a.description, a.adapter, a.profile, a.allow,
  a.trust, a.signed_only as "signedOnly", a.encrypted_only as "encryptedOnly", a.is_default as "isDefault",
  a.is_front_desk as "isFrontDesk", a.is_listed as "isListed"`;

const joins = 'join orgs o on o.id = a.org_id join teams t on t.id = a.team_id join members m on m.id = a.member_id';

function toAgent({ profile, ...row }: AgentRow): Agent {
  return {
    ...row,
    address: `${row.org}/${row.team}/${row.user}/${row.handle}`,
    profile: JSON.parse(profile) as Agent['profile'],
  };
}

/** `org` is a handle of this instance. */
export interface AgentPath {
  org: string;
  team: string;
  user: string;
  agent: string;
}

/** In the order asked; null where there is none. */
export async function agentsByPath(db: Queryable, paths: readonly AgentPath[]): Promise<Array<Agent | null>> {
  const sql = `select q.i::int as i, ${columns}
    from unnest($1::text[], $2::text[], $3::text[], $4::text[]) with ordinality as q(org, team, usr, agent, i)
    join orgs o on o.handle = q.org
    join teams t on t.org_id = o.id and t.handle = q.team
    join members m on m.org_id = o.id and m.handle = q.usr
    join agents a on a.team_id = t.id and a.member_id = m.id and a.handle = q.agent`;
  const values = [
    paths.map((p) => p.org),
    paths.map((p) => p.team),
    paths.map((p) => p.user),
    paths.map((p) => p.agent),
  ];
  return inOrder(paths.length, (await db.query<AgentRow & { i: number }>(sql, values, { prepare: true })).rows);
}

export async function agentsById(db: Queryable, ids: readonly string[]): Promise<Agent[]> {
  const sql = `select ${columns} from agents a ${joins} where a.id = any($1::text[])`;
  const { rows } = await db.query<AgentRow>(sql, [ids], { prepare: true });
  return rows.map(toAgent);
}

/**
 * The agent that goes by a name in an org, whatever the case: the one that was given it as a name, else the only one with that handle. None when
 * several share the handle.
 */
export async function agentNamed(db: Queryable, orgId: string, name: string): Promise<Agent | undefined> {
  const sql = `select ${columns}, a.display_name is not null as named from agents a ${joins} where a.org_id = $1 and a.handle = $2
    order by a.display_name is null limit 2`;
  const { rows } = await db.query<AgentRow & { named: boolean }>(sql, [orgId, name.toLowerCase()]);
  const [first] = rows;
  if (!first || (rows.length > 1 && !first.named)) return undefined;
  const { named: _named, ...row } = first;
  return toAgent(row);
}

/** Each member's marked agent, or her first. */
export async function defaultAgents(db: Queryable, memberIds: readonly string[]): Promise<Agent[]> {
  const sql = `select distinct on (a.member_id) ${columns} from agents a ${joins} where a.member_id = any($1::text[])
    order by a.member_id, a.is_default desc, a.created_at, a.id`;
  return (await db.query<AgentRow>(sql, [memberIds])).rows.map(toAgent);
}

/** Member ids by org handle and user, in the order asked. */
export async function memberIdsByPath(
  db: Queryable,
  paths: ReadonlyArray<{ org: string; user: string }>,
): Promise<Array<string | null>> {
  const sql = `select q.i::int as i, m.id from unnest($1::text[], $2::text[]) with ordinality as q(org, usr, i)
    join orgs o on o.handle = q.org join members m on m.org_id = o.id and m.handle = q.usr`;
  const { rows } = await db.query<{ i: number; id: string }>(sql, [paths.map((p) => p.org), paths.map((p) => p.user)]);
  const found: Array<string | null> = paths.map(() => null);
  for (const row of rows) found[row.i - 1] = row.id;
  return found;
}

/** The agents of an org by address, from `after` on. */
export async function agentsOfOrg(db: Queryable, q: { orgId: string; after: string; limit: number }): Promise<Agent[]> {
  const sql = `select ${columns} from agents a ${joins}
    where a.org_id = $1 and (t.handle || '/' || m.handle || '/' || a.handle) collate "C" > $2
    order by (t.handle || '/' || m.handle || '/' || a.handle) collate "C" limit $3`;
  return (await db.query<AgentRow>(sql, [q.orgId, q.after, q.limit])).rows.map(toAgent);
}

export async function agentsOfMember(db: Queryable, memberId: string): Promise<Agent[]> {
  const sql = `select ${columns} from agents a ${joins} where a.member_id = $1 order by a.created_at, a.id`;
  return (await db.query<AgentRow>(sql, [memberId])).rows.map(toAgent);
}

/** Those that the instance names to strangers: agents that take anyone, and those an admin lists. */
export async function publicAgents(db: Queryable, limit: number): Promise<Agent[]> {
  const sql = `select ${columns} from agents a ${joins} where a.is_listed or 'anyone' = any(a.allow) order by a.created_at, a.id limit $1`;
  return (await db.query<AgentRow>(sql, [limit])).rows.map(toAgent);
}

/** The agent that the operator marked as the instance's front desk. */
export async function frontDesk(db: Queryable): Promise<Agent | undefined> {
  const row = (await db.query<AgentRow>(`select ${columns} from agents a ${joins} where a.is_front_desk`)).rows[0];
  return row && toAgent(row);
}

/** Serialises what is counted or marked within an org. */
export async function lockOrg(db: Queryable, orgId: string): Promise<void> {
  await db.query('select 1 from orgs where id = $1 for no key update', [orgId]);
}

export async function countAgents(db: Queryable, orgId: string): Promise<number> {
  return (await db.query<{ n: number }>('select count(*)::int as n from agents where org_id = $1', [orgId])).rows[0]!.n;
}

export interface NewAgent {
  id: string;
  orgId: string;
  teamId: string;
  memberId: string;
  handle: string;
  now: number;
}

/** False when it is there already. The member's first agent is her default one. */
export async function insertAgent(db: Queryable, row: NewAgent): Promise<boolean> {
  const sql = `insert into agents (id, org_id, team_id, member_id, handle, is_default, created_at, updated_at)
    values ($1, $2, $3, $4, $5, not exists (select 1 from agents where member_id = $4), $6, $6)
    on conflict (team_id, member_id, handle) do nothing`;
  return (await db.query(sql, [row.id, row.orgId, row.teamId, row.memberId, row.handle, row.now])).rowCount === 1;
}

export async function insertMailbox(db: Queryable, agentId: string): Promise<void> {
  await db.query('insert into mailboxes (agent_id) values ($1)', [agentId]);
}

/** Changes what is given and leaves the rest. */
export async function updateAgent(
  db: Queryable,
  id: string,
  change: { description?: string; adapter?: string; profile?: string; policy?: AgentPolicy; now: number },
): Promise<void> {
  const { policy } = change;
  const sql = `update agents set updated_at = $2, description = coalesce($3, description), adapter = coalesce($4, adapter),
      profile = coalesce($5, profile), allow = coalesce($6::text[], allow), trust = coalesce($7, trust),
      signed_only = coalesce($8, signed_only), encrypted_only = coalesce($9, encrypted_only)
    where id = $1`;
  await db.query(sql, [
    id,
    change.now,
    change.description ?? null,
    change.adapter ?? null,
    change.profile ?? null,
    policy ? [...policy.allow] : null,
    policy?.trust ?? null,
    policy?.signedOnly ?? null,
    policy?.encryptedOnly ?? null,
  ]);
}

/** Under `lockOrg`. */
export async function isTaken(db: Queryable, orgId: string, handle: string): Promise<boolean> {
  const { rows } = await db.query('select from agents where org_id = $1 and handle = $2 limit 1', [orgId, handle]);
  return rows.length > 0;
}

export async function setName(db: Queryable, agentId: string, name: string): Promise<void> {
  await db.query('update agents set display_name = $2 where id = $1', [agentId, name]);
}

/** Under `lockOrg`: one default agent per member. */
export async function markDefault(db: Queryable, memberId: string, agentId: string): Promise<void> {
  await db.query('update agents set is_default = false where member_id = $1 and is_default and id <> $2', [
    memberId,
    agentId,
  ]);
  await db.query('update agents set is_default = true where id = $1', [agentId]);
}

/** The instance has one front desk, so two who mark one decide one after the other. */
export async function clearFrontDesk(db: Queryable, except: string): Promise<void> {
  await db.query('select 1 from orgs where is_primary for no key update');
  await db.query('update agents set is_front_desk = false where is_front_desk and id <> $1', [except]);
}

export async function setMarks(
  db: Queryable,
  agentId: string,
  marks: { listed: boolean | null; frontDesk: boolean | null },
): Promise<void> {
  const sql = `update agents set is_listed = coalesce($2, is_listed), is_front_desk = coalesce($3, is_front_desk) where id = $1`;
  await db.query(sql, [agentId, marks.listed, marks.frontDesk]);
}

/** The node that announced itself as listening, before its first take. */
export async function setListener(db: Queryable, agentId: string, nodeId: string): Promise<void> {
  await db.query('update mailboxes set node_id = $2 where agent_id = $1 and node_id is distinct from $2', [
    agentId,
    nodeId,
  ]);
}

/** Milliseconds of the last take (0: never), and the name of the node that takes. */
export async function lastSeen(
  db: Queryable,
  agentIds: readonly string[],
): Promise<Array<{ agentId: string; lastSeen: number; node: string | null }>> {
  const sql = `select b.agent_id as "agentId", b.last_seen as "lastSeen", n.name as node
    from mailboxes b left join nodes n on n.id = b.node_id where b.agent_id = any($1::text[])`;
  return (await db.query<{ agentId: string; lastSeen: number; node: string | null }>(sql, [agentIds])).rows;
}

export interface SessionRow {
  agentId: string;
  n: number;
  state: 'open' | 'closed';
  lastAt: number;
  /** Null unless a viewer owns or takes part in it. */
  title: string | null;
  thread: string | null;
}

/** The newest sessions of each agent; what they are about shows only to `viewers` (participants: `m:…`, `p:…`) of theirs. */
export async function sessionsOf(
  db: Queryable,
  q: { agentIds: readonly string[]; viewers: readonly string[]; perAgent: number },
): Promise<SessionRow[]> {
  const sql = `select s.agent_id as "agentId", s.n, s.state, s.last_at as "lastAt",
      case when v.sees then s.title end as title, case when v.sees then s.conversation end as thread
    from unnest($1::text[]) as a(id)
    cross join lateral (select * from sessions where agent_id = a.id order by n desc limit $3) s
    cross join lateral (select 'm:' || s.owner = any($2::text[]) or exists (select 1 from conversation_participants p
      where p.owner = s.owner and p.conversation = s.conversation and p.participant = any($2::text[])) as sees) v
    order by s.agent_id, s.n`;
  return (await db.query<SessionRow>(sql, [q.agentIds, q.viewers, q.perAgent])).rows;
}

function inOrder(count: number, rows: Array<AgentRow & { i: number }>): Array<Agent | null> {
  const found: Array<Agent | null> = new Array<null>(count).fill(null);
  for (const { i, ...row } of rows) found[i - 1] = toAgent(row);
  return found;
}
