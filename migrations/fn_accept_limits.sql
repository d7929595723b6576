-- Budgets and loops (src/exchange/limits). Everything here is decided under the locks of the transaction that accepts.

-- What counts where an owner chose nothing. Messages, bytes and tokens of a UTC day are limited for peers that are not of the agent's organisation.
create or replace function usual_limits() returns table (
  peer_messages bigint, peer_bytes bigint, peer_tokens bigint, agent_messages bigint, agent_bytes bigint, agent_tokens bigint, turns integer
) language sql immutable as $$
  select 10000::bigint, 1073741824::bigint, 1000000::bigint, 100000::bigint, 10737418240::bigint, 10000000::bigint, 20
$$;

-- A chain is a bucket that leaks one turn in two seconds. A clock that jumped, whichever way, empties it.
create or replace function leaked(p_turns integer, p_at bigint, now_ms bigint) returns integer language sql immutable as $$
  select case when p_turns > 0 then greatest(0, p_turns - least(abs(now_ms - p_at) / 2000, 1000000)::integer) else 0 end
$$;

-- How long a chain may be. What an agent sets itself to do is a queue before it is a loop, so there it may be five times as long. One turn more may leave
-- than may come: then the other side meets its limit too, and its owner sees it.
create or replace function most_turns(p_turns integer, p_agent text, p_sender text, p_leaves boolean) returns integer language sql immutable as $$
  select case when p_leaves then p_turns + 1 when p_sender = p_agent then p_turns * 5 else p_turns end
$$;

-- What an agent and a peer have used today and may use, and all peers of that agent together; nulls: unlimited.
create or replace function budget_of(p_agent text, p_peer text, p_abroad boolean, now_ms bigint) returns table (
  counted boolean, paused_for text, turns integer, messages bigint, most_messages bigint, bytes bigint, most_bytes bigint, tokens bigint, most_tokens bigint,
  all_messages bigint, all_most_messages bigint, all_bytes bigint, all_most_bytes bigint, all_tokens bigint, all_most_tokens bigint
) language sql stable as $$
  select c.counted, coalesce(lp.paused_for, la.paused_for), coalesce(lp.turns, la.turns, u.turns),
      coalesce(up.messages, 0) - case when lp.base_day = d.today then lp.base_messages else 0 end,
      coalesce(lp.messages, case when p_abroad then u.peer_messages end),
      coalesce(up.bytes, 0) - case when lp.base_day = d.today then lp.base_bytes else 0 end,
      coalesce(lp.bytes, case when p_abroad then u.peer_bytes end),
      coalesce(up.tokens, 0) - case when lp.base_day = d.today then lp.base_tokens else 0 end,
      coalesce(lp.tokens, case when p_abroad then u.peer_tokens end),
      coalesce(ua.messages, 0) - case when la.base_day = d.today then la.base_messages else 0 end,
      coalesce(la.messages, case when p_abroad then u.agent_messages end),
      coalesce(ua.bytes, 0) - case when la.base_day = d.today then la.base_bytes else 0 end,
      coalesce(la.bytes, case when p_abroad then u.agent_bytes end),
      coalesce(ua.tokens, 0) - case when la.base_day = d.today then la.base_tokens else 0 end,
      coalesce(la.tokens, case when p_abroad then u.agent_tokens end)
    from usual_limits() u
    cross join lateral (select (now_ms / 86400000)::integer as today) d
    left join limits lp on lp.agent_id = p_agent and lp.peer = p_peer
    left join limits la on la.agent_id = p_agent and la.peer = ''
    cross join lateral (select p_abroad or lp.agent_id is not null or la.agent_id is not null as counted) c
    cross join lateral (select sum(b.messages)::bigint as messages, sum(b.bytes)::bigint as bytes, sum(b.tokens)::bigint as tokens
      from budget_days b where c.counted and b.agent_id = p_agent and b.day = d.today and b.peer = p_peer) up
    cross join lateral (select sum(b.messages)::bigint as messages, sum(b.bytes)::bigint as bytes, sum(b.tokens)::bigint as tokens
      from budget_days b where c.counted and b.agent_id = p_agent and b.day = d.today) ua
$$;

