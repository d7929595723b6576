import type { Queryable } from '../db/types.ts';
import { teamless } from '../directory/dids.ts';
import type { ExchangeRef } from './lookups.ts';
import type { MessageKind } from './message.ts';
import type { PushRow } from './push/store.ts';
import type { ExchangeState } from './types.ts';

/** One message for `accept_messages` (migrations/fn_accept.sql); absent means null. */
export interface AcceptItem {
  sender: string;
  id: string;
  kind: MessageKind;
  from_addr: string;
  to_addr: string;
  reply_to: string | null;
  envelope: string;
  sig_payload: string | null;
  sig_node: string | null;
  a2a: string | null;
  wire: string;
  expires_at: number;
  proof: string | null;
  proof_expires: number | null;
  quota_org: string | null;
  /** Messages that this org may send on a UTC day; null: any number. */
  quota_limit?: number | null;
  reserved_for: string | null;
  target: 'agent' | 'room' | 'remote' | 'asker' | 'event' | 'follow' | 'note';
  exchange_id?: string;
  agent_id?: string;
  asked_owner?: string;
  asked?: string;
  asked_addr?: string;
  session?: number | null;
  session_new?: boolean;
  thread_asked?: string | null;
  thread_derived?: string;
  may_open?: boolean;
  asker?: string;
  asker_agent?: string | null;
  asker_owner?: string | null;
  asker_addr?: string;
  asker_session?: number | null;
  asker_via?: string | null;
  /** Of the outbox rows of answers to `asker_via`; null: 'redsyn' without a body. */
  asker_kind?: string | null;
  asker_ref?: string | null;
  asker_thread?: string;
  destination?: string;
  lane?: string;
  /** Of the outbox row of a remote target; 'redsyn' without a body unless it says otherwise. */
  outbox_kind?: string;
  outbox_body?: string;
  state?: ExchangeState;
  reason?: string | null;
  /** For `spread_event` (migrations/fn_topics.sql), or `post_to_room` (fn_rooms.sql). */
  event?: object;
  sealed?: boolean;
  asker_node?: string | null;
  /** Webhooks that are told of the exchange's changes, for `set_push_configs` (migrations/fn_tasks.sql). */
  push?: readonly PushRow[];
  /** Beside the row, for `weigh`. */
  weight?: Omit<Weight, 'i'>;
  /** The owner's decision comes first (`permissions`). */
  held?: {
    id: string;
    level: string;
    action: string;
    effects: readonly string[];
    names: readonly string[];
    domain: string;
    link_id: string | null;
    content: string;
    decidable_at: number;
  };
}

/** One for `weigh` (migrations/fn_accept_limits.sql). */
export interface Weight {
  i: number;
  agent: string;
  peer: string;
  abroad: boolean;
  leaves: boolean;
  /** What it takes to keep, its zip included. */
  bytes: number;
  sender: string | null;
  turns: number;
}

export interface AcceptRow {
  i: number;
  outcome:
    | 'accepted'
    | 'duplicate'
    | 'replayed'
    | 'closed'
    | 'no_session'
    | 'session_closed'
    | 'no_room'
    | 'day_used'
    | 'missing'
    | 'no_member'
    | 'push_full'
    | 'paused'
    | 'held';
  /** Null for an event. */
  exchange: string | null;
  thread: string;
  addressee: string;
  seq: number;
  outbox_id: number | null;
  signed: boolean;
  wakes: string[];
  /** Past four fifths of a limit, `used` of `limit` messages or bytes today; for 'paused' what stopped it. */
  budget: { of: 'messages' | 'bytes' | 'tokens' | 'turns'; used?: number; limit?: number } | null;
}

/** Writes a batch in one statement and one commit. Rows come back in the order of `items`. */
export async function acceptMessages(
  db: Queryable,
  items: readonly AcceptItem[],
  origin: string,
  now: number,
): Promise<AcceptRow[]> {
  const numbered = items.map(({ weight: _, ...item }, i) => ({ i, ...item }));
  const weights = items.flatMap(({ weight }, i): Weight[] => (weight ? [{ i, ...weight }] : []));
  const { rows } = await db.query<AcceptRow>('select * from accept_messages($1, $2, $3, $4)', [
    JSON.stringify(numbered),
    origin,
    now,
    JSON.stringify(weights),
  ]);
  return rows.sort((a, b) => a.i - b.i);
}

const refColumns = `e.id, e.request_id as "requestId", e.asker, e.asker_agent as "askerAgent", e.asker_owner as "askerOwner",
  e.asker_addr as "askerAddr", e.asker_via as "askerVia", e.asked, e.asked_agent as "askedAgent", e.asked_addr as "askedAddr",
  e.ended_at is not null as ended, e.asked_conversation as "askedThread"`;

export interface AnswerableRow extends ExchangeRef {
  askedThread: string | null;
}

