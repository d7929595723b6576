import type { Queryable, Tx } from '../../db/types.ts';

export interface DeliveryRow {
  mode: 'webhook' | 'local';
  origin: string | null;
  sealed: Buffer | null;
  /** JSON. */
  shown: string | null;
  driver: string | null;
  target: string | null;
}

const columns = 'mode, origin, sealed, shown, driver, target';

export async function deliveriesOf(
  db: Queryable,
  agentIds: readonly string[],
): Promise<Array<DeliveryRow & { agentId: string }>> {
  const sql = `select agent_id as "agentId", ${columns} from agent_delivery where agent_id = any($1::text[])`;
  return (await db.query<DeliveryRow & { agentId: string }>(sql, [agentIds])).rows;
}

/** What still waits goes the new way, with all its tries before it. */
export async function putDelivery(tx: Tx, agentId: string, row: DeliveryRow, now: number): Promise<void> {
  await tx.query(
    `insert into agent_delivery (agent_id, mode, origin, sealed, shown, driver, target, updated_at) values ($1, $2, $3, $4, $5, $6, $7, $8)
      on conflict (agent_id) do update set mode = excluded.mode, origin = excluded.origin, sealed = excluded.sealed, shown = excluded.shown,
        driver = excluded.driver, target = excluded.target, updated_at = excluded.updated_at`,
    [agentId, row.mode, row.origin, row.sealed, row.shown, row.driver, row.target, now],
  );
  await tx.query(
    `update wakes set due_at = case when $2 = 'webhook' then $3::bigint end, lease_until = 0, attempts = 0, updated_at = $3
      where agent_id = $1 and state = 'pending'`,
    [agentId, row.mode, now],
  );
}

/** Nobody wakes it any more: what waits is dropped. */
export async function dropDelivery(tx: Tx, agentId: string): Promise<void> {
  await tx.query('delete from agent_delivery where agent_id = $1', [agentId]);
  await tx.query(`delete from wakes where agent_id = $1 and state = 'pending'`, [agentId]);
}
