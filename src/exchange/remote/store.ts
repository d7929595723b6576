import type { Queryable } from '../../db/types.ts';
import type { PlanName } from '../../directory/plans.ts';
import type { Opened, RemoteTask } from './types.ts';

export interface RequestRow {
  exchange_id: string;
  message_id: string;
  envelope: string;
  owner: string;
  org_id: string;
  thread: string;
  agent: string;
  expires_at: number;
  ended: boolean;
  sent: boolean;
}

export async function requestBySeq(db: Queryable, seq: number): Promise<RequestRow | null> {
  const { rows } = await db.query<RequestRow>(
    `select e.id as exchange_id, m.id as message_id, m.envelope, e.asker_owner as owner, o.org_id, e.asker_thread as thread,
        e.asked_addr as agent, m.expires_at, e.ended_at is not null as ended,
        e.asked_via is not null or exists (select from remote_tasks r where r.exchange_id = e.id) as sent
      from exchanges e join messages m on m.seq = e.request_seq join members o on o.id = e.asker_owner
      where e.request_seq = $1`,
    [seq],
  );
  return rows[0] ?? null;
}

export interface BeforeRow {
  exchange_id: string;
  endpoint: string;
  task_id: string | null;
  context_id: string | null;
  state: string;
  ended: boolean;
}

/** What was asked last of that agent in that thread and has a context there. */
export async function lastIn(
  db: Queryable,
  q: { owner: string; thread: string; agent: string },
): Promise<BeforeRow | null> {
  const { rows } = await db.query<BeforeRow>(
    `select exchange_id, endpoint, task_id, context_id, state, ended_at is not null as ended from remote_tasks
      where owner = $1 and thread = $2 and agent = $3 and (context_id is not null or task_id is not null)
      order by created_at desc limit 1`,
    [q.owner, q.thread, q.agent],
  );
  return rows[0] ?? null;
}

/** What the outbox owes of a message keeps its files (migrations/0009_files.sql). */
export async function keepFiles(tx: Queryable, messageSeq: number): Promise<void> {
  await tx.query(
    `update outbox set has_files = true where message_seq = $1
       and exists (select from message_files f where f.seq = $1 and f.zip is not null)`,
    [messageSeq],
  );
}

/** Where the request stands at its server; an earlier word on it is overwritten, but never what is known with what is not. */
export async function upsertTask(
  tx: Queryable,
  q: Opened & { exchangeId: string; owner: string; thread: string; agent: string; now: number },
): Promise<void> {
  await tx.query(
    `insert into remote_tasks as r (exchange_id, owner, thread, agent, destination, endpoint, task_id, context_id, state,
                                    push_id, push_token, held_until, created_at, card)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
     on conflict (exchange_id) do update set endpoint = $6, task_id = coalesce($7, r.task_id), context_id = coalesce($8, r.context_id),
       state = $9, push_id = coalesce($10, r.push_id), push_token = coalesce($11, r.push_token), held_until = $12`,
    [
      q.exchangeId,
      q.owner,
      q.thread,
      q.agent,
      q.destination,
      q.endpoint,
      q.taskId,
      q.contextId,
      q.state,
      q.push?.id ?? null,
      q.push?.token ?? null,
      q.heldUntil,
      q.now,
      q.card,
    ],
  );
}

/** The later request hears the rest; it knows what the earlier one was told. */
export async function continueTask(tx: Queryable, before: string, by: string): Promise<void> {
  await tx.query('update remote_tasks set continued_by = $2 where exchange_id = $1 and exchange_id <> $2', [
    before,
    by,
  ]);
  await tx.query(
    'update remote_tasks set told = told || (select told from remote_tasks where exchange_id = $1) where exchange_id = $2 and exchange_id <> $1',
    [before, by],
  );
}

const columns = `r.exchange_id as "exchangeId", r.owner as "ownerId", r.agent, r.destination, r.endpoint, r.task_id as "taskId",
  r.context_id as "contextId", r.state, r.held_until as "heldUntil", r.push_id as "pushId", r.push_token as "pushToken",
  r.pushed_at as "pushedAt", r.snapshot, r.told, r.ended_at is not null or e.ended_at is not null as ended,
  r.continued_by is not null as continued`;

export async function taskById(db: Queryable, exchangeId: string): Promise<RemoteTask | null> {
  const sql = `select ${columns} from remote_tasks r join exchanges e on e.id = r.exchange_id where r.exchange_id = $1`;
  return (await db.query<RemoteTask>(sql, [exchangeId])).rows[0] ?? null;
}

export async function taskByPush(db: Queryable, pushId: string): Promise<RemoteTask | null> {
  const sql = `select ${columns} from remote_tasks r join exchanges e on e.id = r.exchange_id where r.push_id = $1`;
  return (await db.query<RemoteTask>(sql, [pushId])).rows[0] ?? null;
}

export async function taskByRequest(db: Queryable, requestSeq: number): Promise<RemoteTask | null> {
  const sql = `select ${columns} from remote_tasks r join exchanges e on e.id = r.exchange_id where e.request_seq = $1`;
  return (await db.query<RemoteTask>(sql, [requestSeq])).rows[0] ?? null;
}

/** Locks it, so that a push, a stream and a poll tell one after the other. Null when it is gone or has ended. */
export async function lockTask(tx: Queryable, exchangeId: string): Promise<{ told: string[] } | null> {
  const { rows } = await tx.query<{ told: string[] }>(
    'select told from remote_tasks where exchange_id = $1 and ended_at is null for update',
    [exchangeId],
  );
  return rows[0] ?? null;
}