/** Exchanges that an agent was asked under a request id, that of a follow-up too; more than one when several askers used the same id. */
export async function askedOfAgent(db: Queryable, agentId: string, requestId: string): Promise<AnswerableRow[]> {
  const { rows } = await db.query<AnswerableRow>(
    `select ${refColumns} from exchanges e
      where e.id in (
        select x.id from exchanges x where x.asked_agent = $1 and x.request_id = $2
        union select f.exchange_id from follow_ups f where f.agent_id = $1 and f.request_id = $2)
      order by e.created_at limit 20`,
    [agentId, requestId],
  );
  return rows;
}

/** Exchanges that local agents asked of an address behind another gateway, or of its owner's default agent, whichever that is there. */
export async function askedOfPeer(
  db: Queryable,
  domain: string,
  address: string,
  requestId: string,
): Promise<AnswerableRow[]> {
  const { rows } = await db.query<AnswerableRow>(
    `select ${refColumns} from exchanges e join peers p on e.asked = 'p:' || p.id
      where e.request_id = $3 and e.asked_addr in ($2, $4) and e.asked_agent is null and p.domain = $1 order by e.created_at limit 20`,
    [domain, address, requestId, teamlessAddress(address)],
  );
  return rows;
}

/**
 * The oldest open exchange that somebody of `owner` asked of a peer by one of these DIDs in a thread, whichever side opened that: by our id of it or by
 * the peer's. What became a task of an A2A server is answered there.
 */
export async function openInThread(
  db: Queryable,
  q: { owner: string; dids: readonly string[]; thread: string },
): Promise<ExchangeRef | null> {
  const { rows } = await db.query<ExchangeRef>(
    `select ${refColumns} from exchanges e
      where e.asker_owner = $1 and e.ended_at is null and e.asked_agent is null
        and e.asked in (select 'p:' || p.id from peers p where p.did = any ($2::text[]))
        and (e.asker_conversation = $3 or exists (select 1 from conversation_participants c
          where c.owner = e.asker_owner and c.conversation = e.asker_conversation and c.participant = e.asked and c.their_thread = $3))
        and not exists (select 1 from remote_tasks r where r.exchange_id = e.id)
      order by e.created_at, e.id limit 1`,
    [q.owner, q.dids, q.thread],
  );
  return rows[0] ?? null;
}

export interface SessionRow {
  conversation: string;
  state: 'open' | 'closed';
  takesPart: boolean;
}

export async function sessionFor(
  db: Queryable,
  agentId: string,
  n: number,
  participant: string,
): Promise<SessionRow | null> {
  const { rows } = await db.query<SessionRow>(
    `select s.conversation, s.state, exists (select 1 from conversation_participants p
        where p.owner = s.owner and p.conversation = s.conversation and p.participant = $3) as "takesPart"
      from sessions s where s.agent_id = $1 and s.n = $2`,
    [agentId, n, participant],
  );
  return rows[0] ?? null;
}

export interface TaskRow {
  id: string;
  thread: string;
  asker: string;
  askerDid: string | null;
  asker_addr: string;
  asked_agent: string | null;
  asked_addr: string;
  state: ExchangeState;
  reason: string | null;
  created_at: number;
  updated_at: number;
  has_push: boolean;
}

export async function exchangeById(db: Queryable, id: string): Promise<TaskRow | null> {
  const { rows } = await db.query<TaskRow>(
    `select e.id, e.asker_thread as thread, e.asker, p.did as "askerDid", e.asker_addr, e.asked_agent, e.asked_addr, e.state, e.reason,
        e.created_at, e.updated_at, e.has_push
      from exchanges e left join peers p on e.asker = 'p:' || p.id where e.id = $1`,
    [id],
  );
  return rows[0] ?? null;
}

export interface MessageRow {
  seq: number;
  id: string;
  kind: MessageKind;
  from_addr: string;
  to_addr: string;
  reply_to: string | null;
  envelope: string;
  sig_payload: string | null;
  sig_node: string | null;
  a2a: string | null;
  created_at: number;
  expires_at: number;
}

export const messageColumns =
  'm.seq, m.id, m.kind, m.from_addr, m.to_addr, m.reply_to, m.envelope, m.sig_payload, m.sig_node, m.a2a, m.created_at, m.expires_at';

/** The exchange's clock, to tell whether it has changed. */
export async function updatedAt(db: Queryable, exchangeId: string): Promise<number | null> {
  const { rows } = await db.query<{ updated_at: number }>('select updated_at from exchanges where id = $1', [
    exchangeId,
  ]);
  return rows[0]?.updated_at ?? null;
}

export interface UndeliveredRow {
  exchange_id: string;
  asked_addr: string;
  request_id: string;
  asker_thread: string;
  ended: boolean;
}

