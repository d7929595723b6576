import type { Db } from '../../db/types.ts';
import { type Delivered, type DeliveredRow, delivered, longestLeaseMs } from '../store.ts';

/** A delivery under the lease of one try, and where it goes. */
export interface Claimed extends Delivered {
  url: string;
  /** Sealed. */
  secret: Buffer;
  /** The REDSYN date of the agent's org. */
  version: string;
}

/** One try: what it takes to end that one and no other. */
type Try = Pick<Delivered, 'deliveryId' | 'attempts' | 'leaseUntil'>;

export async function listWebhooks(db: Db): Promise<Array<{ agentId: string; host: string }>> {
  const sql = 'select agent_id as "agentId", host from webhooks';
  return (await db.query<{ agentId: string; host: string }>(sql)).rows;
}

/** Leases what may be pushed for an agent now; `wakeAt`: when to look again, or null. */
export async function claimPushes(
  db: Db,
  q: { agentId: string; max: number; now: number; until: number },
): Promise<{ items: Claimed[]; wakeAt: number | null }> {
  const { rows } = await db.query<
    DeliveredRow & { url: string; secret: Buffer; version: string; wake_at: number | null }
  >('select * from claim_pushes($1, $2, $3, $4, $5)', [q.agentId, q.max, q.now, q.until, longestLeaseMs]);
  const items = rows.filter(({ id }) => id !== null);
  return {
    items: items.map((row) => ({ ...delivered(row), url: row.url, secret: row.secret, version: row.version })),
    wakeAt: rows.find(({ id }) => id === null)?.wake_at ?? null,
  };
}

/** False when the lease was no longer ours. */
export async function endPush(db: Db, { deliveryId, attempts, leaseUntil }: Try): Promise<boolean> {
  const sql = 'select end_push($1, $2, $3) as done';
  return (await db.query<{ done: boolean }>(sql, [deliveryId, attempts, leaseUntil])).rows[0]!.done;
}

export async function retryPush(
  db: Db,
  { deliveryId, attempts, leaseUntil }: Try,
  q: { retryAt: number; now: number },
): Promise<void> {
  await db.query('select retry_push($1, $2, $3, $4, $5)', [deliveryId, attempts, leaseUntil, q.retryAt, q.now]);
}

/** The try did not take place: its attempt does not count. */
export async function releasePush(db: Db, { deliveryId, attempts, leaseUntil }: Try): Promise<void> {
  const lease = [{ id: deliveryId, node: 'webhook', attempts, until: leaseUntil }];
  await db.query('select release_deliveries($1)', [JSON.stringify(lease)]);
}

/** "Un agente está online mientras … su webhook acepta entregas." */
export async function notePresence(db: Db, agentId: string, now: number): Promise<void> {
  await db.query(
    `with box as (
       update mailboxes set last_seen = $2 where agent_id = $1 and (last_seen < $2::bigint - 5000 or last_seen > $2::bigint + 5000)
     )
     update webhooks set last_error = null, last_error_at = null where agent_id = $1 and last_error is not null`,
    [agentId, now],
  );
}

export async function noteFailure(db: Db, agentId: string, reason: string, now: number): Promise<void> {
  await db.query('update webhooks set last_error = $2, last_error_at = $3 where agent_id = $1', [
    agentId,
    reason.slice(0, 500),
    now,
  ]);
}
