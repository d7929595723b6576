import type { Queryable } from '../../db/types.ts';
import type { PlanName } from '../plans.ts';
import type { Member, Org } from '../types.ts';

const org = `o.id, o.handle, o.is_primary as "isPrimary", o.api_version as "apiVersion", o.plan`;

const member = `m.id, m.org_id as "orgId", o.handle as org, o.is_primary as "orgIsPrimary", m.person_id as "personId", m.handle, m.role`;

export async function orgsByHandle(db: Queryable, handles: readonly string[]): Promise<Org[]> {
  return (await db.query<Org>(`select ${org} from orgs o where o.handle = any($1::text[])`, [handles])).rows;
}

export async function orgsById(db: Queryable, ids: readonly string[]): Promise<Org[]> {
  return (await db.query<Org>(`select ${org} from orgs o where o.id = any($1::text[])`, [ids], { prepare: true })).rows;
}

export async function primaryOrg(db: Queryable): Promise<Org | undefined> {
  return (await db.query<Org>(`select ${org} from orgs o where o.is_primary`)).rows[0];
}

export async function membersById(db: Queryable, ids: readonly string[]): Promise<Member[]> {
  const sql = `select ${member} from members m join orgs o on o.id = m.org_id where m.id = any($1::text[])`;
  return (await db.query<Member>(sql, [ids], { prepare: true })).rows;
}

export async function memberByHandle(db: Queryable, orgId: string, handle: string): Promise<Member | undefined> {
  const sql = `select ${member} from members m join orgs o on o.id = m.org_id where m.org_id = $1 and m.handle = $2`;
  return (await db.query<Member>(sql, [orgId, handle])).rows[0];
}

export async function memberOfPerson(db: Queryable, orgId: string, personId: string): Promise<Member | undefined> {
  const sql = `select ${member} from members m join orgs o on o.id = m.org_id where m.org_id = $1 and m.person_id = $2`;
  return (await db.query<Member>(sql, [orgId, personId])).rows[0];
}

/** The first operator, in the primary org. */
export async function firstAdmin(db: Queryable): Promise<Member | undefined> {
  const sql = `select ${member} from members m join orgs o on o.id = m.org_id join people p on p.id = m.person_id
    where o.is_primary and p.is_operator order by p.created_at, p.id limit 1`;
  return (await db.query<Member>(sql)).rows[0];
}

export async function teamsOfMembers(
  db: Queryable,
  memberIds: readonly string[],
): Promise<Array<{ memberId: string; team: string }>> {
  const sql = `select tm.member_id as "memberId", t.handle as team from team_members tm join teams t on t.id = tm.team_id
    where tm.member_id = any($1::text[]) order by t.created_at, t.handle`;
  return (await db.query<{ memberId: string; team: string }>(sql, [memberIds], { prepare: true })).rows;
}

export interface NewOrg {
  id: string;
  handle: string;
  isPrimary: boolean;
  apiVersion: string;
  plan: PlanName;
  createdBy: string;
  now: number;
}

/** The plan of a person is that of the orgs she made; undefined when she made none. */
export async function planOf(db: Queryable, personId: string): Promise<PlanName | undefined> {
  const sql = 'select plan from orgs where created_by = $1 order by created_at, id limit 1';
  return (await db.query<{ plan: PlanName }>(sql, [personId])).rows[0]?.plan;
}

/** Of the person who made the org, and so of every org that she made; answers their handles. */
export async function setPlan(db: Queryable, orgId: string, plan: PlanName): Promise<string[]> {
  const sql = `update orgs set plan = $2 where id = $1 or created_by = (select created_by from orgs where id = $1) returning handle`;
  return (await db.query<{ handle: string }>(sql, [orgId, plan])).rows.map(({ handle }) => handle).sort();
}

/** False when the handle is taken (or, for a primary org, when there is one). */
export async function insertOrg(db: Queryable, row: NewOrg): Promise<boolean> {
  // What is written to a partner elsewhere must not end with somebody here who took its name.
  const sql = `insert into orgs (id, handle, is_primary, api_version, plan, created_by, created_at)
    select $1, $2, $3, $4, $5, $6, $7 where not exists (select 1 from links
      where (peer_handle = $2 or peer_alias = $2) and peer_domain is not null and our_want > 0) on conflict do nothing`;
  const values = [row.id, row.handle, row.isPrimary, row.apiVersion, row.plan, row.createdBy, row.now];
  return (await db.query(sql, values)).rowCount === 1;
}

export interface NewPerson {
  id: string;
  email: string | null;
  isOperator: boolean;
  isVouched: boolean;
  now: number;
}

/** False when the e-mail address has a person already. */
export async function insertPerson(db: Queryable, row: NewPerson): Promise<boolean> {
  const sql = `insert into people (id, email, is_operator, is_vouched, created_at) values ($1, $2, $3, $4, $5) on conflict do nothing`;
  return (await db.query(sql, [row.id, row.email, row.isOperator, row.isVouched, row.now])).rowCount === 1;
}

/** Locked until the transaction ends, so that two logins of one person decide one after the other. */
export async function lockPersonByEmail(
  db: Queryable,
  email: string,
): Promise<{ id: string; isVouched: boolean } | undefined> {
  const sql = `select id, is_vouched as "isVouched" from people where email = $1 for no key update`;
  return (await db.query<{ id: string; isVouched: boolean }>(sql, [email])).rows[0];
}

export async function vouch(db: Queryable, personId: string): Promise<void> {
  await db.query('update people set is_vouched = true where id = $1', [personId]);
}

