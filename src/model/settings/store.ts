import type { Queryable, Tx } from '../../db/types.ts';

/** A row of `models`. Keys are sealed. */
export interface ModelRow {
  agentId: string;
  provider: string;
  baseUrl: string;
  model: string;
  key: Buffer | null;
  keyLast4: string | null;
  system: string;
  maxTokens: number;
  streams: boolean;
  remembers: boolean;
  searchUrl: string;
  searchKey: Buffer | null;
  searchLast4: string | null;
}

export interface StoredModel extends ModelRow {
  lastError: string | null;
  lastErrorAt: number | null;
}

const columns = `agent_id as "agentId", provider, base_url as "baseUrl", model, key, key_last4 as "keyLast4", system, max_tokens as "maxTokens",
  streams, remembers, search_url as "searchUrl", search_key as "searchKey", search_last4 as "searchLast4",
  last_error as "lastError", last_error_at as "lastErrorAt"`;

export async function modelOf(db: Queryable, agentId: string): Promise<StoredModel | null> {
  return (await db.query<StoredModel>(`select ${columns} from models where agent_id = $1`, [agentId])).rows[0] ?? null;
}

/** The same, and nobody else changes it until the transaction ends. */
export async function lockModel(tx: Tx, agentId: string): Promise<{ row: StoredModel | null; hasWebhook: boolean }> {
  await tx.query('select from agents where id = $1 for update', [agentId]);
  const { rows } = await tx.query('select from webhooks where agent_id = $1', [agentId]);
  return { row: await modelOf(tx, agentId), hasWebhook: rows.length > 0 };
}

export async function putModel(tx: Tx, row: ModelRow, now: number): Promise<void> {
  await tx.query(
    `insert into models (agent_id, provider, base_url, model, key, key_last4, system, max_tokens, streams, remembers, search_url, search_key, search_last4, updated_at)
       values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
       on conflict (agent_id) do update set provider = $2, base_url = $3, model = $4, key = $5, key_last4 = $6, system = $7, max_tokens = $8,
         streams = $9, remembers = $10, search_url = $11, search_key = $12, search_last4 = $13, updated_at = $14, last_error = null, last_error_at = null`,
    [
      row.agentId,
      row.provider,
      row.baseUrl,
      row.model,
      row.key,
      row.keyLast4,
      row.system,
      row.maxTokens,
      row.streams,
      row.remembers,
      row.searchUrl,
      row.searchKey,
      row.searchLast4,
      now,
    ],
  );
  // No node listens: what a sender would seal for one could not be answered.
  await tx.query('update mailboxes set node_id = null where agent_id = $1 and node_id is not null', [row.agentId]);
  await setAdapter(tx, row.agentId, 'model', now);
}

/** False when there was none. */
export async function dropModel(tx: Tx, agentId: string, now: number): Promise<boolean> {
  const { rowCount } = await tx.query('delete from models where agent_id = $1', [agentId]);
  const changed = await setAdapter(tx, agentId, '', now);
  return rowCount > 0 || changed;
}

async function setAdapter(tx: Tx, agentId: string, adapter: string, now: number): Promise<boolean> {
  const sql = `update agents set adapter = $2, updated_at = $3 where id = $1 and (adapter = 'model') <> ($2 = 'model')`;
  const { rowCount } = await tx.query(sql, [agentId, adapter, now]);
  tx.notify('models');
  return rowCount > 0;
}

export async function noteError(db: Queryable, agentId: string, error: string | null, now: number): Promise<void> {
  await db.query(
    `update models set last_error = $2, last_error_at = case when $2::text is not null then $3::bigint end
       where agent_id = $1 and ($2::text is not null or last_error is not null)`,
    [agentId, error, now],
  );
}

/** Agents that a model answers for. One with a webhook is pushed to instead; what is sealed no model can read. */
export async function agentsWithModels(db: Queryable): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `select a.id from agents a where a.adapter = 'model' and not a.encrypted_only and not exists (select from webhooks w where w.agent_id = a.id)
       order by a.id`,
  );
  return rows.map(({ id }) => id);
}
