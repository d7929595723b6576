import type { Db } from '../db/types.ts';
import { Batcher } from '../lib/batch.ts';
import type { Clock } from '../lib/clock.ts';

/** What the gates write and read in the database; concurrent calls share one statement. */
export interface GateStore {
  /** False when these very bytes were seen before: the primary key decides, also between replicas. */
  insertProof(key: Buffer, expiresAt: number): Promise<boolean>;
  /** Counts one in this minute, and answers the how-manieth it was, on all replicas together. */
  countRate(key: string): Promise<number>;
  /** Forgets proofs whose window is over, and counts of past days. Bounded per call; answers how many proofs went. */
  purge(): Promise<number>;
}

export function createGateStore(db: Db, clock: Clock): GateStore {
  const proofs = new Batcher<{ key: Buffer; expiresAt: number }, boolean>({
    max: 200,
    run: (items) => insertProofs(db, items),
  });
  const rates = new Batcher<string, number>({
    max: 500,
    inFlight: 4,
    run: (keys) => countRates(db, keys, clock.now()),
  });
  return {
    countRate: (key) => rates.submit(key),
    insertProof: (key, expiresAt) => proofs.submit({ key, expiresAt }),
    purge: () => purge(db, clock.now()),
  };
}

// The same bytes twice in one batch: the second finds its twin in `first` already taken and is the replay.
async function insertProofs(db: Db, items: { key: Buffer; expiresAt: number }[]): Promise<boolean[]> {
  const first = new Map(items.map(({ key }, i) => [key.toString('hex'), i] as const).reverse());
  const { rows } = await db.query<{ proof: string }>(
    `insert into seen_proofs (proof, expires_at)
       select decode(p, 'hex'), e from (select distinct on (p) p, e from unnest($1::text[], $2::bigint[]) as x(p, e) order by p) as y
       on conflict do nothing returning encode(proof, 'hex') as proof`,
    [items.map(({ key }) => key.toString('hex')), items.map(({ expiresAt }) => expiresAt)],
  );
  const inserted = new Set(rows.map(({ proof }) => proof));
  return items.map(({ key }, i) => inserted.has(key.toString('hex')) && first.get(key.toString('hex')) === i);
}

const minuteMs = 60_000;

/** One statement for all that came together; each batch takes a shard of its own by chance, so that few wait for another's commit. */
async function countRates(db: Db, keys: readonly string[], now: number): Promise<number[]> {
  const counts = new Map<string, number>();
  for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1);
  const sorted = [...counts].sort(([a], [b]) => (a < b ? -1 : 1));
  // The rows that this very statement writes are not among those that it reads: `used` of them comes from `returning`.
  const { rows } = await db.query<{ key: string; total: number }>(
    `with mine as (
       insert into rate_windows as r (key, minute, shard, used)
         select k, $3::integer, $4::smallint, n from unnest($1::text[], $2::int[]) as x(k, n) order by k
         on conflict (key, minute, shard) do update set used = r.used + excluded.used
         returning key, used)
     select m.key, (m.used + coalesce((select sum(o.used) from rate_windows o
       where o.key = m.key and o.minute = $3::integer and o.shard <> $4::smallint), 0))::int as total from mine m`,
    [sorted.map(([key]) => key), sorted.map(([, n]) => n), Math.floor(now / minuteMs), Math.floor(Math.random() * 8)],
  );
  const totals = new Map(rows.map(({ key, total }) => [key, total]));
  // Each its own place, in the order in which they came.
  const after = new Map(counts);
  return keys.map((key) => {
    const behind = after.get(key)! - 1;
    after.set(key, behind);
    return (totals.get(key) ?? 0) - behind;
  });
}

async function purge(db: Db, now: number): Promise<number> {
  await db.query('delete from rate_windows where minute < $1', [Math.floor(now / minuteMs) - 1]);
  await db.query('delete from quota_days where day < $1', [Math.floor(now / 86_400_000) - 31]);
  await db.query('delete from budget_days where day < $1', [Math.floor(now / 86_400_000) - 31]);
  const { rowCount } = await db.query(
    `delete from seen_proofs where proof in
       (select proof from seen_proofs where expires_at < $1 order by expires_at limit 10000 for update skip locked)`,
    [now],
  );
  return rowCount;
}
