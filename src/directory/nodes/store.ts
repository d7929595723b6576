import type { Queryable } from '../../db/types.ts';
import type { NodeIdentity } from '../types.ts';

/** A node as its own person sees it. */
export interface NodeRow {
  id: string;
  name: string;
  createdAt: number;
  publicKey: string | null;
  encKey: string | null;
}

export interface NodeByHash extends NodeIdentity {
  tokenHash: Buffer;
}

export async function nodesByHash(db: Queryable, hashes: readonly Buffer[]): Promise<NodeByHash[]> {
  const sql = `select n.token_hash as "tokenHash", n.id as "nodeId", n.name as "nodeName", n.person_id as "personId",
      p.is_operator as "isOperator", p.email, n.public_key as "publicKey", n.enc_key as "encKey", n.enc_sig as "encSig",
      coalesce((select json_agg(json_build_object('id', m.id, 'orgId', m.org_id, 'org', o.handle, 'orgIsPrimary', o.is_primary,
          'personId', m.person_id, 'handle', m.handle, 'role', m.role) order by o.is_primary desc, m.created_at, m.id)
        from members m join orgs o on o.id = m.org_id where m.person_id = n.person_id), '[]'::json) as members
    from nodes n join people p on p.id = n.person_id
    where n.token_hash = any($1::bytea[]) and n.revoked_at is null`;
  return (await db.query<NodeByHash>(sql, [hashes], { prepare: true })).rows;
}

/** False when that token exists already. */
export async function insertNode(
  db: Queryable,
  row: { id: string; personId: string; name: string; tokenHash: Buffer; now: number },
): Promise<boolean> {
  const sql = `insert into nodes (id, person_id, name, token_hash, created_at) values ($1, $2, $3, $4, $5)
    on conflict (token_hash) do nothing`;
  return (await db.query(sql, [row.id, row.personId, row.name, row.tokenHash, row.now])).rowCount === 1;
}

export async function nodesOf(db: Queryable, personId: string): Promise<NodeRow[]> {
  const sql = `select id, name, created_at as "createdAt", public_key as "publicKey", enc_key as "encKey" from nodes
    where person_id = $1 and revoked_at is null order by created_at, id limit 1000`;
  return (await db.query<NodeRow>(sql, [personId])).rows;
}

export async function countNodes(db: Queryable, personId: string): Promise<number> {
  const sql = 'select count(*)::int as n from nodes where person_id = $1 and revoked_at is null';
  return (await db.query<{ n: number }>(sql, [personId])).rows[0]!.n;
}

/** False when the person has no such node, or it was revoked before. */
export async function revokeNode(db: Queryable, personId: string, id: string, now: number): Promise<boolean> {
  const sql = 'update nodes set revoked_at = $3 where id = $2 and person_id = $1 and revoked_at is null';
  return (await db.query(sql, [personId, id, now])).rowCount === 1;
}

export async function revokeAllNodes(db: Queryable, personId: string, now: number): Promise<void> {
  await db.query('update nodes set revoked_at = $2 where person_id = $1 and revoked_at is null', [personId, now]);
}

/**
 * Registers a node's keys; false when it has another signing key and `rotate` was not said. The same signing key without an encryption key
 * keeps the one that is there; a new signing key does not, because the old proof is not its own.
 */
export async function setNodeKey(
  db: Queryable,
  q: { nodeId: string; publicKey: string; encKey: string | null; encSig: string | null; rotate: boolean; now: number },
): Promise<boolean> {
  const sql = `update nodes set public_key = $2, key_set_at = $6,
      enc_key = case when $3::text is null and public_key = $2 then enc_key else $3 end,
      enc_sig = case when $3::text is null and public_key = $2 then enc_sig else $4 end
    where id = $1 and revoked_at is null and (public_key is null or public_key = $2 or $5)`;
  return (await db.query(sql, [q.nodeId, q.publicKey, q.encKey, q.encSig, q.rotate, q.now])).rowCount === 1;
}

export interface NodeKey {
  nodeId: string;
  node: string;
  signingKey: string;
  encKey: string;
  encSig: string;
}

/** The keys of the node that listened last for an agent, when it has an encryption key. Nothing is sealed for a webhook. */
export async function keyOfListener(db: Queryable, agentId: string): Promise<NodeKey | undefined> {
  const sql = `select n.id as "nodeId", n.name as node, n.public_key as "signingKey", n.enc_key as "encKey", n.enc_sig as "encSig"
    from mailboxes b join nodes n on n.id = b.node_id
    where b.agent_id = $1 and n.revoked_at is null and n.public_key is not null and n.enc_key is not null and n.enc_sig is not null
      and not exists (select from webhooks w where w.agent_id = b.agent_id)`;
  return (await db.query<NodeKey>(sql, [agentId])).rows[0];
}

/** Who was told which node's key last. */
export async function noteServed(
  db: Queryable,
  q: { agentId: string; readers: readonly string[]; nodeId: string; now: number },
): Promise<void> {
  const sql = `insert into served_keys as k (agent_id, reader, node_id, served_at) select $1, r, $3, $4 from unnest($2::text[]) as r order by r
    on conflict (agent_id, reader) do update set node_id = excluded.node_id, served_at = excluded.served_at
      where k.node_id <> excluded.node_id`;
  await db.query(sql, [q.agentId, q.readers, q.nodeId, q.now]);
}

/** The node whose key a reader was told last, while it is there and has one. */
export async function nodeLastServed(db: Queryable, agentId: string, reader: string): Promise<string | undefined> {
  const sql = `select n.id from served_keys k join nodes n on n.id = k.node_id
    where k.agent_id = $1 and k.reader = $2 and n.revoked_at is null and n.enc_key is not null`;
  return (await db.query<{ id: string }>(sql, [agentId, reader])).rows[0]?.id;
}
