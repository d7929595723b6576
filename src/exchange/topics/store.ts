import type { Queryable, Tx } from '../../db/types.ts';

/** Whether `checks` (migrations/fn_topics.sql) hold now. */
const passes = (checks: string): string => `event_may_pass(${checks}, true)`;

/** What leaves of an event, wherever it goes. */
export interface EventRow {
  id: string;
  envelope: string;
  from_addr: string;
  to_addr: string;
  /** `m:<member id>` when somebody here published it. */
  sender: string;
  signed: boolean;
}

export async function eventBySeq(db: Queryable, seq: number): Promise<EventRow | null> {
  const sql = `select id, envelope, from_addr, to_addr, sender, sig_payload is not null as signed from messages where seq = $1 and kind = 'event'`;
  return (await db.query<EventRow>(sql, [seq])).rows[0] ?? null;
}

/**
 * The orgs behind `domain` that listen to a topic here and may still have an event that crossed `checks`, by their own handles, with the
 * revision of the side that exposes the topic to each.
 */
export async function audienceBehind(
  db: Queryable,
  q: { topicId: string; domain: string; checks: readonly string[]; signed: boolean },
): Promise<Array<{ org: string; rev: number }>> {
  const sql = `select coalesce(l.peer_org, l.peer_handle) as org, l.our_rev as rev
    from topics t join topic_links x on x.topic_id = t.id join links l on l.id = x.link_id
    where t.id = $1 and x.active and l.peer_domain = $2
      and ${passes(`array['sub ours ' || l.id || ' ' || t.team || '/' || t.name]`)} and event_may_pass($3::text[], $4)
    order by 1`;
  return (await db.query<{ org: string; rev: number }>(sql, [q.topicId, q.domain, q.checks, q.signed])).rows;
}

/** What waited for a peer that was away does not go out after the link has ended. */
export async function isLinkActive(db: Queryable, linkId: string): Promise<boolean> {
  const sql = 'select 1 from links where id = $1 and our_want > 0 and their_want > 0';
  return (await db.query(sql, [linkId])).rowCount > 0;
}

/** Where the publisher of an event stands in its own thread. */
export async function publisherOf(
  db: Queryable,
  seq: number,
  owner: string,
): Promise<{ agentId: string; session: number | null; thread: string } | null> {
  const sql = `select agent_id as "agentId", session, conversation as thread from conversation_messages
    where seq = $1 and owner = $2 and agent_id is not null order by conversation limit 1`;
  return (
    (await db.query<{ agentId: string; session: number | null; thread: string }>(sql, [seq, owner])).rows[0] ?? null
  );
}

export interface Notice {
  id: string;
  from: string;
  to: string;
  replyTo: string;
  envelope: string;
  agentId: string;
  owner: string;
  thread: string;
  session: number | null;
  now: number;
  expiresAt: number;
}

/** A word of the relay itself to an agent here; once per id. */
export async function insertNotice(tx: Tx, n: Notice): Promise<boolean> {
  const sql = `with said as (
      insert into messages (sender, id, kind, from_addr, to_addr, reply_to, envelope, wire, created_at, expires_at)
        values ('system', $1, 'reply', $2, $3, $4, $5, 'relay', $6, $7) on conflict do nothing returning seq
    ), placed as (
      insert into conversation_messages (owner, conversation, seq, agent_id, session) select $8, $9, seq, $10, $11 from said
    )
    insert into deliveries (agent_id, message_seq, message_id, reply_to, thread, to_addr, session, expires_at)
      select $10, seq, $1, $4, $9, $3, $11, $7 from said`;
  const values = [
    n.id,
    n.from,
    n.to,
    n.replyTo,
    n.envelope,
    n.now,
    n.expiresAt,
    n.owner,
    n.thread,
    n.agentId,
    n.session,
  ];
  return (await tx.query(sql, values)).rowCount > 0;
}

