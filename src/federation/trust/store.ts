import type { Queryable } from '../../db/types.ts';
import type { Introduction } from '../../identity/introduction.ts';

export type ConnectPolicy = 'filtered' | 'open' | 'closed';
export type TrustPrivacy = 'self' | 'trusted' | 'public';

export interface TrustSettings {
  connect: ConnectPolicy;
  privacy: TrustPrivacy;
}

export async function settingsOf(db: Queryable, agentId: string): Promise<TrustSettings> {
  const sql = 'select connect, privacy from trust_settings where agent_id = $1';
  return (await db.query<TrustSettings>(sql, [agentId])).rows[0] ?? { connect: 'filtered', privacy: 'self' };
}

/** What is undefined stays. */
export async function saveSettings(db: Queryable, agentId: string, change: Partial<TrustSettings>): Promise<void> {
  await db.query(
    `insert into trust_settings as t (agent_id, connect, privacy) values ($1, coalesce($2, 'filtered'), coalesce($3, 'self'))
     on conflict (agent_id) do update set connect = coalesce($2, t.connect), privacy = coalesce($3, t.privacy)`,
    [agentId, change.connect ?? null, change.privacy ?? null],
  );
}

/** Where a peer is reached, as it says itself. */
export interface Reach {
  name: string;
  url: string | null;
  relay: string | null;
  encPub: string | null;
}

export interface PeerRow extends Reach {
  did: string;
  level: number;
  expertise: string[];
}

const peerColumns = 'did, name, url, relay, enc_pub as "encPub", level, expertise';

/** What it left out stays as it was. */
export async function savePeer(
  db: Queryable,
  q: { agentId: string; did: string; reach: Reach; now: number },
): Promise<void> {
  await db.query(
    `insert into trust_peers as t (agent_id, did, name, url, relay, enc_pub, updated_at) values ($1, $2, $3, $4, $5, $6, $7)
     on conflict (agent_id, did) do update set name = case when $3 = '' then t.name else $3 end, url = coalesce($4, t.url),
       relay = coalesce($5, t.relay), enc_pub = coalesce($6, t.enc_pub), updated_at = $7`,
    [q.agentId, q.did, q.reach.name, q.reach.url, q.reach.relay, q.reach.encPub, q.now],
  );
}

export async function peerOf(db: Queryable, agentId: string, did: string): Promise<PeerRow | null> {
  const sql = `select ${peerColumns} from trust_peers where agent_id = $1 and did = $2`;
  return (await db.query<PeerRow>(sql, [agentId, did])).rows[0] ?? null;
}

/** What the owner says of a peer. */
export async function describePeer(
  db: Queryable,
  q: { agentId: string; did: string; level: number | null; expertise: readonly string[] | null; now: number },
): Promise<PeerRow> {
  const sql = `insert into trust_peers as t (agent_id, did, level, expertise, updated_at) values ($1, $2, coalesce($3::integer, 1000), coalesce($4::text[], '{}'), $5)
    on conflict (agent_id, did) do update set level = coalesce($3, t.level), expertise = coalesce($4, t.expertise), updated_at = $5
    returning ${peerColumns}`;
  return (await db.query<PeerRow>(sql, [q.agentId, q.did, q.level, q.expertise, q.now])).rows[0]!;
}

export type Relation = 'direct' | 'blocked' | 'introduced' | 'none';

export interface Standing {
  relation: Relation;
  level: number | null;
  /** Issuers of the introductions that hold, in the order in which they were presented. */
  vouchers: string[];
  expertise: string[];
}

/** An introduction counts while it is valid and its issuer is a contact of the owner, or an agent of her organisation. */
const counts = `h.revoked_at is null and h.valid_until > $4
  and (exists (select from contacts c join peers p on p.id = c.peer_id where c.owner = $2 and p.did = h.issuer and not c.blocked)
    or exists (select from keys k join agents a on k.holder in ('agent:' || a.id, 'owner:' || a.member_id) join agents mine on mine.id = h.agent_id
      where k.public_multibase = substring(h.issuer from 9) and k.state <> 'pending' and (k.listed_until is null or k.listed_until > $4)
        and a.org_id = mine.org_id))`;

