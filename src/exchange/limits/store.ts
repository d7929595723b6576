import type { Queryable } from '../../db/types.ts';

/** Null: unlimited, or the usual limit where one is chosen. */
export interface Most {
  messages: number | null;
  bytes: number | null;
  tokens: number | null;
}

export type PausedFor = 'messages' | 'bytes' | 'tokens' | 'turns';

export interface LimitRow {
  agentId: string;
  agent: string;
  /** The agent's owner. */
  owner: string;
  /** '' for all peers of the agent together. */
  peer: string;
  /** The DID, `org/user` or 'anonymous' that `peer` is; null for all together. */
  peerName: string | null;
  used: { messages: number; bytes: number; tokens: number };
  most: Most;
  turns: number;
  /** What the owner chose herself. */
  chosen: Most & { turns: number | null };
  pausedFor: PausedFor | null;
  pausedAt: number | null;
}

const day = (now: number): number => Math.floor(now / 86_400_000);

/**
 * What was used today, chosen or paused between agents of these owners and their peers, and between anybody's agents here and these owners as peers.
 * Paused ones first; at most `limit`.
 */
export async function listLimits(
  db: Queryable,
  owners: readonly string[],
  { now, limit }: { now: number; limit: number },
): Promise<LimitRow[]> {
  const { rows } = await db.query<
    Omit<LimitRow, 'used' | 'most' | 'chosen'> & {
      messages: number;
      bytes: number;
      tokens: number;
      most: Most;
      chosen: LimitRow['chosen'];
    }
  >(
    `with mine as (
       select a.id from agents a where a.member_id = any($1)
     ), pairs as (
       select b.agent_id, b.peer from budget_days b where b.day = $2 and (b.agent_id in (select id from mine) or b.peer = any($3))
       union select b.agent_id, '' from budget_days b where b.day = $2 and b.agent_id in (select id from mine)
       union select l.agent_id, l.peer from limits l where l.agent_id in (select id from mine)
       union select l.agent_id, l.peer from limits l where l.peer = any($3) and l.paused_at is not null
     )
     select p.agent_id as "agentId", concat_ws('/', o.handle, t.handle, m.handle, a.handle) as agent, a.member_id as owner, p.peer,
         case when p.peer = '' then null when p.peer = 'anonymous' then p.peer else coalesce(q.did, po.handle || '/' || pm.handle, p.peer) end as "peerName",
         case when p.peer = '' then b.all_messages else b.messages end as messages,
         case when p.peer = '' then b.all_bytes else b.bytes end as bytes,
         case when p.peer = '' then b.all_tokens else b.tokens end as tokens,
         case when p.peer = '' then json_build_object('messages', b.all_most_messages, 'bytes', b.all_most_bytes, 'tokens', b.all_most_tokens)
           else json_build_object('messages', b.most_messages, 'bytes', b.most_bytes, 'tokens', b.most_tokens) end as most,
         b.turns, json_build_object('messages', l.messages, 'bytes', l.bytes, 'tokens', l.tokens, 'turns', l.turns) as chosen,
         l.paused_for as "pausedFor", l.paused_at as "pausedAt"
       from pairs p
       join agents a on a.id = p.agent_id join members m on m.id = a.member_id join orgs o on o.id = m.org_id join teams t on t.id = a.team_id
       left join limits l on l.agent_id = p.agent_id and l.peer = p.peer
       left join peers q on p.peer = 'p:' || q.id
       left join members pm on p.peer = 'm:' || pm.id left join orgs po on po.id = pm.org_id
       cross join lateral budget_of(p.agent_id, p.peer, pm.id is null or pm.org_id <> m.org_id, $4) b
       order by l.paused_at desc nulls last, agent, p.peer limit $5`,
    [owners, day(now), owners.map((id) => `m:${id}`), now, limit],
  );
  return rows.map(({ messages, bytes, tokens, ...row }) => ({ ...row, used: { messages, bytes, tokens } }));
}

/** The key of a peer by its DID, `org/user` or 'anonymous'; null when nobody of that name was ever met. */
export async function peerKey(db: Queryable, name: string): Promise<string | null> {
  if (name === 'anonymous') return name;
  const { rows } = await db.query<{ key: string }>(
    `select 'p:' || p.id as key from peers p where p.did = $1
     union all select 'm:' || m.id from members m join orgs o on o.id = m.org_id where o.handle || '/' || m.handle = $1 limit 1`,
    [name],
  );
  return rows[0]?.key ?? null;
}

