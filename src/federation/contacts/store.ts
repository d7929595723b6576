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

const contactColumns = 'c.id, c.owner, c.peer_id as "peerId", p.did as "peerDid", c.blocked';

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
  const { rows } = await db.query<Contact & { i: number }>(sql, [
    keys.map((k) => k.i),
    keys.map((k) => k.owner),
    keys.map((k) => k.did),
    keys.map((k) => k.rank),
  ]);
  const found = new Map(rows.map(({ i, ...contact }) => [i, contact]));
  return asked.map((_, i) => found.get(i) ?? null);
}

export async function insertContact(
  db: Queryable,
  contact: { id: string; owner: string; peerId: string; alias: string | null; now: number },
): Promise<Contact> {
  await db.query(
    'insert into contacts (id, owner, peer_id, alias, created_at) values ($1, $2, $3, $4, $5) on conflict (owner, peer_id) do nothing',
    [contact.id, contact.owner, contact.peerId, contact.alias, contact.now],
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
  first_message as "firstMessage", decision, created_at as "createdAt", decided_at as "decidedAt"`;

/**
 * One row per owner and stranger. A request that was allowed and whose contact the owner has removed since is a new one; a denied one stays
 * denied. At most `max` wait for one owner: DIDs cost a stranger nothing.
 */
export async function requestConnection(
  db: Queryable,
  request: {
    id: string;
    owner: string;
    peerDid: string;
    peerDomain: string;
    agentId: string;
    firstMessage: string;
    now: number;
  },
  max: number,
): Promise<void> {
  const sql = `insert into connection_requests (id, owner, peer_did, peer_domain, agent_id, first_message, created_at)
    select $1, $2, $3, $4, $5, $6, $7::bigint
    where (select count(*) from connection_requests where owner = $2 and decision = 'pending') < $8
    on conflict (owner, peer_did) do update set decision = 'pending', decided_at = null, created_at = excluded.created_at,
      agent_id = excluded.agent_id, first_message = excluded.first_message
    where connection_requests.decision = 'allowed' and not exists (
      select 1 from contacts c join peers p on p.id = c.peer_id where c.owner = excluded.owner and p.did = excluded.peer_did)`;
  const { id, owner, peerDid, peerDomain, agentId, firstMessage, now } = request;
  await db.query(sql, [id, owner, peerDid, peerDomain, agentId, firstMessage, now, max]);
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

export async function blockedDomains(
  db: Queryable,
  asked: ReadonlyArray<{ orgId: string; domain: string }>,
): Promise<boolean[]> {
  const sql = `select q.i::int as i from unnest($1::text[], $2::text[]) with ordinality as q(org, domain, i)
    join blocked_domains b on b.org_id = q.org and b.domain = q.domain`;
  const { rows } = await db.query<{ i: number }>(sql, [asked.map((q) => q.orgId), asked.map((q) => q.domain)]);
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
