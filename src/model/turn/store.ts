import type { Queryable } from '../../db/types.ts';
import type { Audience } from '../types.ts';

/** What a turn must know of the request that it takes. */
export interface AskedRow {
  exchangeId: string;
  /** 'm:<member id>', 'p:<peer id>' …: who proved to have sent it. */
  sender: string;
  conversation: string;
  ended: boolean;
  /** By the token of a person, and as the very request: an agent's key speaks for its agent alone, and what follows a task up does not say by which it came. */
  byPerson: boolean;
  /** Its asker reads the task (a stream, polling), and has no inbox that each progress would land in. */
  followsTask: boolean;
  /** It does not come from the agent's own organisation. */
  abroad: boolean;
  /** Its answers go to another organisation as envelopes, whose link may ask for signatures. */
  toOtherOrg: boolean;
}

export async function askedBy(db: Queryable, messageSeq: number, agentId: string): Promise<AskedRow | null> {
  const { rows } = await db.query<AskedRow>(
    `select e.id as "exchangeId", m.sender, e.asked_conversation as conversation, e.ended_at is not null as ended,
        e.asker_node is not null and m.seq = e.request_seq as "byPerson",
        e.asker_agent is null and (e.asker_via is null or e.asker_kind is not null) as "followsTask",
        a.org_id is distinct from o.org_id as abroad,
        (e.asker_via is not null and e.asker_kind is null) or coalesce(a.org_id <> o.org_id, false) as "toOtherOrg"
       from messages m join exchanges e on e.id = m.exchange_id
       join members o on o.id = e.asked_owner left join members a on a.id = e.asker_owner
       where m.seq = $1 and e.asked_agent = $2`,
    [messageSeq, agentId],
  );
  return rows[0] ?? null;
}

export interface SaidRow {
  isAnswer: boolean;
  envelope: string;
}

/**
 * What this very sender and the agent said to each other in the conversation before, oldest first. Nobody else's words: those who share a thread do not
 * read each other, and an agent with a key of its own does not read what its owner asked in it.
 */
export async function saidBefore(
  db: Queryable,
  audience: Audience,
  q: { agentId: string; conversation: string; sender: string; from: string; before: number; limit: number },
): Promise<SaidRow[]> {
  const { rows } = await db.query<SaidRow>(
    `select x.* from (
        select e.request_seq, m.seq, m.kind = 'reply' as "isAnswer", m.envelope
          from exchanges e join messages m on m.exchange_id = e.id
          where e.asked_agent = $1 and e.asked_conversation = $2 and e.asker = $3 and e.request_seq < $4
            and (m.kind = 'reply' or (m.kind = 'request' and m.sender = $3))
            and e.state <> 'failed' and case when $6 = 'owner' then e.asker_node is not null
              else split_part(e.asker_addr, '#', 1) = split_part($7, '#', 1)
                and (e.asker_node is null) = (select o.asker_node is null from exchanges o join messages a on a.exchange_id = o.id where a.seq = $4) end
          order by e.request_seq desc, m.seq desc limit $5) x
       order by x.request_seq, x.seq`,
    [q.agentId, q.conversation, q.sender, q.before, q.limit, audience, q.from],
  );
  return rows;
}

/** Contacts of an owner as her own model is told them. */
export async function contactNames(
  db: Queryable,
  owner: string,
  limit: number,
): Promise<Array<{ did: string; name: string; alias: string | null }>> {
  const { rows } = await db.query<{ did: string; name: string; alias: string | null }>(
    `select p.did, p.name, c.alias from contacts c join peers p on p.id = c.peer_id
       where c.owner = $1 and not c.blocked order by c.created_at desc, c.id limit $2`,
    [owner, limit],
  );
  return rows;
}
