import type { Queryable } from '../../db/types.ts';

export async function addTokens(
  db: Queryable,
  q: { agentId: string; asker: string; day: number; tokens: number },
): Promise<void> {
  await db.query(
    `insert into model_usage as u (agent_id, day, asker, tokens) values ($1, $2, $3, $4)
       on conflict (agent_id, day, asker) do update set tokens = u.tokens + excluded.tokens`,
    [q.agentId, q.day, q.asker, q.tokens],
  );
}

export async function tokensOf(db: Queryable, agentId: string, day: number): Promise<number> {
  const sql = 'select coalesce(sum(tokens), 0)::bigint as tokens from model_usage where agent_id = $1 and day = $2';
  return (await db.query<{ tokens: number }>(sql, [agentId, day])).rows[0]!.tokens;
}