/** How a did:key stands with an agent of that owner. `isRoom`: its members are what an owner's contacts are to her other agents. */
export async function standing(
  db: Queryable,
  q: { agentId: string; owner: string; did: string; now: number; isRoom: boolean },
): Promise<Standing> {
  const sql = `with contact as (
      select c.blocked from contacts c join peers p on p.id = c.peer_id where c.owner = $2 and p.did = $3 and (c.blocked or not $5)
      union all
      select false from room_members m where $5 and m.agent_id = $1 and m.did = $3 and m.state = 'member'
    ), held as (
      select h.issuer, h.level, h.expertise, h.created_at from introductions_held h where h.agent_id = $1 and h.subject = $3 and ${counts}
    ), known as (
      select level, expertise from trust_peers where agent_id = $1 and did = $3
    )
    select case when (select bool_or(blocked) from contact) then 'blocked' when exists (select from contact) then 'direct'
        when exists (select from held) then 'introduced' else 'none' end as relation,
      case when exists (select from contact) then coalesce((select level from known), 1000) else (select max(level) from held) end as level,
      coalesce((select array_agg(issuer order by at, issuer) from (select issuer, min(created_at) as at from held group by issuer) v), '{}') as vouchers,
      case when exists (select from contact) then coalesce((select expertise from known), '{}')
        else coalesce((select array_agg(distinct e) from held cross join unnest(held.expertise) as x(e)), '{}') end as expertise`;
  return (await db.query<Standing>(sql, [q.agentId, q.owner, q.did, q.now, q.isRoom])).rows[0]!;
}

/** Contacts of the owner that she said know about `topic`, the best trusted first. */
export async function expertsOn(
  db: Queryable,
  q: { agentId: string; owner: string; topic: string; except: string },
): Promise<PeerRow[]> {
  const sql = `select t.did, t.name, t.url, t.relay, t.enc_pub as "encPub", t.level, t.expertise
    from trust_peers t join peers p on p.did = t.did join contacts c on c.peer_id = p.id and c.owner = $2 and not c.blocked
    where t.agent_id = $1 and t.did <> $4
      and exists (select from unnest(t.expertise) as x(e) where position(lower(x.e) in lower($3)) > 0 or position(lower($3) in lower(x.e)) > 0)
    order by t.level desc, t.did limit 5`;
  return (await db.query<PeerRow>(sql, [q.agentId, q.owner, q.topic, q.except])).rows;
}

export interface HeldRow {
  issuer: string;
  id: string;
  subject: string;
  level: number;
  expertise: string[];
  endpoint: string | null;
  validUntil: number;
  createdAt: number;
  checkedAt: number | null;
  revokedAt: number | null;
}

const heldColumns = `issuer, id, subject, level, expertise, endpoint, valid_until as "validUntil", created_at as "createdAt",
  checked_at as "checkedAt", revoked_at as "revokedAt"`;

/** Presented again it stays what it was; a revocation is never taken back. Of one issuer an agent keeps 1,000. */
export async function holdIntroduction(
  db: Queryable,
  q: { agentId: string; introduction: Introduction; checkedAt: number | null; now: number },
): Promise<void> {
  const { issuer, id, subject, level, expertise, endpoint, validUntil } = q.introduction;
  await db.query(
    `insert into introductions_held as h (agent_id, issuer, id, subject, level, expertise, endpoint, valid_until, created_at, checked_at)
     select $1, $2, $3, $4, $5::integer, $6::text[], $7, $8::bigint, $9::bigint, $10::bigint
       where (select count(*) from introductions_held where agent_id = $1 and issuer = $2) < 1000
     on conflict (agent_id, issuer, id) do update set checked_at = coalesce(excluded.checked_at, h.checked_at)`,
    [q.agentId, issuer, id, subject, level, expertise, endpoint, validUntil, q.now, q.checkedAt],
  );
}

export async function heldById(db: Queryable, agentId: string, issuer: string, id: string): Promise<HeldRow | null> {
  const sql = `select ${heldColumns} from introductions_held where agent_id = $1 and issuer = $2 and id = $3`;
  return (await db.query<HeldRow>(sql, [agentId, issuer, id])).rows[0] ?? null;
}

/** Those that are neither revoked nor expired, newest first, at most 200; `subject` null: of everybody. */
export async function heldOf(
  db: Queryable,
  q: { agentId: string; subject: string | null; now: number },
): Promise<HeldRow[]> {
  const sql = `select ${heldColumns} from introductions_held
    where agent_id = $1 and ($2::text is null or subject = $2) and revoked_at is null and valid_until > $3 order by created_at desc limit 200`;
  return (await db.query<HeldRow>(sql, [q.agentId, q.subject, q.now])).rows;
}

