import type { Queryable } from '../../db/types.ts';
import type { ConnectionRequest, Contact } from '../types.ts';

export interface NewPeer {
  id: string;
  did: string;
  domain: string;
  now: number;
}

/** The ids of these DIDs' rows, made where they are missing; in the order of `peers`, whose DIDs differ. */
export async function ensurePeers(db: Queryable, peers: readonly NewPeer[]): Promise<string[]> {
  // Sorted, so that two statements that make the same rows lock them in one order.
  const sorted = [...peers].sort((a, b) => (a.did < b.did ? -1 : 1));
  await db.query(
    `insert into peers (id, did, domain, created_at)
     select * from unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) on conflict (did) do nothing`,
    [sorted.map((p) => p.id), sorted.map((p) => p.did), sorted.map((p) => p.domain), sorted.map((p) => p.now)],
  );
  const { rows } = await db.query<{ id: string; did: string }>('select id, did from peers where did = any($1)', [
    sorted.map((p) => p.did),
  ]);
  const ids = new Map(rows.map((row) => [row.did, row.id]));
  return peers.map((peer) => ids.get(peer.did)!);
}

const contactColumns = 'c.id, c.owner, c.peer_id as "peerId", p.did as "peerDid", c.blocked, c.alias, c.policy';

/** For each owner the contact for any of its DIDs, a blocked one first, then in the order of the DIDs. */
export async function contactsFor(
  db: Queryable,
  asked: ReadonlyArray<{ owner: string; dids: readonly string[] }>,
): Promise<Array<Contact | null>> {
  const sql = `select distinct on (q.i) q.i, ${contactColumns}
    from unnest($1::int[], $2::text[], $3::text[], $4::int[]) as q(i, owner, did, rank)
    join peers p on p.did = q.did join contacts c on c.owner = q.owner and c.peer_id = p.id
    order by q.i, c.blocked desc, q.rank`;
  const keys = asked.flatMap(({ owner, dids }, i) => dids.map((did, rank) => ({ i, owner, did, rank })));
  const values = [keys.map((k) => k.i), keys.map((k) => k.owner), keys.map((k) => k.did), keys.map((k) => k.rank)];
  const { rows } = await db.query<Contact & { i: number }>(sql, values, { prepare: true });
  const found = new Map(rows.map(({ i, ...contact }) => [i, contact]));
  return asked.map((_, i) => found.get(i) ?? null);
}

export async function insertContact(
  db: Queryable,
  contact: { id: string; owner: string; peerId: string; alias: string | null; via: string; now: number },
): Promise<Contact> {
  await db.query(
    'insert into contacts (id, owner, peer_id, alias, created_at, added_via) values ($1, $2, $3, $4, $5, $6) on conflict (owner, peer_id) do nothing',
    [contact.id, contact.owner, contact.peerId, contact.alias, contact.now, contact.via],
  );
  const sql = `select ${contactColumns} from contacts c join peers p on p.id = c.peer_id where c.owner = $1 and c.peer_id = $2`;
  return (await db.query<Contact>(sql, [contact.owner, contact.peerId])).rows[0]!;
}

export async function setBlocked(
  db: Queryable,
  owner: string,
  id: string,
  blocked: boolean,
): Promise<Contact | undefined> {
  const sql = `update contacts c set blocked = $3 from peers p where c.owner = $1 and c.id = $2 and p.id = c.peer_id returning ${contactColumns}`;
  return (await db.query<Contact>(sql, [owner, id, blocked])).rows[0];
}

export async function deleteContact(db: Queryable, owner: string, id: string): Promise<boolean> {
  return (await db.query('delete from contacts where owner = $1 and id = $2', [owner, id])).rowCount === 1;
}

const requestColumns = `id, owner, peer_did as "peerDid", peer_domain as "peerDomain", agent_id as "agentId",
  first_message as "firstMessage", room, decision, created_at as "createdAt", decided_at as "decidedAt"`;

/**
 * One row per owner and stranger. A request that was allowed and whose contact the owner has removed since is a new one; a denied one stays
 * denied. At most `max` of its kind wait for one owner: DIDs cost a stranger nothing, and those without a domain
 * least of all, so that they never take the room of the others
 * (and none where the agent takes no requests of theirs).
 */
