import type { Db } from '../db/types.ts';
import { Batcher } from '../lib/batch.ts';
import type { Clock } from '../lib/clock.ts';

/** What the gates write and read in the database; concurrent calls share one statement. */
export interface GateStore {
  /** False when these very bytes were seen before: the primary key decides, also between replicas. */
  insertProof(key: Buffer, expiresAt: number): Promise<boolean>;
  /** Forgets proofs whose window is over, and counts of past days. Bounded per call; answers how many proofs went. */
  purge(): Promise<number>;
}

export function createGateStore(db: Db, clock: Clock): GateStore {
  const proofs = new Batcher<{ key: Buffer; expiresAt: number }, boolean>({
    max: 200,
    run: (items) => insertProofs(db, items),
  });
  return {
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

async function purge(db: Db, now: number): Promise<number> {
  await db.query('delete from quota_days where day < $1', [Math.floor(now / 86_400_000) - 31]);
  const { rowCount } = await db.query(
    `delete from seen_proofs where proof in
       (select proof from seen_proofs where expires_at < $1 order by expires_at limit 10000 for update skip locked)`,
    [now],
  );
  return rowCount;
}
