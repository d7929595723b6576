import type { Queryable } from '../../db/types.ts';
import type { Audience } from '../types.ts';

export interface BaseRow {
  id: string;
  owner: string;
  name: string;
  sharedWithPeers: boolean;
  documents: number;
  bytes: number;
  createdAt: number;
}

export interface DocumentRow {
  name: string;
  url: string | null;
  bytes: number;
  updatedAt: number;
}

export interface FoundRow {
  base: string;
  document: string;
  url: string | null;
  place: string;
  text: string;
}

const columns = `b.id, b.owner, b.name, b.shared_with_peers as "sharedWithPeers", b.created_at as "createdAt",
  (select count(*)::int from knowledge_documents d where d.base_id = b.id) as documents,
  (select coalesce(sum(d.bytes), 0)::bigint from knowledge_documents d where d.base_id = b.id) as bytes`;

export async function basesOf(db: Queryable, owners: readonly string[]): Promise<BaseRow[]> {
  const sql = `select ${columns} from knowledge_bases b where b.owner = any($1) order by b.name, b.id`;
  return (await db.query<BaseRow>(sql, [owners])).rows;
}

/** By id or by name. */
export async function baseNamed(db: Queryable, owners: readonly string[], name: string): Promise<BaseRow | undefined> {
  const sql = `select ${columns} from knowledge_bases b where b.owner = any($1) and (b.id = $2 or b.name = $2) order by b.id = $2 desc limit 1`;
  return (await db.query<BaseRow>(sql, [owners, name])).rows[0];
}

/** False when the owner has one of that name. */
export async function insertBase(
  db: Queryable,
  base: { id: string; owner: string; name: string; shared: boolean; now: number },
): Promise<boolean> {
  const { rowCount } = await db.query(
    'insert into knowledge_bases (id, owner, name, shared_with_peers, created_at) values ($1, $2, $3, $4, $5) on conflict (owner, name) do nothing',
    [base.id, base.owner, base.name, base.shared, base.now],
  );
  return rowCount === 1;
}

export async function setShared(db: Queryable, id: string, shared: boolean): Promise<void> {
  await db.query('update knowledge_bases set shared_with_peers = $2 where id = $1', [id, shared]);
}

export async function deleteBase(db: Queryable, id: string): Promise<void> {
  await db.query('delete from knowledge_bases where id = $1', [id]);
}

/** Bytes of all documents of an owner, which stays so until the transaction ends. */
export async function lockOwner(tx: Queryable, owner: string): Promise<{ bases: number; bytes: number }> {
  await tx.query('select from members where id = $1 for update', [owner]);
  const { rows } = await tx.query<{ bases: number; bytes: number }>(
    `select (select count(*)::int from knowledge_bases where owner = $1) as bases, (select coalesce(sum(d.bytes), 0)::bigint
       from knowledge_documents d join knowledge_bases b on b.id = d.base_id where b.owner = $1) as bytes`,
    [owner],
  );
  return rows[0]!;
}

export async function documentsOf(db: Queryable, baseId: string): Promise<DocumentRow[]> {
  const sql = `select name, url, bytes, updated_at as "updatedAt" from knowledge_documents where base_id = $1 order by name`;
  return (await db.query<DocumentRow>(sql, [baseId])).rows;
}

export interface NewDocument {
  id: string;
  baseId: string;
  name: string;
  url: string | null;
  bytes: number;
  chunks: ReadonlyArray<{ place: string; text: string; words: string }>;
  now: number;
}

/** In the place of the one of that name. Answers whether it is a new one. */
export async function putDocument(tx: Queryable, document: NewDocument): Promise<boolean> {
  const { id, baseId, name, url, bytes, chunks, now } = document;
  const replaced = await deleteDocument(tx, baseId, name);
  await tx.query(
    'insert into knowledge_documents (id, base_id, name, url, bytes, updated_at) values ($1, $2, $3, $4, $5, $6)',
    [id, baseId, name, url, bytes, now],
  );
  await tx.query(
    `insert into knowledge_chunks (document_id, n, place, text, words)
       select $1, c.n, c.place, c.text, to_tsvector('simple', c.words)
       from unnest($2::text[], $3::text[], $4::text[]) with ordinality as c(place, text, words, n)`,
    [id, chunks.map((each) => each.place), chunks.map((each) => each.text), chunks.map((each) => each.words)],
  );
  return !replaced;
}

export async function deleteDocument(tx: Queryable, baseId: string, name: string): Promise<boolean> {
  return (
    (await tx.query('delete from knowledge_documents where base_id = $1 and name = $2', [baseId, name])).rowCount > 0
  );
}

/**
 * The best of what an audience may see: a peer's search cannot reach a base that is not shared. `base`: in that one alone.
 */
export async function search(
  db: Queryable,
  audience: Audience,
  q: { owner: string; query: string; base: string | null; limit: number },
): Promise<FoundRow[]> {
  const { rows } = await db.query<FoundRow>(
    `select b.name as base, d.name as document, d.url, c.place, c.text
       from to_tsquery('simple', $2) q, knowledge_chunks c
       join knowledge_documents d on d.id = c.document_id join knowledge_bases b on b.id = d.base_id
       where c.words @@ q and b.owner = $1 and ($3 = 'owner' or b.shared_with_peers) and ($4::text is null or b.name = $4)
       order by ts_rank(c.words, q, 1) desc, c.document_id, c.n limit $5`,
    [q.owner, q.query, audience, q.base, q.limit],
  );
  return rows;
}

export async function visible(db: Queryable, audience: Audience, owner: string): Promise<BaseRow[]> {
  const sql = `select ${columns} from knowledge_bases b where b.owner = $1 and ($2 = 'owner' or b.shared_with_peers) order by b.name`;
  return (await db.query<BaseRow>(sql, [owner, audience])).rows;
}
