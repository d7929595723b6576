import type { Queryable } from '../db/types.ts';
import type { Circuit, NewOutboxItem, OutboxItem } from './types.ts';

/** An item under our lease. */
export type Claimed = OutboxItem & { leaseUntil: number };

interface Row {
  id: number;
  kind: string;
  destination: string;
  lane: string;
  message_seq: number | null;
  body: string | null;
  attempts: number;
  expires_at: number;
  lease_until: number;
}

export async function insertItem(tx: Queryable, item: NewOutboxItem, now: number): Promise<number> {
  const { rows } = await tx.query<{ id: number }>(
    `insert into outbox (kind, destination, lane, message_seq, body, due_at, expires_at, created_at)
     values ($1, $2, $3, $4, $5, $6, $7, $6) returning id`,
    [item.kind, item.destination, item.lane, item.messageSeq ?? null, item.body ?? null, now, item.expiresAt],
  );
  return (rows[0] as { id: number }).id;
}

export interface ClaimQuery {
  now: number;
  leaseUntil: number;
  kinds: readonly string[];
  most: number;
  perDestination: number;
  /** Look only at the destinations of these rows and at these; both null: at all. */
  ids: readonly number[] | null;
  destinations: readonly string[] | null;
}

export async function claim(db: Queryable, q: ClaimQuery): Promise<Claimed[]> {
  const { rows } = await db.query<Row>('select * from claim_outbox($1, $2, $3, $4, $5, $6, $7)', [
    q.now,
    q.leaseUntil,
    q.kinds,
    q.most,
    q.perDestination,
    q.ids,
    q.destinations,
  ]);
  return rows.map(claimed).sort((a, b) => a.id - b.id);
}

/** Puts the ends of our own leases off to `until`; answers the ids of those that were still ours. */
export async function renewLeases(db: Queryable, items: readonly Claimed[], until: number): Promise<Set<number>> {
  const { rows } = await db.query<{ id: number }>(
    `update outbox o set lease_until = $3 from unnest($1::bigint[], $2::bigint[]) as x(id, until)
      where o.id = x.id and o.lease_until = x.until returning o.id`,
    [items.map((item) => item.id), items.map((item) => item.leaseUntil), until],
  );
  return new Set(rows.map((row) => row.id));
}

/** When to look again, or null when nothing waits for a time to come. */
export async function nextTime(db: Queryable, now: number): Promise<number | null> {
  const { rows } = await db.query<{ at: number | null }>('select next_outbox($1) as at', [now]);
  return rows[0]?.at ?? null;
}

/** False when the item is gone: somebody else recorded it, or it is owed no more. */
export async function removeItem(tx: Queryable, id: number): Promise<boolean> {
  const { rowCount } = await tx.query('delete from outbox where id = $1', [id]);
  return rowCount > 0;
}

/** Ends the lease, and lets the item and what waits behind it in its lane rest until `dueAt` (null: due as before). Our own lease only. */
export async function returnItem(tx: Queryable, item: Claimed, dueAt: number | null, error: string): Promise<void> {
  const { rowCount } = await tx.query(
    `update outbox set lease_until = 0, due_at = coalesce($3, due_at), last_error = $4 where id = $1 and lease_until = $2`,
    [item.id, item.leaseUntil, dueAt, error.slice(0, 500)],
  );
  if (rowCount > 0 && dueAt !== null) {
    await tx.query('update outbox set due_at = $2 where lane = $1 and id > $3 and due_at < $2', [
      item.lane,
      dueAt,
      item.id,
    ]);
  }
}

/** One item whose time ran out, locked; null when there is none (more). */
export async function lockExpired(
  tx: Queryable,
  q: { now: number; kinds: readonly string[]; except: readonly number[] },
): Promise<OutboxItem | null> {
  const { rows } = await tx.query<Row>(
    `select * from outbox where expires_at <= $1 and lease_until <= $1 and kind = any($2) and id <> all($3)
      order by expires_at limit 1 for update skip locked`,
    [q.now, q.kinds, q.except],
  );
  return rows[0] ? claimed(rows[0]) : null;
}

/** The kinds that wait here and that nobody in `kinds` sends. */
export async function unknownKinds(db: Queryable, kinds: readonly string[], now: number): Promise<string[]> {
  const { rows } = await db.query<{ kind: string }>(
    'select distinct kind from (select kind from outbox where due_at <= $2 order by due_at, id limit 1000) o where kind <> all($1)',
    [kinds, now],
  );
  return rows.map((row) => row.kind);
}