/** False when the handle is taken, or the person is a member already. */
export async function insertMember(
  db: Queryable,
  row: { id: string; orgId: string; personId: string; handle: string; role: 'admin' | 'member'; now: number },
): Promise<boolean> {
  const sql = `insert into members (id, org_id, person_id, handle, role, created_at) values ($1, $2, $3, $4, $5, $6)
    on conflict do nothing`;
  return (await db.query(sql, [row.id, row.orgId, row.personId, row.handle, row.role, row.now])).rowCount === 1;
}

export async function setRole(db: Queryable, memberId: string, role: 'admin' | 'member'): Promise<void> {
  await db.query('update members set role = $2 where id = $1', [memberId, role]);
}

/** False when the org has a team of that name. */
export async function insertTeam(
  db: Queryable,
  row: { id: string; orgId: string; handle: string; now: number },
): Promise<boolean> {
  const sql = 'insert into teams (id, org_id, handle, created_at) values ($1, $2, $3, $4) on conflict do nothing';
  return (await db.query(sql, [row.id, row.orgId, row.handle, row.now])).rowCount === 1;
}

export async function teamId(db: Queryable, orgId: string, handle: string): Promise<string | undefined> {
  const sql = 'select id from teams where org_id = $1 and handle = $2';
  return (await db.query<{ id: string }>(sql, [orgId, handle])).rows[0]?.id;
}

export async function addToTeams(db: Queryable, memberId: string, teamIds: readonly string[]): Promise<void> {
  const sql = 'insert into team_members (team_id, member_id) select unnest($2::text[]), $1 on conflict do nothing';
  await db.query(sql, [memberId, teamIds]);
}

export async function isInTeam(db: Queryable, memberId: string, team: string): Promise<boolean> {
  const sql = 'select 1 from team_members where member_id = $1 and team_id = $2';
  return (await db.query(sql, [memberId, team])).rowCount === 1;
}

export async function insertInvite(
  db: Queryable,
  row: {
    id: string;
    orgId: string;
    teamId: string;
    email: string;
    codeHash: Buffer;
    by: string;
    now: number;
    until: number;
  },
): Promise<void> {
  const sql = `insert into invites (id, org_id, team_id, email, code_hash, invited_by, created_at, expires_at)
    values ($1, $2, $3, $4, $5, $6, $7, $8)`;
  await db.query(sql, [row.id, row.orgId, row.teamId, row.email, row.codeHash, row.by, row.now, row.until]);
}

/** Uses a code up. Nothing when it is unknown, used or past its time: of two who try at once, one gets it. */
export async function spendCode(
  db: Queryable,
  codeHash: Buffer,
  now: number,
): Promise<{ email: string; byOperator: boolean } | undefined> {
  const sql = `update invites i set used_at = $2 from people p
    where i.code_hash = $1 and i.used_at is null and i.joined_at is null and i.expires_at > $2 and p.id = i.invited_by
    returning i.email, p.is_operator as "byOperator"`;
  return (await db.query<{ email: string; byOperator: boolean }>(sql, [codeHash, now])).rows[0];
}

/**
 * Uses up a person's invitations into an org and gives their teams. One that is unused counts only when an operator vouched for her e-mail
 * address, or with its code; with the code also for somebody without an address (the first admin).
 */
export async function spendInvites(
  db: Queryable,
  q: { orgId: string; personId: string; codeHash: Buffer | null; now: number },
): Promise<string[]> {
  const sql = `update invites i set joined_at = $4, used_at = coalesce(i.used_at, $4) from people p
    where i.org_id = $1 and p.id = $2 and i.joined_at is null
      and ((i.email = p.email and (i.used_at is not null or (i.expires_at > $4 and p.is_vouched)))
        or (coalesce(p.email, i.email) = i.email and i.used_at is null and i.expires_at > $4 and i.code_hash = $3::bytea))
    returning i.team_id as "teamId"`;
  const { rows } = await db.query<{ teamId: string }>(sql, [q.orgId, q.personId, q.codeHash, q.now]);
  return rows.map((row) => row.teamId);
}

/** Invitations that wait for the person. */
export async function openInvites(
  db: Queryable,
  email: string,
  now: number,
): Promise<Array<{ org: string; team: string; expiresAt: number }>> {
  const sql = `select o.handle as org, t.handle as team, i.expires_at as "expiresAt"
    from invites i join orgs o on o.id = i.org_id join teams t on t.id = i.team_id
    where i.email = $1 and i.joined_at is null and (i.used_at is not null or i.expires_at > $2) order by i.created_at limit 100`;
  return (await db.query<{ org: string; team: string; expiresAt: number }>(sql, [email, now])).rows;
}

/** `files`: bytes that wait, of what the org sent; `filesIn`: of what it gets from elsewhere. */
export interface Used {
  messages: number;
  agents: number;
  links: number;
  webhooks: number;
  files: number;
  filesIn: number;
}

/** What an org uses of its plan now. `day`: days since 1970. */
export async function usage(db: Queryable, orgId: string, day: number): Promise<Used> {
  const sql = `select
      (select coalesce(sum(used), 0)::int from quota_days where org_id = $1 and day = $2) as messages,
      (select count(*)::int from agents where org_id = $1) as agents,
      (select count(*)::int from links where org_id = $1 and our_want > 0) as links,
      (select count(*)::int from webhooks where org_id = $1) as webhooks,
      (select coalesce(sum(bytes), 0)::bigint from message_files where payer = 'out:' || $1 and zip is not null) as files,
      (select coalesce(sum(bytes), 0)::bigint from message_files where payer = 'in:' || $1 and zip is not null) as "filesIn"`;
  return (await db.query<Used>(sql, [orgId, day])).rows[0]!;
}