export async function markChecked(
  db: Queryable,
  q: { agentId: string; issuer: string; id: string; revoked: boolean; now: number },
): Promise<boolean> {
  const sql = `update introductions_held set checked_at = $4, revoked_at = case when $5 then coalesce(revoked_at, $4) else revoked_at end
    where agent_id = $1 and issuer = $2 and id = $3`;
  return (await db.query(sql, [q.agentId, q.issuer, q.id, q.now, q.revoked])).rowCount > 0;
}

/** By its issuer, when that is an agent here: it acts at once, whichever agents hold it. */
export async function markRevokedHere(db: Queryable, issuer: string, id: string, now: number): Promise<void> {
  await db.query('update introductions_held set revoked_at = coalesce(revoked_at, $3) where issuer = $1 and id = $2', [
    issuer,
    id,
    now,
  ]);
}

export interface IssuedRow {
  id: string;
  agentId: string;
  subject: string;
  introducedTo: string;
  credential: string;
  validUntil: number;
  createdAt: number;
  revokedAt: number | null;
}

const issuedColumns = `id, agent_id as "agentId", subject, introduced_to as "introducedTo", credential, valid_until as "validUntil",
  created_at as "createdAt", revoked_at as "revokedAt"`;

export async function insertIssued(db: Queryable, row: Omit<IssuedRow, 'revokedAt'>): Promise<void> {
  await db.query(
    `insert into introductions_issued (id, agent_id, subject, introduced_to, credential, valid_until, created_at) values ($1, $2, $3, $4, $5, $6, $7)`,
    [row.id, row.agentId, row.subject, row.introducedTo, row.credential, row.validUntil, row.createdAt],
  );
}

export async function issuedBy(db: Queryable, agentId: string): Promise<IssuedRow[]> {
  const sql = `select ${issuedColumns} from introductions_issued where agent_id = $1 order by created_at desc, id limit 200`;
  return (await db.query<IssuedRow>(sql, [agentId])).rows;
}

/** The one for these two that holds longest, at least until `until`. */
export async function liveIssued(
  db: Queryable,
  q: { agentId: string; subject: string; introducedTo: string; until: number },
): Promise<IssuedRow | null> {
  const sql = `select ${issuedColumns} from introductions_issued
    where agent_id = $1 and subject = $2 and introduced_to = $3 and revoked_at is null and valid_until >= $4 order by valid_until desc limit 1`;
  return (await db.query<IssuedRow>(sql, [q.agentId, q.subject, q.introducedTo, q.until])).rows[0] ?? null;
}

export async function revokeIssued(db: Queryable, agentId: string, id: string, now: number): Promise<IssuedRow | null> {
  const sql = `update introductions_issued set revoked_at = coalesce(revoked_at, $3) where agent_id = $1 and id = $2 returning ${issuedColumns}`;
  return (await db.query<IssuedRow>(sql, [agentId, id, now])).rows[0] ?? null;
}

/** Ids of introductions of an agent that are revoked and would else still hold; null when it never issued any. */
export async function revokedBy(db: Queryable, agentId: string, now: number): Promise<string[] | null> {
  const sql = `select coalesce(array_agg(id order by id) filter (where revoked_at is not null and valid_until > $2), '{}') as ids, count(*)::int as n
    from introductions_issued where agent_id = $1`;
  const row = (await db.query<{ ids: string[]; n: number }>(sql, [agentId, now])).rows[0]!;
  return row.n === 0 ? null : row.ids;
}

export async function isRevokedHere(db: Queryable, agentId: string, id: string): Promise<boolean> {
  const sql = 'select 1 from introductions_issued where agent_id = $1 and id = $2 and revoked_at is not null';
  return (await db.query(sql, [agentId, id])).rowCount > 0;
}

export interface InviteRow {
  id: string;
  purpose: string;
  createdAt: number;
  expiresAt: number;
  spentBy: string | null;
  spentAt: number | null;
  revokedAt: number | null;
}

const inviteColumns = `id, purpose, created_at as "createdAt", expires_at as "expiresAt", spent_by as "spentBy", spent_at as "spentAt",
  revoked_at as "revokedAt"`;

export async function insertInvite(
  db: Queryable,
  q: { id: string; agentId: string; nonceHash: Buffer; purpose: string; now: number; expiresAt: number },
): Promise<void> {
  await db.query(
    'insert into trust_invites (id, agent_id, nonce_hash, purpose, created_at, expires_at) values ($1, $2, $3, $4, $5, $6)',
    [q.id, q.agentId, q.nonceHash, q.purpose, q.now, q.expiresAt],
  );
}