export async function requestConnection(
  db: Queryable,
  request: {
    id: string;
    owner: string;
    peerDid: string;
    peerDomain: string;
    agentId: string | null;
    firstMessage: string;
    room: string;
    now: number;
  },
  max: number,
): Promise<void> {
  const sql = `insert into connection_requests (id, owner, peer_did, peer_domain, agent_id, first_message, created_at, room)
    select $1, $2, $3, $4, $5, $6, $7::bigint, $9
    where (select count(*) from connection_requests where owner = $2 and decision = 'pending' and (peer_domain = '') = ($4 = '')) < $8
      and not ($4 = '' and exists (select from trust_settings where agent_id = $5 and connect = 'closed'))
    on conflict (owner, peer_did, room) do update set decision = 'pending', decided_at = null, created_at = excluded.created_at,
      agent_id = excluded.agent_id, first_message = excluded.first_message
    where connection_requests.decision = 'allowed' and case when excluded.room = ''
      then not exists (select from contacts c join peers p on p.id = c.peer_id where c.owner = excluded.owner and p.did = excluded.peer_did)
      else not exists (select from room_members m where m.agent_id = excluded.room and m.did = excluded.peer_did and m.state = 'member') end`;
  const { id, owner, peerDid, peerDomain, agentId, firstMessage, now, room } = request;
  await db.query(sql, [id, owner, peerDid, peerDomain, agentId, firstMessage, now, max, room]);
}

export async function listRequests(
  db: Queryable,
  owner: string,
  decided: boolean,
  limit: number,
): Promise<ConnectionRequest[]> {
  const sql = decided
    ? `select ${requestColumns} from connection_requests where owner = $1 and decision <> 'pending' order by decided_at desc, id desc limit $2`
    : `select ${requestColumns} from connection_requests where owner = $1 and decision = 'pending' order by created_at desc, id desc limit $2`;
  return (await db.query<ConnectionRequest>(sql, [owner, limit])).rows;
}

/** Claims the decision: undefined when it was decided before, or is not this owner's. */
export async function decideRequest(
  db: Queryable,
  q: { owner: string; id: string; decision: 'allowed' | 'denied'; now: number },
): Promise<ConnectionRequest | undefined> {
  const sql = `update connection_requests set decision = $3, decided_at = $4
    where owner = $1 and id = $2 and decision = 'pending' returning ${requestColumns}`;
  return (await db.query<ConnectionRequest>(sql, [q.owner, q.id, q.decision, q.now])).rows[0];
}

export async function requestById(db: Queryable, owner: string, id: string): Promise<ConnectionRequest | undefined> {
  const sql = `select ${requestColumns} from connection_requests where owner = $1 and id = $2`;
  return (await db.query<ConnectionRequest>(sql, [owner, id])).rows[0];
}

export interface ContactRow {
  id: string;
  owner: string;
  alias: string | null;
  tags: string[];
  pinned: boolean;
  muted: boolean;
  blocked: boolean;
  addedVia: string;
  policy: string | null;
  createdAt: number;
  peerId: string;
  peerDid: string;
  peerDomain: string;
  peerName: string;
}

const rowColumns = `c.id, c.owner, c.alias, c.tags, c.pinned, c.muted, c.blocked, c.added_via as "addedVia", c.policy, c.created_at as "createdAt",
  p.id as "peerId", p.did as "peerDid", p.domain as "peerDomain", p.name as "peerName"`;
const rowFrom = 'contacts c join peers p on p.id = c.peer_id';

/** Newest first. */
export async function listContacts(
  db: Queryable,
  owners: readonly string[],
  { limit, offset }: { limit: number; offset: number },
): Promise<{ contacts: ContactRow[]; total: number }> {
  const sql = `select ${rowColumns} from ${rowFrom} where c.owner = any($1) order by c.created_at desc, c.id desc limit $2 offset $3`;
  const [{ rows }, count] = await Promise.all([
    db.query<ContactRow>(sql, [owners, limit, offset]),
    db.query<{ n: number }>('select count(*)::int as n from contacts where owner = any($1)', [owners]),
  ]);
  return { contacts: rows, total: count.rows[0]!.n };
}

export async function contactRow(db: Queryable, owners: readonly string[], id: string): Promise<ContactRow | null> {
  const sql = `select ${rowColumns} from ${rowFrom} where c.owner = any($1) and c.id = $2`;
  return (await db.query<ContactRow>(sql, [owners, id])).rows[0] ?? null;
}

export interface ContactChange {
  alias?: string | null | undefined;
  tags?: readonly string[] | undefined;
  pinned?: boolean | undefined;
  muted?: boolean | undefined;
  blocked?: boolean | undefined;
  policy?: string | null | undefined;
}

