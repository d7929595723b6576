import type { Queryable, Tx } from '../../db/types.ts';
import type { Exposure } from '../types.ts';
import type { Standing } from './moves.ts';

export interface LinkRow extends Standing {
  id: string;
  orgId: string;
  org: string;
  orgIsPrimary: boolean;
  plan: 'free' | 'pro' | 'enterprise';
  peerHandle: string;
  peerDomain: string | null;
  peerAlias: string | null;
  peerOrg: string | null;
  peerOrgId: string | null;
  toldRev: number;
  signedOnly: boolean;
  ips: string[];
  theirRules: string;
  knownAs: string | null;
  problem: string | null;
  ours: Exposure[];
  theirs: Exposure[];
}

export interface LogRow {
  id: string;
  side: 'ours' | 'theirs';
  at: number;
  by: string;
  what: string;
  /** JSON text. */
  detail: string;
}

const exposuresOf = (side: 'ours' | 'theirs'): string => `coalesce((
  select json_agg(json_build_object('kind', e.kind, 'pattern', e.pattern) order by e.kind, e.pattern)
  from link_exposures e where e.link_id = l.id and e.side = '${side}'), '[]'::json)`;

const columns = `l.id, l.org_id as "orgId", o.handle as org, o.is_primary as "orgIsPrimary", o.plan,
  l.peer_handle as "peerHandle", l.peer_domain as "peerDomain", l.peer_alias as "peerAlias", l.peer_org as "peerOrg",
  l.peer_org_id as "peerOrgId", l.our_want as "ourWant", l.their_want as "theirWant", l.voided, l.our_rev as "ourRev",
  l.their_rev as "theirRev", l.told_rev as "toldRev", l.signed_only as "signedOnly", l.ips, l.their_rules as "theirRules",
  l.known_as as "knownAs", l.problem, ${exposuresOf('ours')} as ours, ${exposuresOf('theirs')} as theirs`;
const tables = 'links l join orgs o on o.id = l.org_id';

/** Serialises what makes or renames links of these orgs. Comes before any lock on a link. */
export async function lockOrgs(tx: Tx, orgIds: readonly string[]): Promise<void> {
  await tx.query('select 1 from orgs where id = any($1) order by id for no key update', [orgIds]);
}

/** The links, locked in one order, as they stand now. */
export async function lockLinks(tx: Tx, ids: readonly string[]): Promise<LinkRow[]> {
  // The lock first: a statement that waits for one still reads sub-selects as they were before it.
  await tx.query('select 1 from links where id = any($1) order by id for update', [ids]);
  return (await tx.query<LinkRow>(`select ${columns} from ${tables} where l.id = any($1) order by l.id`, [ids])).rows;
}

export async function linkById(db: Queryable, id: string): Promise<LinkRow | undefined> {
  return (await db.query<LinkRow>(`select ${columns} from ${tables} where l.id = $1`, [id])).rows[0];
}

export async function linksById(db: Queryable, ids: readonly string[]): Promise<LinkRow[]> {
  return (await db.query<LinkRow>(`select ${columns} from ${tables} where l.id = any($1)`, [ids])).rows;
}

/** What names a peer: a handle or an authority with its `:` written `-`; `home`: the name is this instance's own authority. */
export interface PeerName {
  orgId: string;
  name: string;
  home: boolean;
}

/** In the order of `names`. The domain of a peer names it before any handle does. */
export async function linksByPeer(db: Queryable, names: readonly PeerName[]): Promise<Array<LinkRow | undefined>> {
  const sql = `select distinct on (q.i) q.i::int as i, ${columns}
    from unnest($1::text[], $2::text[], $3::boolean[]) with ordinality as q(org, name, home, i)
    join links l on l.org_id = q.org
      and (l.peer_handle = q.name or l.peer_alias = q.name
        or (q.home and exists (select 1 from orgs p where p.id = l.peer_org_id and p.is_primary)))
    join orgs o on o.id = l.org_id
    order by q.i, (l.peer_alias is not distinct from q.name) desc, l.id`;
  const values = [names.map((n) => n.orgId), names.map((n) => n.name), names.map((n) => n.home)];
  const { rows } = await db.query<LinkRow & { i: number }>(sql, values, { prepare: true });
  const found = new Map(rows.map(({ i, ...row }) => [i - 1, row]));
  return names.map((_, i) => found.get(i));
}

export async function linksByDomain(db: Queryable, domains: readonly string[]): Promise<LinkRow[]> {
  const sql = `select ${columns} from ${tables} where l.peer_domain = any($1) order by l.id`;
  return (await db.query<LinkRow>(sql, [domains], { prepare: true })).rows;
}

export async function linksByOrg(db: Queryable, orgIds: readonly string[]): Promise<LinkRow[]> {
  const sql = `select ${columns} from ${tables} where l.org_id = any($1) order by o.handle, l.peer_handle`;
  return (await db.query<LinkRow>(sql, [orgIds])).rows;
}