/** The exchange that a request opened or went on with; null for any other message. */
export async function exchangeOfRequest(db: Queryable, requestSeq: number): Promise<UndeliveredRow | null> {
  const { rows } = await db.query<UndeliveredRow>(
    `select id as exchange_id, asked_addr, request_id, asker_thread, ended_at is not null as ended from exchanges
      where id = coalesce((select id from exchanges where request_seq = $1), (select exchange_id from follow_ups where message_seq = $1))`,
    [requestSeq],
  );
  return rows[0] ?? null;
}

/** What a carrier needs of a message that leaves for another gateway. */
export interface CarriedRow {
  seq: number;
  sender: string;
  kind: MessageKind;
  id: string;
  envelope: string;
  /** The thread as the receiving side writes it. */
  wire_thread: string;
  /** Owner of the key that signs, or null when no person here said it. */
  owner: string | null;
  /** The org here from which it leaves. */
  org_id: string | null;
  to_addr: string;
  asked_addr: string;
  turns: number | null;
}

export async function carriedMessage(db: Queryable, seq: number): Promise<CarriedRow | null> {
  const { rows } = await db.query<CarriedRow>(
    `select m.seq, m.sender, m.kind, m.id, m.envelope, e.asked_addr,
        case when m.seq = e.request_seq then coalesce(p.their_thread, e.asker_thread) else e.asker_thread end as wire_thread,
        case when m.sender = 'system' then null when m.seq = e.request_seq then e.asker_owner else e.asked_owner end as owner,
        (select o.org_id from members o where o.id = case when m.seq = e.request_seq then e.asker_owner else e.asked_owner end) as org_id,
        case when m.seq = e.request_seq then e.asked_addr else e.asker_addr end as to_addr,
        case when m.seq = e.request_seq then (select t.turns from peer_turns t where t.agent_id = e.asker_agent and t.peer = e.asked) end as turns
      from messages m join exchanges e on e.id = m.exchange_id
      left join conversation_participants p on p.owner = e.asker_owner and p.conversation = e.asker_conversation and p.participant = e.asked
      where m.seq = $1`,
    [seq],
  );
  return rows[0] ?? null;
}

/** `org/agents/user/agent`: the default agent of the owner of this one (design §3). */
function teamlessAddress(address: string): string {
  const [org, , user] = address.split('/');
  return [org, teamless.team, user, teamless.agent].join('/');
}

/** The far side has the request: where its owner's default agent was asked, this is that agent. The org stays as it is written here. */
export async function recordRemoteAgent(
  db: Queryable,
  requestSeq: number,
  { user, team, agent }: { user: string; team: string; agent: string },
): Promise<void> {
  await db.query(
    `update exchanges set asked_addr = concat_ws('/', split_part(asked_addr, '/', 1), $2::text, $3::text, $4::text)
      where request_seq = $1 and asked_agent is null
        and split_part(asked_addr, '/', 2) = $5 and split_part(asked_addr, '/', 3) = $3 and split_part(asked_addr, '/', 4) = $6`,
    [requestSeq, team, user, agent, teamless.team, teamless.agent],
  );
}

/** The far side has the request: `session` is the one it opened, when it said. */
export async function recordRemoteSession(db: Queryable, requestSeq: number, session: number): Promise<void> {
  await db.query('update exchanges set asked_session = $2 where request_seq = $1 and asked_agent is null', [
    requestSeq,
    session,
  ]);
}

/** Takes back a request that the far side refused while its sender was still waiting: its id may be used again. */
export async function withdrawRequest(db: Queryable, seq: number): Promise<void> {
  await db.query('delete from outbox where message_seq = $1', [seq]);
  await db.query('delete from exchanges where request_seq = $1', [seq]);
  const { rows } = await db.query<{ owner: string; conversation: string }>(
    'delete from conversation_messages where seq = $1 returning owner, conversation',
    [seq],
  );
  await db.query('delete from messages where seq = $1', [seq]);
  for (const { owner, conversation } of rows) {
    await db.query(
      `delete from conversations c where c.owner = $1 and c.id = $2
        and not exists (select 1 from conversation_messages m where m.owner = c.owner and m.conversation = c.id)
        and not exists (select 1 from sessions s where s.owner = c.owner and s.conversation = c.id)`,
      [owner, conversation],
    );
  }
}

export interface ThreadRow extends MessageRow {
  /** What became of a request. */
  state: ExchangeState | null;
}

/** The newest messages before `before`, oldest first, of the conversations that go by `thread` under any of the owners. */
export async function threadMessages(
  db: Queryable,
  q: { owners: readonly string[]; thread: string; before: number | null; limit: number },
): Promise<ThreadRow[]> {
  const { rows } = await db.query<ThreadRow>(
    `select ${messageColumns}, case when m.kind = 'request' then e.state end as state
      from (select distinct c.seq from conversation_messages c
        where c.owner = any($1) and c.conversation = $2 and ($3::bigint is null or c.seq < $3) order by c.seq desc limit $4) c
      join messages m on m.seq = c.seq left join exchanges e on e.id = m.exchange_id order by m.seq`,
    [q.owners, q.thread, q.before, q.limit],
  );
  return rows;
}