-- What each message of a batch weighs, before any row is locked. near: it may meet a limit, so it is judged alone (judge_budget).
-- warning: past four fifths of a limit. Plans: see fn_take.sql.
create or replace function weigh(weights json, now_ms bigint)
returns table (i integer, agent text, peer text, abroad boolean, leaves boolean, bytes bigint, sender text, turns integer, counted boolean, near boolean, warning json)
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
#variable_conflict use_column
begin
  return query
    with w as materialized (
      select x.* from json_to_recordset(weights) as x(i integer, agent text, peer text, abroad boolean, bytes bigint, sender text, turns integer, leaves boolean)
    ), pairs as materialized (
      select p.agent, p.peer, b.*,
          coalesce(p.messages > least(b.most_messages - b.messages, b.all_most_messages - b.all_messages) - 1000, false)
            or coalesce(p.bytes > least(b.most_bytes - b.bytes, b.all_most_bytes - b.all_bytes) - 67108864, false) as is_near
        from (select w.agent, w.peer, bool_or(w.abroad) as abroad, count(*) as messages, sum(w.bytes) as bytes from w group by w.agent, w.peer) p
        cross join lateral budget_of(p.agent, p.peer, p.abroad, now_ms) b
    ), led as materialized (
      select w.i, greatest(coalesce(w.turns, 0), coalesce(leaked(m.turns, m.turns_at, now_ms), 0) + 1, coalesce(leaked(t.turns, t.turns_at, now_ms), 0) + 1) as turns
        from w
        left join mailboxes m on m.agent_id = w.sender
        left join peer_turns t on w.sender is null and t.agent_id = w.agent and t.peer = w.peer
    )
    select w.i, w.agent, w.peer, w.abroad, w.leaves, w.bytes, w.sender, l.turns, p.counted,
        p.is_near or p.paused_for is not null or p.tokens >= p.most_tokens or p.all_tokens >= p.all_most_tokens or l.turns > most_turns(p.turns, w.agent, w.sender, w.leaves),
        case
          when p.messages >= p.most_messages * 0.8 then json_build_object('of', 'messages', 'used', p.messages + 1, 'limit', p.most_messages)
          when p.bytes >= p.most_bytes * 0.8 then json_build_object('of', 'bytes', 'used', p.bytes + w.bytes, 'limit', p.most_bytes)
          when p.all_messages >= p.all_most_messages * 0.8 then json_build_object('of', 'messages', 'used', p.all_messages + 1, 'limit', p.all_most_messages)
          when p.all_bytes >= p.all_most_bytes * 0.8 then json_build_object('of', 'bytes', 'used', p.all_bytes + w.bytes, 'limit', p.all_most_bytes)
        end
      from w join led l on l.i = w.i join pairs p on p.agent = w.agent and p.peer = w.peer;
end $$;

-- Stays until the owner lets it go on. peer '': all of the agent's peers.
create or replace function pause_budget(p_agent text, p_peer text, p_for text, now_ms bigint) returns void language sql as $$
  insert into limits as l (agent_id, peer, paused_at, paused_for) values (p_agent, p_peer, now_ms, p_for)
    on conflict (agent_id, peer) do update set paused_at = excluded.paused_at, paused_for = excluded.paused_for where l.paused_at is null
$$;

-- Null: it may go on. Else what stopped it; `limit` when it was this very message. Under the lock of the agent's budget.
create or replace function judge_budget(p_agent text, p_peer text, p_abroad boolean, p_bytes bigint, p_sender text, p_turns integer, p_leaves boolean, now_ms bigint)
returns json language plpgsql as $$
declare
  b record;
  v_for text;
  v_all boolean := false;
  v_most bigint;
begin
  select * into b from budget_of(p_agent, p_peer, p_abroad, now_ms);
  if b.paused_for is not null then
    return json_build_object('of', b.paused_for);
  elsif p_turns > most_turns(b.turns, p_agent, p_sender, p_leaves) then
    v_for := 'turns'; v_most := most_turns(b.turns, p_agent, p_sender, false);
  elsif b.messages + 1 > b.most_messages then
    v_for := 'messages'; v_most := b.most_messages;
  elsif b.bytes + p_bytes > b.most_bytes then
    v_for := 'bytes'; v_most := b.most_bytes;
  elsif b.tokens >= b.most_tokens then
    v_for := 'tokens'; v_most := b.most_tokens;
  else
    v_all := true;
    if b.all_messages + 1 > b.all_most_messages then
      v_for := 'messages'; v_most := b.all_most_messages;
    elsif b.all_bytes + p_bytes > b.all_most_bytes then
      v_for := 'bytes'; v_most := b.all_most_bytes;
    elsif b.all_tokens >= b.all_most_tokens then
      v_for := 'tokens'; v_most := b.all_most_tokens;
    else
      return null;
    end if;
  end if;
  perform pause_budget(p_agent, case when v_all then '' else p_peer end, v_for, now_ms);
  if v_for = 'turns' and p_sender <> p_agent and not p_leaves then
    -- Both are here: neither goes on before its own owner says so.
    perform pause_budget(p_sender, 'm:' || a.member_id, v_for, now_ms) from agents a where a.id = p_agent;
  end if;
  return json_build_object('of', v_for, 'limit', v_most);
end $$;

create or replace function count_budget(p_agents text[], p_peers text[], p_bytes bigint[], now_ms bigint) returns void language sql as $$
  insert into budget_days as d (agent_id, day, peer, shard, messages, bytes)
    select c.agent, (now_ms / 86400000)::integer, c.peer, (random() * 7)::smallint, count(*), sum(c.bytes)
      from unnest(p_agents, p_peers, p_bytes) as c(agent, peer, bytes) group by c.agent, c.peer order by c.agent, c.peer
    on conflict (agent_id, day, peer, shard) do update set messages = d.messages + excluded.messages, bytes = d.bytes + excluded.bytes
$$;