export async function invitesOf(db: Queryable, agentId: string): Promise<InviteRow[]> {
  const sql = `select ${inviteColumns} from trust_invites where agent_id = $1 order by created_at desc, id desc limit 200`;
  return (await db.query<InviteRow>(sql, [agentId])).rows;
}

export async function revokeInvite(db: Queryable, agentId: string, id: string, now: number): Promise<boolean> {
  const sql = `update trust_invites set revoked_at = coalesce(revoked_at, $3) where agent_id = $1 and id = $2 and spent_at is null`;
  return (await db.query(sql, [agentId, id, now])).rowCount > 0;
}

/** True for the one that spends it: of several at once, one. */
export async function spendInvite(
  db: Queryable,
  q: { agentId: string; nonceHash: Buffer; by: string; now: number },
): Promise<boolean> {
  const sql = `update trust_invites set spent_by = $3, spent_at = $4
    where agent_id = $1 and nonce_hash = $2 and spent_at is null and revoked_at is null and expires_at > $4`;
  return (await db.query(sql, [q.agentId, q.nonceHash, q.by, q.now])).rowCount > 0;
}

export async function isSpentBy(
  db: Queryable,
  q: { agentId: string; nonceHash: Buffer; by: string },
): Promise<boolean> {
  const sql = 'select 1 from trust_invites where agent_id = $1 and nonce_hash = $2 and spent_by = $3';
  return (await db.query(sql, [q.agentId, q.nonceHash, q.by])).rowCount > 0;
}

export interface AskedRow {
  did: string;
  method: 'connect/request' | 'onboard/claim';
  state: 'pending' | 'connected' | 'declined' | 'failed';
  problem: string | null;
  createdAt: number;
}

/** Asked again it is pending again. */
export async function insertAsked(
  db: Queryable,
  q: { agentId: string; did: string; method: AskedRow['method']; now: number },
): Promise<void> {
  await db.query(
    `insert into trust_asked as t (agent_id, did, method, created_at, updated_at) values ($1, $2, $3, $4, $4)
     on conflict (agent_id, did) do update set method = $3, state = 'pending', problem = null, created_at = $4, updated_at = $4`,
    [q.agentId, q.did, q.method, q.now],
  );
}

/** Ends a question that waits; false when none does. */
export async function endAsked(
  db: Queryable,
  q: { agentId: string; did: string; state: AskedRow['state']; problem?: string; now: number },
): Promise<boolean> {
  const sql = `update trust_asked set state = $3, problem = $4, updated_at = $5 where agent_id = $1 and did = $2 and state = 'pending'`;
  const { rowCount } = await db.query(sql, [q.agentId, q.did, q.state, q.problem?.slice(0, 500) ?? null, q.now]);
  return rowCount > 0;
}

/** It was answered, and yet nothing came of it. */
export async function failAsked(
  db: Queryable,
  q: { agentId: string; did: string; problem: string; now: number },
): Promise<void> {
  const sql = `update trust_asked set state = 'failed', problem = $3, updated_at = $4 where agent_id = $1 and did = $2`;
  await db.query(sql, [q.agentId, q.did, q.problem.slice(0, 500), q.now]);
}

export async function askedBy(db: Queryable, agentId: string): Promise<AskedRow[]> {
  const sql = `select did, method, state, problem, created_at as "createdAt" from trust_asked where agent_id = $1 order by created_at desc, did limit 200`;
  return (await db.query<AskedRow>(sql, [agentId])).rows;
}

/** The agent that a did:key asked to connect with (`agentId`, or any of the owner's), and where it is told the answer; null when it did not say. */
export async function knockOf(
  db: Queryable,
  q: { owner: string; did: string; agentId: string | null },
): Promise<{ agentId: string; url: string | null } | null> {
  const sql = `select t.agent_id as "agentId", t.url from trust_peers t join agents a on a.id = t.agent_id
    where a.member_id = $1 and t.did = $2 and ($3::text is null or t.agent_id = $3) order by t.updated_at desc limit 1`;
  return (await db.query<{ agentId: string; url: string | null }>(sql, [q.owner, q.did, q.agentId])).rows[0] ?? null;
}

/** Whether the owner was asked and may still say yes, or said no; false when there was no room for the question. */
export async function hasKnocked(db: Queryable, q: { owner: string; did: string; room: string }): Promise<boolean> {
  const sql = 'select 1 from connection_requests where owner = $1 and peer_did = $2 and room = $3';
  return (await db.query(sql, [q.owner, q.did, q.room])).rowCount > 0;
}