/** The link of an org here to the org that calls itself `peerOrg` behind `domain`; `alias` finds a primary one that has not told its handle. */
export async function linkBehind(
  db: Queryable,
  q: { orgId: string; domain: string; peerOrg: string; alias: string | null },
): Promise<string | undefined> {
  const sql = `select id from links where org_id = $1 and peer_domain = $2 and (peer_org = $3 or peer_alias = $4)
    order by (peer_alias is not distinct from $4) desc limit 1`;
  return (await db.query<{ id: string }>(sql, [q.orgId, q.domain, q.peerOrg, q.alias])).rows[0]?.id;
}

export interface OrgRow {
  id: string;
  handle: string;
  isPrimary: boolean;
}

/** By handle; null is the primary org. */
export async function orgByHandle(db: Queryable, handle: string | null): Promise<OrgRow | undefined> {
  const sql = `select id, handle, is_primary as "isPrimary" from orgs where ${handle === null ? 'is_primary' : 'handle = $1'}`;
  return (await db.query<OrgRow>(sql, handle === null ? [] : [handle])).rows[0];
}

export async function orgById(db: Queryable, id: string): Promise<OrgRow | undefined> {
  return (await db.query<OrgRow>('select id, handle, is_primary as "isPrimary" from orgs where id = $1', [id])).rows[0];
}

/** The link of one org of this instance with another. */
export async function linkBetween(db: Queryable, orgId: string, peerOrgId: string): Promise<string | undefined> {
  const sql = 'select id from links where org_id = $1 and peer_org_id = $2';
  return (await db.query<{ id: string }>(sql, [orgId, peerOrgId])).rows[0]?.id;
}

/** The other side's row of a link between two orgs of this instance; null when the other side is elsewhere. */
export async function twinOf(db: Queryable, id: string): Promise<string | null> {
  const sql =
    'select t.id from links l join links t on t.org_id = l.peer_org_id and t.peer_org_id = l.org_id where l.id = $1';
  return (await db.query<{ id: string }>(sql, [id])).rows[0]?.id ?? null;
}

/** Domains whose proposals wait and who call themselves so, though they are not written so here. */
export async function strangersCalled(db: Queryable, orgId: string, handle: string): Promise<string[]> {
  const sql = `select peer_domain from links where org_id = $1 and peer_org = $2 and peer_handle <> $2 and peer_domain is not null
    and their_want > 0 and our_want = 0 order by created_at`;
  return (await db.query<{ peer_domain: string }>(sql, [orgId, handle])).rows.map((row) => row.peer_domain);
}

/** Whether the org already writes somebody else so: another link of it, or an org of this instance. */
export async function isHandleTaken(
  db: Queryable,
  q: { orgId: string; handle: string; except: string | null },
): Promise<boolean> {
  const sql = `select exists (select 1 from orgs where handle = $2)
    or exists (select 1 from links where org_id = $1 and (peer_handle = $2 or peer_alias = $2) and id is distinct from $3) as taken`;
  return (await db.query<{ taken: boolean }>(sql, [q.orgId, q.handle, q.except])).rows[0]!.taken;
}

/** How many links the org wants, which is what its plan counts. */
export async function countWanted(db: Queryable, orgId: string): Promise<number> {
  const sql = 'select count(*)::int as n from links where org_id = $1 and our_want > 0';
  return (await db.query<{ n: number }>(sql, [orgId])).rows[0]!.n;
}

/** Proposals from outside that nobody here has answered: of all, and links of any state with that domain. */
export async function countStrangers(
  db: Queryable,
  orgId: string,
  domain: string,
): Promise<{ pending: number; ofDomain: number }> {
  const sql = `select count(*) filter (where peer_domain is not null and our_rev = 0)::int as pending,
      count(*) filter (where peer_domain = $2)::int as "ofDomain"
    from links where org_id = $1`;
  return (await db.query<{ pending: number; ofDomain: number }>(sql, [orgId, domain])).rows[0]!;
}

/** An admin's block of the domain closes this door too (design §4). */
export async function isBlocked(db: Queryable, orgId: string, domain: string): Promise<boolean> {
  return (
    (await db.query('select 1 from blocked_domains where org_id = $1 and domain = $2', [orgId, domain])).rowCount > 0
  );
}

export interface NewLink {
  id: string;
  orgId: string;
  peerHandle: string;
  peerDomain: string | null;
  peerAlias: string | null;
  peerOrg: string | null;
  peerOrgId: string | null;
  now: number;
}

/** Under `lockOrgs`. False when there is one already. */
export async function insertLink(tx: Tx, link: NewLink): Promise<boolean> {
  const sql = `insert into links (id, org_id, peer_handle, peer_domain, peer_alias, peer_org, peer_org_id, created_at, updated_at)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $8) on conflict do nothing`;
  const values = [
    link.id,
    link.orgId,
    link.peerHandle,
    link.peerDomain,
    link.peerAlias,
    link.peerOrg,
    link.peerOrgId,
    link.now,
  ];
  return (await tx.query(sql, values)).rowCount === 1;
}

