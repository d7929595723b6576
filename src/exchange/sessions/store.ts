import type { Queryable } from '../../db/types.ts';
import { type MessageRow, messageColumns } from '../store.ts';
import type { ExchangeState } from '../types.ts';

export interface SessionRow {
  agentId: string;
  n: number;
  /** The owner of the agent, and of the conversation. */
  owner: string;
  conversation: string;
  title: string | null;
  state: 'open' | 'closed';
  createdAt: number;
  lastAt: number;
  /** Which of the viewers take part in it, the owner among them: `m:<member id>`. */
  viewers: string[];
}

export async function sessionOf(
  db: Queryable,
  q: { agentId: string; n: number; viewers: readonly string[] },
): Promise<SessionRow | null> {
  const sql = `select s.agent_id as "agentId", s.n, s.owner, s.conversation, s.title, s.state, s.created_at as "createdAt", s.last_at as "lastAt",
      coalesce((select array_agg(p.participant) from conversation_participants p
        where p.owner = s.owner and p.conversation = s.conversation and p.participant = any($3::text[])), '{}') as viewers
    from sessions s where s.agent_id = $1 and s.n = $2`;
  return (await db.query<SessionRow>(sql, [q.agentId, q.n, q.viewers])).rows[0] ?? null;
}

export interface SessionMessage extends MessageRow {
  state: ExchangeState | null;
}

/**
 * The newest `limit` messages of a session before `before`, oldest first. `of`: null for all of them; else only what these participants sent,
 * and what was sent to them.
 */
export async function sessionMessages(
  db: Queryable,
  q: { agentId: string; n: number; of: readonly string[] | null; before: number | null; limit: number },
): Promise<SessionMessage[]> {
  const sql = `select * from (
      select ${messageColumns}, case when m.kind = 'request' then e.state end as state
        from conversation_messages c join messages m on m.seq = c.seq left join exchanges e on e.id = m.exchange_id
        where c.agent_id = $1 and c.session = $2 and ($3::bigint is null or c.seq < $3)
          and ($4::text[] is null or m.sender = any($4) or e.asker = any($4))
        order by c.seq desc limit $5) x order by seq`;
  return (await db.query<SessionMessage>(sql, [q.agentId, q.n, q.before, q.of, q.limit])).rows;
}

export async function setTitle(db: Queryable, agentId: string, n: number, title: string | null): Promise<void> {
  await db.query('update sessions set title = $3 where agent_id = $1 and n = $2', [agentId, n, title]);
}

/** What follows in its thread, or its topic, opens another. */
export async function closeSession(db: Queryable, agentId: string, n: number): Promise<void> {
  const sql = `with closed as (
      update sessions set state = 'closed' where agent_id = $1 and n = $2
    )
    update subscriptions set session = null where agent_id = $1 and session = $2`;
  await db.query(sql, [agentId, n]);
}
