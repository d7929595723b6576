import type { Queryable } from '../../db/types.ts';

export interface KeyRow {
  id: string;
  methodId: string;
  publicKeyMultibase: string;
  sealedSeed: Buffer;
  state: 'pending' | 'active' | 'retired';
  activeFrom: number;
  listedUntil: number | null;
}

const columns = `id, method_id as "methodId", public_multibase as "publicKeyMultibase", sealed_seed as "sealedSeed", state,
  active_from as "activeFrom", listed_until as "listedUntil"`;

/** The keys that a holder's document lists now. */
export async function listedKeys(db: Queryable, holder: string, now: number): Promise<KeyRow[]> {
  const sql = `select ${columns} from keys where holder = $1 and (listed_until is null or listed_until > $2)
    order by created_at, length(method_id), method_id`;
  return (await db.query<KeyRow>(sql, [holder, now])).rows;
}

export interface NewKey {
  id: string;
  holder: string;
  methodId: string;
  publicKeyMultibase: string;
  sealedSeed: Buffer;
  state: 'pending' | 'active';
  now: number;
  activeFrom: number;
}

/** Of two that give a holder its first key at once, one writes. */
export async function insertKey(db: Queryable, row: NewKey): Promise<void> {
  const sql = `insert into keys (id, holder, method_id, public_multibase, sealed_seed, state, created_at, active_from)
    values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict do nothing`;
  const { id, holder, methodId, publicKeyMultibase, sealedSeed, state, now, activeFrom } = row;
  await db.query(sql, [id, holder, methodId, publicKeyMultibase, sealedSeed, state, now, activeFrom]);
}

/** Every key that the holder ever had, locked: rotations of one holder decide one after the other. */
export async function lockKeys(db: Queryable, holder: string): Promise<KeyRow[]> {
  return (await db.query<KeyRow>(`select ${columns} from keys where holder = $1 order by id for update`, [holder]))
    .rows;
}

export async function retire(db: Queryable, id: string, listedUntil: number): Promise<void> {
  await db.query("update keys set state = 'retired', listed_until = $2 where id = $1", [id, listedUntil]);
}

/** Out of the document, and the secret half is forgotten. The row stays, so that its number is never given again. */
export async function withdraw(db: Queryable, id: string, now: number): Promise<void> {
  await db.query("update keys set state = 'retired', listed_until = $2, sealed_seed = '' where id = $1", [id, now]);
}

export async function activate(db: Queryable, id: string): Promise<void> {
  await db.query("update keys set state = 'active' where id = $1", [id]);
}

/** After the instance moved to another public URL: the same keys under its new name. */
export async function renameMethods(db: Queryable, holder: string, did: string): Promise<void> {
  const sql = `update keys set method_id = $2 || substring(method_id from position('#' in method_id)) where holder = $1`;
  await db.query(sql, [holder, did]);
}

/** Who holds a key that is listed now: `owner:<member id>`, `agent:<agent id>`, by public key. */
export async function holdersByKey(
  db: Queryable,
  publicKeys: readonly string[],
  now: number,
): Promise<Array<{ key: string; holder: string }>> {
  const sql = `select public_multibase as key, holder from keys
    where public_multibase = any($1::text[]) and state <> 'pending' and (listed_until is null or listed_until > $2)`;
  return (await db.query<{ key: string; holder: string }>(sql, [publicKeys, now])).rows;
}

export async function instanceMethod(db: Queryable): Promise<string | null> {
  const sql = "select method_id from keys where holder = 'instance' and state = 'active'";
  return (await db.query<{ method_id: string }>(sql)).rows[0]?.method_id ?? null;
}
