import type { Queryable } from '../../db/types.ts';

export interface NewFiles {
  seq: number;
  id: string;
  zip: Buffer;
  sha256: string;
  payer: string;
}

/** As long as a push of the task is tried. */
const polledMs = 86_400_000;

/** Bytes that wait on somebody's account. */
export async function waitingBytes(db: Queryable, payer: string): Promise<number> {
  const sql = 'select coalesce(sum(bytes), 0)::bigint as bytes from message_files where payer = $1 and zip is not null';
  return Number((await db.query<{ bytes: number }>(sql, [payer])).rows[0]!.bytes);
}

/** Until the transaction ends nobody else decides on that account. */
export async function lockPayer(tx: Queryable, payer: string): Promise<void> {
  await tx.query('select pg_advisory_xact_lock(7184303, hashtext($1))', [payer]);
}

/**
 * Keeps a zip beside its message and marks what owes it. A reply to an asker that is sent nothing keeps it for `polledMs`: its task names it.
 * Any other message that nobody is sent keeps none, as there is nobody to fetch it.
 */
export async function insertFiles(tx: Queryable, files: NewFiles, now: number): Promise<void> {
  const { seq, id, zip, sha256, payer } = files;
  await tx.query(
    `with owed as (
       update deliveries set has_files = true where message_seq = $1 returning 1
     ), sent as (
       update outbox set has_files = true where message_seq = $1 returning 1
     ), polled as (
       select 1 from messages m join exchanges e on e.id = m.exchange_id
         where m.seq = $1 and m.kind = 'reply' and e.asker_agent is null and e.asker_via is null
     )
     insert into message_files (seq, id, bytes, sha256, payer, zip, kept_until)
       select $1, $2, $3, $4, $5,
         case when exists (select from owed) or exists (select from sent) or exists (select from polled) then $6::bytea end,
         case when exists (select from polled) then $7::bigint end`,
    [seq, id, zip.length, sha256, payer, zip, now + polledMs],
  );
}

export interface FilesRow {
  seq: number;
  from: string;
  /** The zip is still here. */
  here: boolean;
  /** One of the members sent it or is sent it; else somebody of their orgs. */
  mine: boolean;
}

/** The messages with files under an id that one of the members, or somebody of their orgs, sent or got; newest first. */
export async function findFiles(
  db: Queryable,
  q: { id: string; memberIds: readonly string[]; orgIds: readonly string[] },
): Promise<FilesRow[]> {
  const { rows } = await db.query<FilesRow>(
    `select f.seq, m.from_addr as "from", f.zip is not null as here, bool_or(p.member = any($2::text[])) as mine
       from message_files f join messages m on m.seq = f.seq
       cross join lateral (
         select substr(m.sender, 3) as member where m.sender like 'm:%'
         union select c.owner from conversation_messages c where c.seq = f.seq
         union select a.member_id from deliveries d join agents a on a.id = d.agent_id where d.message_seq = f.seq
       ) p
       join members o on o.id = p.member and o.org_id = any($3::text[])
      where f.id = $1
      group by f.seq, m.from_addr order by f.seq desc limit 100`,
    [q.id, q.memberIds, q.orgIds],
  );
  return rows;
}

/** Drops the zips whose time is over. Answers how many. */
export async function purgeFiles(db: Queryable, now: number): Promise<number> {
  const sql = 'update message_files set zip = null where kept_until <= $1 and zip is not null';
  return (await db.query(sql, [now])).rowCount;
}

/** Null when it is gone. */
export async function readZip(db: Queryable, seq: number): Promise<Buffer | null> {
  const { rows } = await db.query<{ zip: Buffer | null }>('select zip from message_files where seq = $1', [seq]);
  return rows[0]?.zip ?? null;
}
