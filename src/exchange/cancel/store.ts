import type { Queryable } from '../../db/types.ts';
import type { ExchangeState } from '../types.ts';

export interface CancelRow {
  outcome: 'missing' | 'canceled' | 'answered' | 'taken' | 'away';
  exchange: string | null;
  addressee: string | null;
  outbox_id: number | null;
  destination: string | null;
}

/** See migrations/fn_cancel.sql. */
export async function cancelRequest(
  db: Queryable,
  q: { askers: readonly string[]; id: string; origin: string; now: number },
): Promise<CancelRow> {
  const { rows } = await db.query<CancelRow>('select * from cancel_request($1, $2, $3, $4)', [
    q.askers,
    q.id,
    q.origin,
    q.now,
  ]);
  return rows[0]!;
}

export interface AwayRow {
  exchangeId: string;
  requestId: string;
  owner: string;
  state: ExchangeState;
  askedAddr: string;
}

export async function requestAway(db: Queryable, requestSeq: number): Promise<AwayRow | null> {
  const sql = `select id as "exchangeId", request_id as "requestId", asker_owner as owner, state, asked_addr as "askedAddr"
    from exchanges where request_seq = $1 and asker_owner is not null`;
  return (await db.query<AwayRow>(sql, [requestSeq])).rows[0] ?? null;
}

export async function stateOf(db: Queryable, exchangeId: string): Promise<ExchangeState | null> {
  const sql = 'select state from exchanges where id = $1';
  return (await db.query<{ state: ExchangeState }>(sql, [exchangeId])).rows[0]?.state ?? null;
}

export async function endCanceled(db: Queryable, exchangeId: string, now: number): Promise<boolean> {
  // The caller's transaction notifies; '' is no replica's name.
  return (await db.query<{ done: boolean }>(`select end_canceled($1, '', $2) as done`, [exchangeId, now])).rows[0]!
    .done;
}

/** The peers that a signer goes by: itself. */
export async function peerKeys(db: Queryable, did: string): Promise<string[]> {
  const sql = `select 'p:' || id as key from peers where did = $1`;
  return (await db.query<{ key: string }>(sql, [did])).rows.map(({ key }) => key);
}
