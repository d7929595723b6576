import type { Queryable } from '../../db/types.ts';
import { type MessageRow, messageColumns } from '../store.ts';
import type { ExchangeState } from '../types.ts';

/** An exchange as a list shows it. */
export interface ListedRow {
  id: string;
  thread: string;
  asked_agent: string | null;
  asked_addr: string;
  state: ExchangeState;
  reason: string | null;
  created_at: number;
  updated_at: number;
}

export interface ListFilter {
  /** `asker` values: those who look. */
  askers: readonly string[];
  /** Of these only what this agent asked: its address, without session. */
  askerAddr: string | null;
  thread: string | null;
  state: ExchangeState | null;
  /** Milliseconds, inclusive. */
  since: number | null;
  agentId: string | null;
}

// An index in the order of the list would have to be written by every answer; counting reads as many rows as sorting does.
const matching = `from exchanges e
  where e.asker = any ($1) and ($2::text is null or e.asker_thread = $2) and ($3::text is null or e.state = $3)
    and ($4::bigint is null or e.updated_at >= $4) and ($5::text is null or e.asked_agent = $5)
    and ($6::text is null or split_part(e.asker_addr, '#', 1) = $6)`;

const filterValues = (q: ListFilter): unknown[] => [q.askers, q.thread, q.state, q.since, q.agentId, q.askerAddr];

export async function countTasks(db: Queryable, q: ListFilter): Promise<number> {
  const { rows } = await db.query<{ n: number }>(`select count(*) as n ${matching}`, filterValues(q));
  return rows[0]?.n ?? 0;
}

/** Newest change first. `after`: where the last page ended. */
export async function listTasks(
  db: Queryable,
  q: ListFilter,
  after: { updatedAt: number; id: string } | null,
  limit: number,
): Promise<ListedRow[]> {
  const { rows } = await db.query<ListedRow>(
    `select e.id, e.asker_thread as thread, e.asked_agent, e.asked_addr, e.state, e.reason, e.created_at, e.updated_at ${matching}
        and ($7::bigint is null or (e.updated_at, e.id collate "C") < ($7, $8::text collate "C"))
      order by e.updated_at desc, e.id collate "C" desc limit $9`,
    [...filterValues(q), after?.updatedAt ?? null, after?.id ?? null, limit],
  );
  return rows;
}

/** The peers that a signer sees the tasks of: itself, those beneath it and those above it. */
export async function peersAround(
  db: Queryable,
  q: { did: string; above: string[]; domain: string },
): Promise<string[]> {
  const { rows } = await db.query<{ key: string }>(
    `select 'p:' || p.id as key from peers p
      where p.did = any ($1) or (p.domain = $2 and $2 <> '' and starts_with(p.did, $3 || ':'))`,
    [q.above, q.domain, q.did],
  );
  return rows.map(({ key }) => key);
}

export interface TaskMessageRow extends MessageRow {
  exchange_id: string;
}

/**
 * The newest messages of some exchanges, at most `limit` and about `bytes` of each; oldest first. The request of each is always among them.
 */
export async function newestMessages(
  db: Queryable,
  exchangeIds: readonly string[],
  limit: number,
  bytes: number,
): Promise<TaskMessageRow[]> {
  const { rows } = await db.query<TaskMessageRow>(
    `select x.id as exchange_id, ${messageColumns}
      from unnest($1::text[]) as x(id)
      cross join lateral (
        select s.seq from (
          select w.seq, sum(w.size) over (order by w.seq desc) as total from (
            select n.seq, octet_length(n.envelope) + coalesce(octet_length(n.a2a), 0) as size
              from messages n where n.exchange_id = x.id order by n.seq desc limit $2
          ) w
        ) s where s.total <= $3
        union
        (select f.seq from messages f where f.exchange_id = x.id order by f.seq limit 1)
      ) k
      join messages m on m.seq = k.seq
      order by m.seq`,
    [exchangeIds, limit, bytes],
  );
  return rows;
}

export interface ChangeRow extends Partial<MessageRow> {
  state: ExchangeState;
  reason: string | null;
  updated_at: number;
}

/** The state of an exchange and its messages behind `seq`, as of one moment. One row without a message when there is none. */
export async function changesSince(
  db: Queryable,
  exchangeId: string,
  seq: number,
  limit: number,
): Promise<ChangeRow[]> {
  const { rows } = await db.query<ChangeRow>(
    `select e.state, e.reason, e.updated_at, m.*
      from exchanges e left join lateral (
        select ${messageColumns} from messages m where m.exchange_id = e.id and m.seq > $2 order by m.seq limit $3
      ) m on true
      where e.id = $1 order by m.seq`,
    [exchangeId, seq, limit],
  );
  return rows;
}

export interface CancelTaskRow {
  outcome: 'missing' | 'ended' | 'elsewhere' | 'canceled';
  wakes: string[];
}

/** See migrations/fn_tasks.sql. */
export async function cancelTask(
  db: Queryable,
  q: { exchangeId: string; noticeId: string; notice: string; expiresAt: number; origin: string; now: number },
): Promise<CancelTaskRow> {
  const { rows } = await db.query<CancelTaskRow>('select * from cancel_task($1, $2, $3, $4, $5, $6)', [
    q.exchangeId,
    q.noticeId,
    q.notice,
    q.expiresAt,
    q.origin,
    q.now,
  ]);
  return rows[0]!;
}

export interface CancelableRow {
  request_id: string;
  asker_addr: string;
  asked_addr: string;
  asked_thread: string | null;
}

export async function cancelable(db: Queryable, exchangeId: string): Promise<CancelableRow | null> {
  const { rows } = await db.query<CancelableRow>(
    'select request_id, asker_addr, asked_addr, asked_conversation as asked_thread from exchanges where id = $1',
    [exchangeId],
  );
  return rows[0] ?? null;
}

/** Who anonymously takes part in a conversation of `owner`. Its id is then our own, and nobody's who was not told it. */
export async function anonymousParticipant(db: Queryable, owner: string, conversation: string): Promise<string | null> {
  const { rows } = await db.query<{ participant: string }>(
    `select p.participant from conversation_participants p
      where p.owner = $1 and p.conversation = $2 and p.participant like 'anonymous:%' limit 1`,
    [owner, conversation],
  );
  return rows[0]?.participant ?? null;
}
