import type { Queryable } from '../../db/types.ts';
import type { MessageKind } from '../message.ts';
import type { ExchangeState } from '../types.ts';

export interface AnswerRow {
  kind: MessageKind;
  id: string;
  envelope: string;
  thread: string;
  owner: string;
  org_id: string;
  state: ExchangeState;
  reason: string | null;
}

/** An answer to a foreign asker; null when it is gone. */
export async function answerBySeq(db: Queryable, seq: number): Promise<AnswerRow | null> {
  const { rows } = await db.query<AnswerRow>(
    `select m.kind, m.id, m.envelope, e.asker_thread as thread, e.asked_owner as owner, o.org_id, e.state, e.reason
      from messages m join exchanges e on e.id = m.exchange_id join members o on o.id = e.asked_owner
      where m.seq = $1 and m.seq <> e.request_seq`,
    [seq],
  );
  return rows[0] ?? null;
}

export interface QuestionRow {
  exchange_id: string;
  id: string;
  envelope: string;
  thread: string;
  owner: string;
  org_id: string;
  asker_addr: string;
  done: boolean;
}

/** A request that leaves for a foreign agent. `thread`: as that side writes it. */
export async function questionBySeq(db: Queryable, seq: number): Promise<QuestionRow | null> {
  const { rows } = await db.query<QuestionRow>(
    `select e.id as exchange_id, m.id, m.envelope, coalesce(p.their_thread, e.asker_thread) as thread, e.asker_owner as owner, o.org_id,
        e.asker_addr, e.ended_at is not null or e.asked_via is not null as done
      from messages m join exchanges e on e.request_seq = m.seq join members o on o.id = e.asker_owner
      left join conversation_participants p on p.owner = e.asker_owner and p.conversation = e.asker_conversation and p.participant = e.asked
      where m.seq = $1`,
    [seq],
  );
  return rows[0] ?? null;
}

export async function setAskedVia(db: Queryable, exchangeId: string, via: string): Promise<void> {
  await db.query('update exchanges set asked_via = $2 where id = $1', [exchangeId, via]);
}

/** Whether one of these senders told that, beside every exchange. */
export async function isTold(db: Queryable, id: string, dids: readonly string[]): Promise<boolean> {
  const { rows } = await db.query(
    `select from messages m join peers p on m.sender = 'p:' || p.id where m.id = $1 and p.did = any ($2::text[]) limit 1`,
    [id, dids],
  );
  return rows.length > 0;
}

export async function peerDid(db: Queryable, id: string): Promise<string | null> {
  return (await db.query<{ did: string }>('select did from peers where id = $1', [id])).rows[0]?.did ?? null;
}

export async function insertProof(db: Queryable, proof: Buffer, expiresAt: number): Promise<boolean> {
  const sql = 'insert into seen_proofs (proof, expires_at) values ($1, $2) on conflict do nothing';
  return (await db.query(sql, [proof, expiresAt])).rowCount === 1;
}

export async function bindConversation(
  db: Queryable,
  q: {
    owner: string;
    asker: string;
    asked: string | null;
    derived: string;
    mayOpen: boolean;
    theirs: string;
    now: number;
  },
): Promise<void> {
  const values = [q.owner, q.asker, q.asked, q.derived, q.mayOpen, q.theirs, q.now];
  await db.query('select bind_conversation($1, $2, $3, $4, $5, $6, $7)', values);
}

export interface ConsultRow {
  seq: number;
  id: string;
  kind: MessageKind;
  is_own: boolean;
  reply_to: string | null;
  exchange_id: string | null;
  envelope: string;
  reason: string | null;
  created_at: number;
}

/** The newest messages of a conversation of one of these owners, oldest first. */
export async function consultMessages(
  db: Queryable,
  q: { owners: readonly string[]; conversation: string; limit: number },
): Promise<ConsultRow[]> {
  const { rows } = await db.query<ConsultRow>(
    `select * from (
        select m.seq, m.id, m.kind, m.sender = 'm:' || c.owner as is_own, m.reply_to, m.exchange_id, m.envelope, e.reason, m.created_at
          from (select distinct owner, seq from conversation_messages where owner = any ($1) and conversation = $2) c
          join messages m on m.seq = c.seq left join exchanges e on e.id = m.exchange_id
          where m.kind <> 'progress'
          order by m.seq desc limit $3) x
      order by seq`,
    [q.owners, q.conversation, q.limit],
  );
  return rows;
}
