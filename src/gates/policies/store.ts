import type { Db } from '../../db/types.ts';
import type { DecidedRule } from './types.ts';

export interface StandingRows {
  decided: DecidedRule[];
  /** The owner's policy as she wrote it, or null. */
  source: string | null;
}

/** What stands of each owner for any of these names. In the order of `asked`. */
export async function standingFor(
  db: Db,
  asked: ReadonlyArray<{ owner: string; names: readonly string[] }>,
): Promise<StandingRows[]> {
  const owners = [...new Set(asked.map(({ owner }) => owner))];
  const [rules, sources] = await Promise.all([
    db.query<DecidedRule & { owner: string }>(
      `select owner, action, peer_did as "peerDid", decision, created_at as "createdAt" from standing_rules
        where owner = any($1) and (peer_did = '' or peer_did = any($2)) order by owner, created_at`,
      [owners, [...new Set(asked.flatMap(({ names }) => names))]],
    ),
    db.query<{ owner: string; source: string }>('select owner, source from standing_policies where owner = any($1)', [
      owners,
    ]),
  ]);
  const sourceOf = new Map(sources.rows.map(({ owner, source }) => [owner, source]));
  return asked.map(({ owner }) => ({
    decided: rules.rows.filter((rule) => rule.owner === owner),
    source: sourceOf.get(owner) ?? null,
  }));
}

export async function readSource(db: Db, owner: string): Promise<{ source: string; updatedAt: number } | null> {
  const sql = 'select source, updated_at as "updatedAt" from standing_policies where owner = $1';
  return (await db.query<{ source: string; updatedAt: number }>(sql, [owner])).rows[0] ?? null;
}

/** Null removes it. */
export async function saveSource(db: Db, owner: string, source: string | null, now: number): Promise<void> {
  if (source === null) {
    await db.query('delete from standing_policies where owner = $1', [owner]);
    return;
  }
  await db.query(
    `insert into standing_policies (owner, source, updated_at) values ($1, $2, $3)
     on conflict (owner) do update set source = excluded.source, updated_at = excluded.updated_at`,
    [owner, source, now],
  );
}

export interface DecidedRow extends DecidedRule {
  id: string;
}

export async function decidedRules(db: Db, owners: readonly string[]): Promise<DecidedRow[]> {
  const sql = `select id, action, peer_did as "peerDid", decision, created_at as "createdAt" from standing_rules
    where owner = any($1) order by created_at desc limit 500`;
  return (await db.query<DecidedRow>(sql, [owners])).rows;
}

export async function deleteDecidedRule(db: Db, owners: readonly string[], id: string): Promise<boolean> {
  return (await db.query('delete from standing_rules where owner = any($1) and id = $2', [owners, id])).rowCount > 0;
}