/** The id of the topic of an org here, made on its first use; null when the org has no room for another one. */
export async function topicHere(
  db: Queryable,
  q: { orgId: string; team: string; name: string; newId: string; now: number },
): Promise<string | null> {
  const sql = 'select topic_of($1, $2, $3, $4, $5) as id';
  return (await db.query<{ id: string | null }>(sql, [q.orgId, q.team, q.name, q.newId, q.now])).rows[0]!.id;
}

export async function findTopicHere(db: Queryable, orgId: string, team: string, name: string): Promise<string | null> {
  const sql = 'select id from topics where org_id = $1 and team = $2 and name = $3';
  return (await db.query<{ id: string }>(sql, [orgId, team, name])).rows[0]?.id ?? null;
}

/** The topic behind a link as the link's org follows it, made on its first use and locked. */
export async function lockTopicBehind(
  tx: Tx,
  q: { linkId: string; team: string; name: string; newId: string; now: number },
): Promise<string> {
  await tx.query(
    'insert into topics (id, link_id, team, name, created_at) values ($1, $2, $3, $4, $5) on conflict do nothing',
    [q.newId, q.linkId, q.team, q.name, q.now],
  );
  const sql = 'select id from topics where link_id = $1 and team = $2 and name = $3 for no key update';
  return (await tx.query<{ id: string }>(sql, [q.linkId, q.team, q.name])).rows[0]!.id;
}

export async function findTopicBehind(tx: Tx, linkId: string, team: string, name: string): Promise<string | null> {
  const sql = 'select id from topics where link_id = $1 and team = $2 and name = $3 for no key update';
  return (await tx.query<{ id: string }>(sql, [linkId, team, name])).rows[0]?.id ?? null;
}

export async function countSubscriptions(db: Queryable, agentId: string): Promise<number> {
  const sql = 'select count(*)::int as n from subscriptions where agent_id = $1 and active';
  return (await db.query<{ n: number }>(sql, [agentId])).rows[0]!.n;
}

/** False when the agent listened already. One that listens again keeps its session. */
export async function startListening(
  db: Queryable,
  q: { topicId: string; agentId: string; conversation: string; linkId: string | null; now: number },
): Promise<boolean> {
  const sql = `insert into subscriptions as s (topic_id, agent_id, active, conversation, link_id, created_at) values ($1, $2, true, $3, $4, $5)
    on conflict (topic_id, agent_id) do update set active = true, link_id = excluded.link_id
      where not s.active or s.link_id is distinct from excluded.link_id`;
  return (await db.query(sql, [q.topicId, q.agentId, q.conversation, q.linkId, q.now])).rowCount === 1;
}

export async function stopListening(db: Queryable, topicId: string, agentId: string): Promise<boolean> {
  const sql = 'update subscriptions set active = false where topic_id = $1 and agent_id = $2 and active';
  return (await db.query(sql, [topicId, agentId])).rowCount === 1;
}

/** Forgets a topic behind a link that nobody here has ever been let listen to. */
export async function forgetUnheard(tx: Tx, topicId: string): Promise<void> {
  await tx.query('delete from subscriptions where topic_id = $1 and not active and session is null', [topicId]);
  await tx.query(
    'delete from topics where id = $1 and link_id is not null and not exists (select from subscriptions where topic_id = $1)',
    [topicId],
  );
}

/** Whether anybody here listens has changed, or is to be told again. */
export async function bumpTopic(tx: Tx, topicId: string, now: number): Promise<void> {
  await tx.query('update topics set rev = greatest(rev + 1, $2) where id = $1', [topicId, now]);
}

/** What the gateway of a topic is told. */
export interface Interest {
  rev: number;
  isActive: boolean;
  /** Somebody here listens. */
  on: boolean;
  domain: string;
  /** The topic's org and ours, each by its own handle. */
  org: string;
  for: string;
  path: string;
}

