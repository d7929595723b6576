import type { Queryable, Tx } from '../../db/types.ts';

export interface WebhookRow {
  url: string;
  lastError: string | null;
  lastErrorAt: number | null;
}

export interface NewWebhook {
  agentId: string;
  orgId: string;
  url: string;
  host: string;
  secret: Buffer;
  now: number;
}

export async function webhookOf(db: Queryable, agentId: string): Promise<WebhookRow | undefined> {
  const sql = 'select url, last_error as "lastError", last_error_at as "lastErrorAt" from webhooks where agent_id = $1';
  return (await db.query<WebhookRow>(sql, [agentId])).rows[0];
}

/** True when the agent had none. Under `lockOrg`. What was pushed to an earlier one is pushed to this one, afresh. */
export async function putWebhook(tx: Tx, row: NewWebhook): Promise<boolean> {
  const { rows } = await tx.query<{ fresh: boolean }>(
    `insert into webhooks (agent_id, org_id, url, host, secret, created_at) values ($1, $2, $3, $4, $5, $6)
       on conflict (agent_id) do update set url = excluded.url, host = excluded.host, secret = excluded.secret,
         created_at = excluded.created_at, last_error = null, last_error_at = null
       returning xmax = 0 as fresh`,
    [row.agentId, row.orgId, row.url, row.host, row.secret, row.now],
  );
  // No node listens: there is no key to seal for, and no name to show.
  await tx.query('update mailboxes set node_id = null where agent_id = $1 and node_id is not null', [row.agentId]);
  await returnPushes(tx, row.agentId);
  return rows[0]!.fresh;
}

/** False when there was none. */
export async function dropWebhook(tx: Tx, agentId: string): Promise<boolean> {
  const { rowCount } = await tx.query('delete from webhooks where agent_id = $1', [agentId]);
  if (rowCount > 0) await returnPushes(tx, agentId);
  return rowCount > 0;
}

export async function countWebhooks(db: Queryable, orgId: string): Promise<number> {
  const sql = 'select count(*)::int as n from webhooks where org_id = $1';
  return (await db.query<{ n: number }>(sql, [orgId])).rows[0]!.n;
}

async function returnPushes(tx: Tx, agentId: string): Promise<void> {
  await tx.query('select return_pushes($1)', [agentId]);
  tx.notify('webhooks');
  tx.notify(`inbox:${agentId}`);
}
