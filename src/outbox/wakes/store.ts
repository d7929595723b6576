import type { Queryable, Tx } from '../../db/types.ts';

export interface BegunRow {
  id: string;
  agentId: string;
  agent: string;
  reason: string;
  taskId: string | null;
  createdAt: number;
  attempts: number;
  sealed: Buffer;
}

/** Counts a try of a webhook's wake before it is made, so that one which kills the process counts too. Nothing when there is none to make. */
export async function begin(db: Queryable, id: string, now: number): Promise<BegunRow | undefined> {
  const { rows } = await db.query<BegunRow>(
    `update wakes w set attempts = w.attempts + 1, due_at = null, updated_at = $2
      from agent_delivery d join agents a on a.id = d.agent_id
      where w.id = $1 and w.state = 'pending' and d.agent_id = w.agent_id and d.mode = 'webhook'
      returning w.id, w.agent_id as "agentId", coalesce(a.display_name, a.handle) as agent, w.reason, w.task_id as "taskId",
        w.created_at as "createdAt", w.attempts, d.sealed`,
    [id, now],
  );
  return rows[0];
}

export async function done(tx: Tx, id: string, now: number): Promise<void> {
  await tx.query(
    `update wakes set state = 'done', due_at = null, last_error = null, updated_at = $2 where id = $1 and state = 'pending'`,
    [id, now],
  );
}

/** The next try at `first` ms doubled with each one before, at most `cap`; after the `most`-th none. */
export async function failed(
  tx: Tx,
  q: { id: string; error: string; now: number; first: number; cap: number; most: number; atLeast: number },
): Promise<void> {
  await tx.query(
    `update wakes set last_error = $2, updated_at = $3,
        state = case when attempts >= $6 then 'failed' else 'pending' end,
        due_at = case when attempts < $6 then $3 + greatest($7::bigint, least($5::bigint, $4::bigint << greatest(attempts - 1, 0))) end
      where id = $1 and state = 'pending'`,
    [q.id, q.error.slice(0, 500), q.now, q.first, q.cap, q.most, q.atLeast],
  );
}

export interface DueRow {
  id: string;
  outboxId: number;
}

/** Puts what is due into the outbox. Two who do so at once each take some. */
export async function enqueueDue(tx: Tx, q: { now: number; until: number; most: number }): Promise<DueRow[]> {
  const { rows } = await tx.query<DueRow>(
    `with due as (
        select w.id from wakes w where w.state = 'pending' and w.due_at <= $1 order by w.due_at limit $3 for update skip locked
      ), taken as (
        update wakes w set due_at = null from due, agent_delivery d
          where w.id = due.id and d.agent_id = w.agent_id and d.mode = 'webhook' returning w.id, d.origin
      ), owed as (
        insert into outbox (kind, destination, lane, body, due_at, expires_at, created_at)
          select 'wake', 'wake ' || t.origin, 'wake ' || t.id, t.id::text, $1, $2, $1 from taken t returning id, body
      )
      select o.body as id, o.id as "outboxId" from owed o`,
    [q.now, q.until, q.most],
  );
  return rows;
}

export interface Standing {
  pending: number;
  failed: number;
  lastError: string | null;
}

export async function standingOf(db: Queryable, agentId: string): Promise<Standing> {
  const { rows } = await db.query<Standing>(
    `select count(*) filter (where state = 'pending')::int as pending, count(*) filter (where state = 'failed')::int as failed,
        (array_agg(last_error order by updated_at desc) filter (where last_error is not null))[1] as "lastError"
      from wakes where agent_id = $1 and state <> 'done'`,
    [agentId],
  );
  return rows[0]!;
}

export async function states(
  db: Queryable,
  ids: readonly string[],
): Promise<Array<{ state: 'pending' | 'done' | 'failed'; n: number }>> {
  const sql = 'select state, count(*)::int as n from wakes where id = any($1::uuid[]) group by state';
  return (await db.query<{ state: 'pending' | 'done' | 'failed'; n: number }>(sql, [ids])).rows;
}

export interface PolledRow {
  id: string;
  driver: string;
  target: string;
}

/** Leases what waits for a watcher, oldest first. The lease that is the `last`-th ends the wake instead of handing it out. */
export async function poll(
  db: Queryable,
  q: { orgId: string; most: number; leaseUntil: number; last: number; now: number },
): Promise<PolledRow[]> {
  const { rows } = await db.query<PolledRow>(
    `with due as (
        select w.id, d.driver, d.target from wakes w join agent_delivery d on d.agent_id = w.agent_id
          where w.org_id = $1 and w.state = 'pending' and d.mode = 'local' and w.lease_until <= $5
          order by w.created_at, w.id limit $2 for update of w skip locked
      ), leased as (
        update wakes w set attempts = w.attempts + 1, lease_until = $3, updated_at = $5,
            state = case when w.attempts + 1 >= $4 then 'failed' else 'pending' end,
            last_error = case when w.attempts > 0 then 'no watcher acknowledged it' else w.last_error end
          from due where w.id = due.id
          returning w.id, w.state, w.created_at, due.driver, due.target
      )
      select l.id, l.driver, l.target from leased l where l.state = 'pending' order by l.created_at, l.id`,
    [q.orgId, q.most, q.leaseUntil, q.last, q.now],
  );
  return rows;
}

/** What an ack met: the state before it, or nothing when the org has no such wake that a watcher was given. */
export async function ack(
  db: Queryable,
  q: { orgId: string; id: string; now: number },
): Promise<'pending' | 'done' | 'failed' | undefined> {
  const { rows } = await db.query<{ state: 'pending' | 'done' | 'failed' }>(
    `with before as (
        select id, state from wakes where id = $1 and org_id = $2 and attempts > 0 for update
      ), acked as (
        update wakes w set state = 'done', last_error = null, updated_at = $3 from before b where w.id = b.id and b.state = 'pending'
      )
      select state from before`,
    [q.id, q.orgId, q.now],
  );
  return rows[0]?.state;
}

export async function purge(db: Queryable, before: number): Promise<void> {
  await db.query(
    `delete from wakes where id in (select id from wakes where state <> 'pending' and updated_at < $1 order by updated_at limit 10000)`,
    [before],
  );
}