/** What is undefined stays. False when no contact of these owners has that id. */
export async function changeContact(
  db: Queryable,
  owners: readonly string[],
  id: string,
  { alias, tags, pinned, muted, blocked, policy }: ContactChange,
): Promise<boolean> {
  const { rowCount } = await db.query(
    `update contacts set alias = case when $3 then $4 else alias end, tags = coalesce($5, tags), pinned = coalesce($6, pinned),
        muted = coalesce($7, muted), blocked = coalesce($8, blocked), policy = case when $9 then $10 else policy end
      where owner = any($1) and id = $2`,
    [
      owners,
      id,
      alias !== undefined,
      alias ?? null,
      tags ?? null,
      pinned ?? null,
      muted ?? null,
      blocked ?? null,
      policy !== undefined,
      policy ?? null,
    ],
  );
  return rowCount > 0;
}

export async function peerById(db: Queryable, id: string): Promise<{ did: string; domain: string } | null> {
  return (
    (await db.query<{ did: string; domain: string }>('select did, domain from peers where id = $1', [id])).rows[0] ??
    null
  );
}

/** What peers call themselves, as it was last looked up. */
export async function namePeers(db: Queryable, peers: ReadonlyArray<{ did: string; name: string }>): Promise<void> {
  const sorted = [...peers].sort((a, b) => (a.did < b.did ? -1 : 1));
  await db.query(
    `update peers p set name = n.name from unnest($1::text[], $2::text[]) as n(did, name) where p.did = n.did and p.name <> n.name`,
    [sorted.map(({ did }) => did), sorted.map(({ name }) => name)],
  );
}

/** The owner let this DID in of her own accord: what it, or who signs for it, asked is answered with it. True when it had asked. */
export async function answerRequest(db: Queryable, owner: string, did: string, now: number): Promise<boolean> {
  const { rowCount } = await db.query(
    `update connection_requests set decision = 'allowed', decided_at = $3
      where owner = $1 and room = '' and decision in ('pending', 'denied') and (peer_did = $2 or starts_with($2, peer_did || ':') or starts_with(peer_did, $2 || ':'))`,
    [owner, did, now],
  );
  return rowCount > 0;
}

export async function blockOwnDomain(db: Queryable, owner: string, domain: string, now: number): Promise<void> {
  await db.query(
    'insert into owner_blocked_domains (owner, domain, created_at) values ($1, $2, $3) on conflict do nothing',
    [owner, domain, now],
  );
}

export async function unblockOwnDomain(db: Queryable, owners: readonly string[], domain: string): Promise<boolean> {
  const sql = 'delete from owner_blocked_domains where owner = any($1) and domain = $2';
  return (await db.query(sql, [owners, domain])).rowCount > 0;
}

export interface BlockRow {
  domain: string;
  scope: 'organisation' | 'own';
  createdAt: number;
}

export async function listBlocks(
  db: Queryable,
  owners: readonly string[],
  orgIds: readonly string[],
): Promise<BlockRow[]> {
  const sql = `select domain, 'organisation' as scope, created_at as "createdAt" from blocked_domains where org_id = any($2)
    union all select domain, 'own', created_at from owner_blocked_domains where owner = any($1) order by 1, 2 limit 1000`;
  return (await db.query<BlockRow>(sql, [owners, orgIds])).rows;
}

export async function blockedDomains(
  db: Queryable,
  asked: ReadonlyArray<{ orgId: string; domain: string; owner: string | null }>,
): Promise<boolean[]> {
  const sql = `select q.i::int as i from unnest($1::text[], $2::text[], $3::text[]) with ordinality as q(org, domain, owner, i)
    where exists (select from blocked_domains b where b.org_id = q.org and b.domain = q.domain)
      or exists (select from owner_blocked_domains o where o.owner = q.owner and o.domain = q.domain)`;
  const values = [asked.map((q) => q.orgId), asked.map((q) => q.domain), asked.map((q) => q.owner)];
  const { rows } = await db.query<{ i: number }>(sql, values, { prepare: true });
  const blocked = new Set(rows.map((row) => row.i - 1));
  return asked.map((_, i) => blocked.has(i));
}

export async function blockDomain(db: Queryable, orgId: string, domain: string, now: number): Promise<void> {
  await db.query(
    'insert into blocked_domains (org_id, domain, created_at) values ($1, $2, $3) on conflict do nothing',
    [orgId, domain, now],
  );
}

export async function unblockDomain(db: Queryable, orgId: string, domain: string): Promise<boolean> {
  return (
    (await db.query('delete from blocked_domains where org_id = $1 and domain = $2', [orgId, domain])).rowCount === 1
  );
}