export async function interestIn(db: Queryable, topicId: string): Promise<Interest | null> {
  const sql = `select t.rev, l.our_want > 0 and l.their_want > 0 as "isActive", l.peer_domain as domain,
      coalesce(l.peer_org, l.peer_handle) as org, o.handle as "for", t.team || '/' || t.name as path,
      exists (select from subscriptions s where s.topic_id = t.id and s.active) as on
    from topics t join links l on l.id = t.link_id join orgs o on o.id = l.org_id where t.id = $1`;
  return (await db.query<Interest>(sql, [topicId])).rows[0] ?? null;
}

export async function confirmTopic(db: Queryable, topicId: string, rev: number): Promise<void> {
  await db.query('update topics set told_rev = greatest(told_rev, $2), problem = null where id = $1', [topicId, rev]);
}

export async function noteProblem(db: Queryable, topicId: string, problem: string): Promise<void> {
  await db.query('update topics set problem = $2 where id = $1', [topicId, problem.slice(0, 500)]);
}

/** A linked org behind another gateway begins or ends to listen; older news changes nothing. */
export async function setLinkListening(
  db: Queryable,
  q: { topicId: string; linkId: string; on: boolean; rev: number },
): Promise<void> {
  const sql = `insert into topic_links as x (topic_id, link_id, active, rev) values ($1, $2, $3, $4)
    on conflict (topic_id, link_id) do update set active = excluded.active, rev = excluded.rev where x.rev <= excluded.rev`;
  await db.query(sql, [q.topicId, q.linkId, q.on, q.rev]);
}

export interface TopicRow {
  topic: string;
  /** Its gateway has not said yet that we may listen, or why not. */
  pending: boolean;
  problem: string | null;
  agents: string[];
  orgs: string[];
}

/**
 * Topics in the order of their addresses, from `after` on: those of the orgs, and those of other orgs that an agent of theirs listens to. Of each,
 * the orgs' own agents that listen; of other orgs only that they do, and only for the topic's own people.
 */
export async function listTopics(
  db: Queryable,
  q: { orgIds: readonly string[]; after: string; limit: number; perTopic: number },
): Promise<TopicRow[]> {
  const sql = `with mine as (
      select t.*, 'topic:' || coalesce(o.handle, l.peer_handle) || '/' || t.team || '/' || t.name as topic, t.org_id = any($1::text[]) as own
        from topics t left join orgs o on o.id = t.org_id left join links l on l.id = t.link_id
        where t.org_id = any($1) or exists (
          select from subscriptions s join agents a on a.id = s.agent_id where s.topic_id = t.id and s.active and a.org_id = any($1))
    ), page as (
      select * from mine where topic collate "C" > $2 order by topic collate "C" limit $3
    )
    select p.topic, p.link_id is not null and p.told_rev < p.rev and p.problem is null as pending, p.problem,
      coalesce((select array_agg(y.address) from (
        select o.handle || '/' || t.handle || '/' || m.handle || '/' || a.handle as address
          from subscriptions s join agents a on a.id = s.agent_id join orgs o on o.id = a.org_id join teams t on t.id = a.team_id
          join members m on m.id = a.member_id
          where s.topic_id = p.id and s.active and a.org_id = any($1) order by 1 limit $4) y), '{}') as agents,
      coalesce((select array_agg(distinct z.org order by z.org) from (
        select l.peer_handle as org from topic_links x join links l on l.id = x.link_id
          where p.own and x.topic_id = p.id and x.active and ${passes(`array['sub ours ' || l.id || ' ' || p.team || '/' || p.name]`)}
        union all
        select o.handle from subscriptions s join agents a on a.id = s.agent_id join orgs o on o.id = a.org_id
          where p.own and s.topic_id = p.id and s.active and not a.org_id = any($1)
            and ${passes(`array['sub ours ' || s.link_id || ' ' || p.team || '/' || p.name]`)}) z), '{}') as orgs
    from page p order by p.topic collate "C"`;
  return (await db.query<TopicRow>(sql, [q.orgIds, q.after, q.limit, q.perTopic])).rows;
}