export interface AskerRow {
  id: string;
  asker_thread: string;
  request_id: string;
  request_seq: number;
  asked: string;
  asked_addr: string;
  org_id: string | null;
  plan: PlanName;
}

/** The exchange of that remote task, locked: one that was asked of somebody elsewhere by somebody here, and is open. */
export async function lockAsker(tx: Queryable, exchangeId: string): Promise<AskerRow | null> {
  const { rows } = await tx.query<AskerRow>(
    `select e.id, e.asker_thread, e.request_id, e.request_seq, e.asked, e.asked_addr, o.id as org_id, coalesce(o.plan, 'free') as plan
      from exchanges e left join members m on m.id = e.asker_owner left join orgs o on o.id = m.org_id
      where e.id = $1 and e.asked_agent is null and e.asked like 'p:%' and e.ended_at is null for update of e`,
    [exchangeId],
  );
  return rows[0] ?? null;
}

/** Earlier exchanges that went on with this task: they end with it. */
export async function earlierOf(tx: Queryable, exchangeId: string): Promise<string[]> {
  const { rows } = await tx.query<{ id: string }>(
    `with recursive earlier as (
       select exchange_id as id from remote_tasks where continued_by = $1
       union select r.exchange_id from remote_tasks r join earlier on r.continued_by = earlier.id
     ) select id from earlier limit 100`,
    [exchangeId],
  );
  return rows.map(({ id }) => id);
}

export async function recordState(
  tx: Queryable,
  q: {
    exchangeId: string;
    state: string;
    taskId: string | null;
    contextId: string | null;
    told: readonly string[];
    snapshot: string | null;
  },
): Promise<void> {
  await tx.query(
    `update remote_tasks set state = $2, task_id = coalesce(task_id, $3), context_id = coalesce($4, context_id), told = told || $5::text[],
        snapshot = coalesce($6, snapshot), held_until = 0 where exchange_id = $1`,
    [q.exchangeId, q.state, q.taskId, q.contextId, q.told, q.snapshot],
  );
}

/** Whoever asked has withdrawn it, and the server is being asked. */
export async function isWithdrawn(tx: Queryable, requestSeq: number): Promise<boolean> {
  const sql = `select from outbox where message_seq = $1 and kind = 'a2a-cancel'`;
  return (await tx.query(sql, [requestSeq])).rows.length > 0;
}

/** Nothing more is asked of the server about it. */
export async function endTasks(tx: Queryable, exchangeIds: readonly string[], now: number): Promise<void> {
  await tx.query(
    'update remote_tasks set ended_at = $2, snapshot = null, held_until = 0 where exchange_id = any($1) and ended_at is null',
    [exchangeIds, now],
  );
  await tx.query(`delete from outbox where lane = any($1) and kind = 'a2a-task'`, [exchangeIds.map(laneOf)]);
}

/** The lane of the row that follows a task. */
export function laneOf(exchangeId: string): string {
  return `a2a-task ${exchangeId}`;
}

export async function isFollowed(tx: Queryable, exchangeId: string): Promise<boolean> {
  return (await tx.query('select from outbox where lane = $1', [laneOf(exchangeId)])).rows.length > 0;
}

export async function holdOn(db: Queryable, exchangeId: string, until: number): Promise<void> {
  await db.query('update remote_tasks set held_until = $2 where exchange_id = $1 and held_until > 0', [
    exchangeId,
    until,
  ]);
}

/** Asks the server at once, whatever the pause. */
export async function dueNow(db: Queryable, exchangeId: string, now: number): Promise<void> {
  await db.query('update remote_tasks set pushed_at = $2 where exchange_id = $1', [exchangeId, now]);
  await db.query('update outbox set due_at = least(due_at, $2) where lane = $1', [laneOf(exchangeId), now]);
}

/** What was told while nobody was here is asked for: every task within `spreadMs`. */
export async function dueSoon(db: Queryable, now: number, spreadMs: number): Promise<number> {
  const sql = `update outbox set due_at = $1 + (random() * $2)::bigint where kind = 'a2a-task' and due_at > $1 + $2::bigint`;
  return (await db.query(sql, [now, spreadMs])).rowCount;
}

/** Forgets a send whose answer never came. Answers what it takes to send it again; null when there is nothing to send any more. */
export async function forgetSend(
  tx: Queryable,
  exchangeId: string,
): Promise<{ seq: number; expiresAt: number; destination: string; lane: string; card: string } | null> {
  const { rows } = await tx.query<{ destination: string; agent: string; thread: string; card: string }>(
    'delete from remote_tasks where exchange_id = $1 and task_id is null and ended_at is null returning destination, agent, thread, card',
    [exchangeId],
  );
  const [row] = rows;
  if (!row) return null;
  const found = await tx.query<{ seq: number; expires_at: number; from_addr: string }>(
    `select m.seq, m.expires_at, m.from_addr from exchanges e join messages m on m.seq = e.request_seq
      where e.id = $1 and e.ended_at is null`,
    [exchangeId],
  );
  const message = found.rows[0];
  if (!message) return null;
  const lane = [row.destination, message.from_addr, row.agent, row.thread].join(' ');
  return { seq: message.seq, expiresAt: message.expires_at, destination: row.destination, lane, card: row.card };
}
