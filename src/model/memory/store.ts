import type { Queryable } from '../../db/types.ts';
import type { Audience } from '../types.ts';

export interface MemoryRow {
  id: string;
  /** Who said it: the owner, or somebody else. */
  origin: Audience;
  /** The asker's address. */
  source: string;
  text: string;
  createdAt: number;
}

const columns = `id, origin, source, text, created_at as "createdAt"`;

export async function list(
  db: Queryable,
  owners: readonly string[],
  q: { limit: number; offset: number },
): Promise<MemoryRow[]> {
  const sql = `select ${columns} from memories where owner = any($1) order by created_at desc, id desc limit $2 offset $3`;
  return (await db.query<MemoryRow>(sql, [owners, q.limit, q.offset])).rows;
}

/** Nothing for anybody but the owner, whatever is asked. */
export async function search(
  db: Queryable,
  audience: Audience,
  q: { owner: string; query: string; limit: number },
): Promise<MemoryRow[]> {
  const { rows } = await db.query<MemoryRow>(
    `select ${columns} from memories, to_tsquery('simple', $2) q
       where $3 = 'owner' and owner = $1 and words @@ q order by ts_rank(words, q, 1) desc, created_at desc limit $4`,
    [q.owner, q.query, audience, q.limit],
  );
  return rows;
}

/** What is known already stays as it was; the oldest beyond `most` of that origin go, so that peers cannot push out what the owner said. */
export async function insert(
  db: Queryable,
  q: {
    owner: string;
    origin: Audience;
    source: string;
    facts: ReadonlyArray<{ id: string; text: string; words: string }>;
    now: number;
    most: number;
  },
): Promise<void> {
  await db.query(
    `insert into memories (id, owner, origin, source, text, words, created_at)
       select f.id, $1, $2, $3, f.text, to_tsvector('simple', f.words), $4 from unnest($5::text[], $6::text[], $7::text[]) as f(id, text, words)
       on conflict do nothing`,
    [
      q.owner,
      q.origin,
      q.source,
      q.now,
      q.facts.map((f) => f.id),
      q.facts.map((f) => f.text),
      q.facts.map((f) => f.words),
    ],
  );
  await db.query(
    `delete from memories where id in (select id from memories where owner = $1 and origin = $2 order by created_at desc, id desc offset $3)`,
    [q.owner, q.origin, q.most],
  );
}

export async function remove(db: Queryable, owners: readonly string[], id: string | null): Promise<number> {
  const sql = 'delete from memories where owner = any($1) and ($2::text is null or id = $2)';
  return (await db.query(sql, [owners, id])).rowCount;
}