export async function deleteLink(tx: Tx, id: string): Promise<void> {
  await tx.query('delete from links where id = $1', [id]);
}

export async function saveStanding(tx: Tx, id: string, s: Standing, now: number): Promise<void> {
  const sql = `update links set our_want = $2, their_want = $3, voided = $4, our_rev = $5, their_rev = $6, updated_at = $7 where id = $1`;
  await tx.query(sql, [id, s.ourWant, s.theirWant, s.voided, s.ourRev, s.theirRev, now]);
}

export async function saveRules(
  tx: Tx,
  id: string,
  rules: { signedOnly: boolean; ips: readonly string[] },
): Promise<void> {
  await tx.query('update links set signed_only = $2, ips = $3 where id = $1', [id, rules.signedOnly, rules.ips]);
}

export interface Told {
  peerHandle: string;
  peerAlias: string | null;
  peerOrg: string;
  knownAs: string | null;
  theirRules: string;
}

export async function saveTold(tx: Tx, id: string, told: Told): Promise<void> {
  const sql =
    'update links set peer_handle = $2, peer_alias = $3, peer_org = $4, known_as = $5, their_rules = $6 where id = $1';
  await tx.query(sql, [id, told.peerHandle, told.peerAlias, told.peerOrg, told.knownAs, told.theirRules]);
}

/** The peer has our side up to this revision. */
export async function saveConfirmed(db: Queryable, id: string, rev: number): Promise<void> {
  await db.query('update links set told_rev = greatest(told_rev, $2), problem = null where id = $1', [id, rev]);
}

export async function saveProblem(db: Queryable, id: string, problem: string): Promise<void> {
  await db.query('update links set problem = $2 where id = $1', [id, problem]);
}

export async function addExposure(tx: Tx, id: string, side: LogRow['side'], exposure: Exposure): Promise<boolean> {
  const sql =
    'insert into link_exposures (link_id, side, kind, pattern) values ($1, $2, $3, $4) on conflict do nothing';
  return (await tx.query(sql, [id, side, exposure.kind, exposure.pattern])).rowCount === 1;
}

export async function removeExposure(tx: Tx, id: string, side: LogRow['side'], exposure: Exposure): Promise<boolean> {
  const sql = 'delete from link_exposures where link_id = $1 and side = $2 and kind = $3 and pattern = $4';
  return (await tx.query(sql, [id, side, exposure.kind, exposure.pattern])).rowCount === 1;
}

export async function replaceExposures(
  tx: Tx,
  id: string,
  side: LogRow['side'],
  exposures: readonly Exposure[],
): Promise<void> {
  await tx.query('delete from link_exposures where link_id = $1 and side = $2', [id, side]);
  if (exposures.length === 0) return;
  const sql = `insert into link_exposures (link_id, side, kind, pattern)
    select $1, $2, * from unnest($3::text[], $4::text[]) on conflict do nothing`;
  await tx.query(sql, [id, side, exposures.map((e) => e.kind), exposures.map((e) => e.pattern)]);
}

/** Merges by id: an entry that is known stays as it is. */
export async function addLog(tx: Tx, linkId: string, entries: readonly LogRow[]): Promise<void> {
  if (entries.length === 0) return;
  const sql = `insert into link_log (link_id, side, id, at, by, what, detail)
    select $1, * from unnest($2::text[], $3::text[], $4::bigint[], $5::text[], $6::text[], $7::text[]) on conflict do nothing`;
  const column = (key: keyof LogRow): unknown[] => entries.map((entry) => entry[key]);
  await tx.query(sql, [
    linkId,
    column('side'),
    column('id'),
    column('at'),
    column('by'),
    column('what'),
    column('detail'),
  ]);
}

/** Forgets all but the newest `keep` of what the peer told. */
export async function trimTheirLog(tx: Tx, linkId: string, keep: number): Promise<void> {
  const sql = `delete from link_log where link_id = $1 and side = 'theirs' and id in (
    select id from link_log where link_id = $1 and side = 'theirs' order by at desc, id desc offset $2)`;
  await tx.query(sql, [linkId, keep]);
}

/** The newest `limit` of each side of each link (a peer that talks much hides nothing of ours), oldest first. */
export async function logOf(
  db: Queryable,
  linkIds: readonly string[],
  limit: number,
  sides: ReadonlyArray<LogRow['side']> = ['ours', 'theirs'],
): Promise<Map<string, LogRow[]>> {
  const sql = `select l.id as link, e.* from unnest($1::text[]) as l(id) cross join unnest($3::text[]) as s(side) cross join lateral (
      select id, side, at, by, what, detail from link_log where link_id = l.id and side = s.side
      order by at desc, id desc limit $2) e order by e.at, e.id`;
  const { rows } = await db.query<LogRow & { link: string }>(sql, [linkIds, limit, sides]);
  const logs = new Map<string, LogRow[]>();
  for (const { link, ...row } of rows) logs.set(link, [...(logs.get(link) ?? []), row]);
  return logs;
}