export async function saveLimit(
  db: Queryable,
  q: { agentId: string; peer: string; most: Partial<Most & { turns: number | null }> },
): Promise<void> {
  const { agentId, peer, most } = q;
  const value = (name: keyof typeof most): unknown => most[name] ?? null;
  await db.query(
    `insert into limits as l (agent_id, peer, messages, bytes, tokens, turns) values ($1, $2, $3, $4, $5, $6)
     on conflict (agent_id, peer) do update set
       messages = case when $7 then excluded.messages else l.messages end, bytes = case when $8 then excluded.bytes else l.bytes end,
       tokens = case when $9 then excluded.tokens else l.tokens end, turns = case when $10 then excluded.turns else l.turns end`,
    [
      agentId,
      peer,
      value('messages'),
      value('bytes'),
      value('tokens'),
      value('turns'),
      ...(['messages', 'bytes', 'tokens', 'turns'] as const).map((name) => most[name] !== undefined),
    ],
  );
}

/** Lets it go on: today counts from here, and the chain begins anew. False when it was not paused. */
export async function resumeLimit(db: Queryable, q: { agentId: string; peer: string; now: number }): Promise<boolean> {
  const { rowCount } = await db.query(
    `with used as (
       select coalesce(sum(b.messages), 0)::bigint as messages, coalesce(sum(b.bytes), 0)::bigint as bytes, coalesce(sum(b.tokens), 0)::bigint as tokens
         from budget_days b where b.agent_id = $1 and b.day = $3 and ($2 = '' or b.peer = $2)
     ), calmed as (
       delete from peer_turns t where t.agent_id = $1 and ($2 = '' or t.peer = $2)
     ), quiet as (
       update mailboxes m set turns = 0 where m.agent_id = $1
     )
     update limits l set paused_at = null, paused_for = null, base_day = $3,
         base_messages = u.messages, base_bytes = u.bytes, base_tokens = u.tokens
       from used u where l.agent_id = $1 and l.peer = $2 and l.paused_at is not null`,
    [q.agentId, q.peer, day(q.now)],
  );
  return rowCount > 0;
}

export interface Budget {
  pausedFor: PausedFor | null;
  /** Tokens that are left today; null: any number. */
  tokensLeft: number | null;
}

export async function readBudget(
  db: Queryable,
  q: { agentId: string; peer: string; abroad: boolean; now: number },
): Promise<Budget> {
  const { rows } = await db.query<Budget>(
    `select paused_for as "pausedFor", least(most_tokens - tokens, all_most_tokens - all_tokens) as "tokensLeft" from budget_of($1, $2, $3, $4)`,
    [q.agentId, q.peer, q.abroad, q.now],
  );
  return rows[0]!;
}

/** Counts tokens; whoever spends the last of a budget pauses it. One statement for the count, so that two who spend at once both count. */
export async function spendTokens(
  db: Queryable,
  q: { agentId: string; peer: string; abroad: boolean; tokens: number; now: number },
): Promise<Budget> {
  await db.query(
    `insert into budget_days as d (agent_id, day, peer, shard, tokens) values ($1, $2, $3, (random() * 7)::smallint, $4)
     on conflict (agent_id, day, peer, shard) do update set tokens = d.tokens + excluded.tokens`,
    [q.agentId, day(q.now), q.peer, q.tokens],
  );
  await db.query(
    `select case when b.tokens >= b.most_tokens then pause_budget($1, $2, 'tokens', $4) end,
            case when b.all_tokens >= b.all_most_tokens then pause_budget($1, '', 'tokens', $4) end
       from budget_of($1, $2, $3, $4) b`,
    [q.agentId, q.peer, q.abroad, q.now],
  );
  return readBudget(db, q);
}

/** The far side says that this request is part of a chain that does not end: it is paused here too, where its sender's owner sees it. */
export async function pauseSender(db: Queryable, requestSeq: number, now: number): Promise<void> {
  await db.query(
    `select pause_budget(e.asker_agent, e.asked, 'turns', $2) from exchanges e where e.request_seq = $1 and e.asker_agent is not null`,
    [requestSeq, now],
  );
}