/**
 * Counts one failure of a destination, or answers null when another try that was under way at the same time has counted it already.
 * After two minutes without a try the count begins anew: what is remembered from then says nothing of now.
 */
export async function countFailure(
  tx: Queryable,
  q: { destination: string; startedAt: number; now: number; error: string },
): Promise<{ failures: number; downSince: number } | null> {
  const { rows } = await tx.query<{ failures: number; down_since: number }>(
    `insert into circuits as c (destination, failures, down_since, last_error) values ($1, 1, $3, $4)
     on conflict (destination) do update set
       failures = case when c.open_until < $2 - 120000::bigint then 1 else c.failures + 1 end,
       down_since = case when c.open_until < $2 - 120000::bigint then $3 else coalesce(c.down_since, $3) end,
       last_error = $4
     where c.open_until <= $2 and c.alert is null
     returning failures, down_since`,
    [q.destination, q.startedAt, q.now, q.error.slice(0, 500)],
  );
  const row = rows[0];
  return row ? { failures: row.failures, downSince: row.down_since } : null;
}

export async function openCircuit(tx: Queryable, destination: string, until: number): Promise<void> {
  await tx.query('update circuits set open_until = $2 where destination = $1', [destination, until]);
}

/** Destinations that are down may be tried now, and their pauses begin anew. True when there is one. */
export async function tryCircuits(db: Queryable, now: number): Promise<boolean> {
  const { rowCount } = await db.query(
    'update circuits set failures = 0, open_until = least(open_until, $1) where failures > 0 and alert is null',
    [now],
  );
  return rowCount > 0;
}

export async function stopCircuit(tx: Queryable, destination: string, alert: string, now: number): Promise<void> {
  await tx.query(
    `insert into circuits as c (destination, failures, down_since, last_error, alert) values ($1, 1, $3, $2, $2)
     on conflict (destination) do update set alert = $2, last_error = $2, down_since = coalesce(c.down_since, $3)`,
    [destination, alert.slice(0, 500), now],
  );
}

/** The destination answered. A stopped one stays stopped. */
export async function closeCircuit(tx: Queryable, destination: string): Promise<void> {
  await tx.query('delete from circuits where destination = $1 and alert is null', [destination]);
}

/** Nothing is tried there now: its circuit is open, or it was stopped. */
export async function isDown(db: Queryable, destination: string, now: number): Promise<boolean> {
  const { rows } = await db.query(
    'select from circuits where destination = $1 and (open_until > $2 or alert is not null)',
    [destination, now],
  );
  return rows.length > 0;
}

/** True when something may go now that could not before. */
export async function heard(db: Queryable, destination: string, now: number): Promise<boolean> {
  const { rows } = await db.query<{ changed: boolean }>('select hear_outbox($1, $2) as changed', [destination, now]);
  return rows[0]?.changed ?? false;
}

export async function clearCircuit(db: Queryable, destination: string): Promise<boolean> {
  const { rowCount } = await db.query('delete from circuits where destination = $1', [destination]);
  return rowCount > 0;
}

export async function listCircuits(db: Queryable): Promise<Circuit[]> {
  const { rows } = await db.query<{
    destination: string;
    failures: number;
    open_until: number;
    down_since: number | null;
    last_error: string | null;
    alert: string | null;
    waiting: number;
  }>(
    `select c.*, (select count(*) from (select from outbox o where o.destination = c.destination limit 10000) w) as waiting
       from circuits c order by c.alert is null, c.destination limit 1000`,
  );
  return rows.map((row) => ({
    destination: row.destination,
    failures: row.failures,
    openUntil: row.open_until,
    downSince: row.down_since,
    lastError: row.last_error,
    alert: row.alert,
    waiting: row.waiting,
  }));
}

export async function mendTimes(db: Queryable, now: number, furthest: number): Promise<void> {
  await db.query('select mend_outbox($1, $2)', [now, furthest]);
}

function claimed(row: Row): Claimed {
  return {
    id: row.id,
    kind: row.kind,
    destination: row.destination,
    lane: row.lane,
    messageSeq: row.message_seq,
    body: row.body,
    attempts: row.attempts,
    expiresAt: row.expires_at,
    leaseUntil: row.lease_until,
  };
}
