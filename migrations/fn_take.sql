-- Taking, acknowledging and releasing deliveries. Each function serves a whole batch of callers in one round trip.
--
-- Locks: first the mailboxes rows, in byte order of agent_id as acceptance has it, then deliveries, which a take never waits for (SKIP LOCKED).
--
-- A lease holds from now until lease_until, but never further ahead than the longest lease that can be asked for: a lease that ends later
-- was written by a clock that ran ahead, and would hide the message until that time came. So a clock that jumps back delays
-- a leased message by the longest lease at most, and loses none. Queued rows (lease_until 0) are not touched by any jump.
--
-- Plans: statistics lag behind a queue, which is empty one minute and holds millions the next. So nothing here may scan or sort by guess:
-- `agent_id >= a and agent_id <= a order by agent_id, id` is the order of one index only, and the settings of each function keep the
-- planner from plans that are cheap while the table is small. OFFSET 0 and `id = any (…)` fence single look-ups for the same reason.


-- items: [{i, agent, node, lease, max, bytes, reply}], at most one per agent. Times in milliseconds.
-- For each item: its leased deliveries in order of id; or one row without id, with the next time at which looking again makes sense:
-- the end of the earliest lease (wake_at), or that messages wait until another node has finished with their session (blocked).
-- An event whose link no longer lets it pass is not handed out: it is removed (redsyn.md "Cada evento se vuelve a verificar contra el enlace al repartirse").
drop function if exists take_deliveries(json, bigint, bigint);
create function take_deliveries(items json, now_ms bigint, longest_lease bigint)
returns table (
  i integer, id bigint, seq bigint, message_id text, kind text, from_addr text, reply_to text, envelope text, sig_payload text,
  sig_node text, a2a text, created_at bigint, thread text, to_addr text, session integer, expires_at bigint, attempts integer,
  lease_until bigint, more boolean, wake_at bigint, blocked boolean, topic text
)
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_incremental_sort = off
set enable_hashjoin = off set enable_mergejoin = off set enable_memoize = off set jit = off
as $$
#variable_conflict use_column
declare
  t record;
  d record;
  v_agents text[];
  v_limit integer;
  v_read integer;
  v_after bigint;
  v_took integer;
  v_blocked boolean;
  v_held integer[];
  v_passed integer;
  v_dropped integer;
  v_wake bigint;
  p_i integer[] := '{}';
  p_id bigint[] := '{}';
  p_node text[] := '{}';
  p_lease bigint[] := '{}';
  p_bytes bigint[] := '{}';
  p_more boolean[] := '{}';
  p_drop bigint[] := '{}';
begin
  select array_agg(x.agent) into v_agents from json_to_recordset(items) as x(agent text);
  perform 1 from mailboxes m where m.agent_id = any (v_agents) order by m.agent_id collate "C" for update of m;

  for t in
    select * from json_to_recordset(items) as x(i integer, agent text, node text, lease bigint, max integer, bytes bigint, reply text)
  loop
    -- A token that was revoked takes nothing more, nor does a poll that was held with it.
    if exists (select 1 from nodes n where n.id = t.node and n.revoked_at is not null) then
      i := t.i; id := null; wake_at := null; blocked := false;
      return next; continue;
    end if;
    -- Every take is a heartbeat; written when the row does not say so yet.
    update mailboxes m set last_seen = now_ms, node_id = t.node
      where m.agent_id = t.agent
        and (m.node_id is distinct from t.node or m.last_seen < now_ms - 5000 or m.last_seen > now_ms + 5000);

    v_took := 0; v_blocked := false; v_dropped := 0;
    if t.reply is not null then
      -- Answers to one request pass by the order of the session.
      for d in
        select w.id from (
          select e.id from deliveries e
            where e.agent_id = t.agent and e.reply_to = t.reply
              and (e.lease_until <= now_ms or e.lease_until > now_ms + longest_lease) and e.expires_at > now_ms and e.attempts < 10
              and (e.reserved_for is null or e.reserved_for = t.node)
            offset 0) w
          order by w.id limit t.max
      loop
        v_took := v_took + 1;
        p_i := p_i || t.i; p_id := p_id || d.id; p_node := p_node || t.node; p_lease := p_lease || t.lease;
        p_bytes := p_bytes || t.bytes;
      end loop;
    else
      v_held := '{}'; v_passed := 0; v_after := 0; v_limit := t.max;
      <<pages>>
      loop
        v_read := 0;
        for d in
          select e.id, e.session, e.message_seq, e.checks, e.lease_until > now_ms and e.lease_until <= now_ms + longest_lease as is_leased
            from deliveries e
            where (e.agent_id, e.id) > (t.agent, v_after) and e.agent_id <= t.agent
              and case
                when e.lease_until > now_ms and e.lease_until <= now_ms + longest_lease
                  then e.session is not null and e.lease_node <> t.node
                else e.expires_at > now_ms and e.attempts < 10 and (e.reserved_for is null or e.reserved_for = t.node)
              end
            order by e.agent_id, e.id limit v_limit
        loop
          v_read := v_read + 1; v_after := d.id;
          if d.is_leased then
            if not d.session = any (v_held) then
              v_held := v_held || d.session;
            end if;
          elsif d.session = any (v_held) then
            v_blocked := true;
            v_passed := v_passed + 1;
          elsif d.checks is not null
            and not event_may_pass(d.checks, (select m.sig_payload is not null from messages m where m.seq = d.message_seq))
          then
            p_drop := p_drop || d.id;
            v_dropped := v_dropped + 1;
          else
            v_took := v_took + 1;
            p_i := p_i || t.i; p_id := p_id || d.id; p_node := p_node || t.node; p_lease := p_lease || t.lease;
            p_bytes := p_bytes || t.bytes;
            exit pages when v_took = t.max;
          end if;
        end loop;
        -- What stands behind this many messages of held sessions waits until their holder has gone on.
        exit when v_read < v_limit or v_passed >= 5000 or v_dropped >= 5000;
        v_limit := least(v_limit * 4, 1000);
      end loop;
    end if;

    if v_took = 0 then
      v_wake := null;
      if v_dropped >= 5000 then
        v_wake := now_ms;
      elsif not v_blocked then
        select min(e.lease_until) into v_wake from deliveries e
          where e.agent_id >= t.agent and e.agent_id <= t.agent
            and e.lease_until > now_ms and e.lease_until <= now_ms + longest_lease and e.attempts < 10
            and (e.reserved_for is null or e.reserved_for = t.node) and (t.reply is null or e.reply_to = t.reply);
      end if;
      i := t.i; id := null; wake_at := v_wake; blocked := v_blocked;
      return next;
    end if;
    p_more := p_more || array_fill(v_took = t.max, array[v_took]);
  end loop;

  if cardinality(p_drop) > 0 then
    delete from deliveries e where e.id = any (p_drop);
  end if;
  if cardinality(p_id) = 0 then
    return;
  end if;

  return query
    with held as materialized (
      select e.id, e.message_seq from deliveries e where e.id = any (p_id) for update of e skip locked
    ), sized as (
      select p.i, h.id, p.node, p.lease, p.bytes, p.more,
          sum(octet_length(m.envelope) + coalesce(octet_length(m.sig_payload), 0) + coalesce(octet_length(m.a2a), 0))
            over (partition by p.i order by h.id) as total,
          row_number() over (partition by p.i order by h.id) as n,
          count(*) over (partition by p.i) as of
        from unnest(p_i, p_id, p_node, p_lease, p_bytes, p_more) as p(i, id, node, lease, bytes, more)
        join held h on h.id = p.id
        cross join lateral (select c.envelope, c.sig_payload, c.a2a from messages c where c.seq = h.message_seq offset 0) m
    ), leased as (
      update deliveries e
        set lease_until = now_ms + s.lease, lease_node = s.node, attempts = e.attempts + 1,
            expires_at = case when e.attempts >= 9 then least(e.expires_at, now_ms + s.lease) else e.expires_at end
        from sized s
        where e.id = s.id and e.id = any (p_id) and (s.n = 1 or s.total <= s.bytes)
        returning s.i, s.more or s.n < s.of as more, e.*
    )
    select l.i, l.id, l.message_seq, l.message_id, m.kind, m.from_addr, m.reply_to, m.envelope, m.sig_payload, m.sig_node, m.a2a,
        m.created_at, l.thread, l.to_addr, l.session, m.expires_at, l.attempts, l.lease_until, l.more, null::bigint, false,
        case when m.kind = 'event' and starts_with(m.to_addr, 'topic:') then m.to_addr end
      from leased l cross join lateral (select c.* from messages c where c.seq = l.message_seq offset 0) m
      order by l.i, l.id;
end $$;

-- What a take by `p_node` would find, without taking it: no lease, no heartbeat, no attempt.
drop function if exists peek_deliveries(text, text, text, integer, bigint, bigint, bigint);
create function peek_deliveries(
  p_agent text, p_node text, p_reply text, p_max integer, p_bytes bigint, now_ms bigint, longest_lease bigint
)
returns table (
  id bigint, seq bigint, message_id text, kind text, from_addr text, reply_to text, envelope text, sig_payload text,
  sig_node text, a2a text, created_at bigint, thread text, to_addr text, session integer, expires_at bigint, attempts integer,
  lease_until bigint, topic text
)
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_incremental_sort = off
set enable_hashjoin = off set enable_mergejoin = off set enable_memoize = off set jit = off
as $$
#variable_conflict use_column
begin
  return query
    select s.id, s.seq, s.message_id, s.kind, s.from_addr, s.reply_to, s.envelope, s.sig_payload, s.sig_node, s.a2a, s.created_at,
        s.thread, s.to_addr, s.session, s.expires_at, s.attempts, s.lease_until, s.topic
      from (
        select case when m.kind = 'event' and starts_with(m.to_addr, 'topic:') then m.to_addr end as topic, w.id, w.message_id, w.thread, w.to_addr, w.session, w.attempts, w.lease_until, m.expires_at, m.reply_to,
            m.seq, m.kind, m.from_addr, m.envelope, m.sig_payload, m.sig_node, m.a2a, m.created_at,
            sum(octet_length(m.envelope) + coalesce(octet_length(m.sig_payload), 0) + coalesce(octet_length(m.a2a), 0))
              over (order by w.id) as total,
            row_number() over (order by w.id) as n
          from (
            (select e.* from deliveries e
              where p_reply is null and e.agent_id >= p_agent and e.agent_id <= p_agent
                and (e.lease_until <= now_ms or e.lease_until > now_ms + longest_lease) and e.expires_at > now_ms and e.attempts < 10
                and (e.reserved_for is null or e.reserved_for = p_node)
                and (e.checks is null or event_may_pass(e.checks, (select x.sig_payload is not null from messages x where x.seq = e.message_seq)))
              order by e.agent_id, e.id limit p_max)
            union all
            (select r.* from (
                select e.* from deliveries e
                  where p_reply is not null and e.agent_id = p_agent and e.reply_to = p_reply
                    and (e.lease_until <= now_ms or e.lease_until > now_ms + longest_lease) and e.expires_at > now_ms and e.attempts < 10
                    and (e.reserved_for is null or e.reserved_for = p_node)
                  offset 0) r
              order by r.id limit p_max)
          ) w cross join lateral (select c.* from messages c where c.seq = w.message_seq offset 0) m
      ) s
      where s.n = 1 or s.total <= p_bytes
      order by s.id;
end $$;

-- items: [{i, agent, node, ids}]. Removes what the node took, and nobody else took since, and says which message ids those were.
create or replace function ack_deliveries(items json)
returns table (i integer, message_id text)
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_memoize = off set jit = off
as $$
#variable_conflict use_column
begin
  return query
    with named as materialized (
      select x.i, x.node, e.id
        from json_to_recordset(items) as x(i integer, agent text, node text, ids json)
        cross join lateral json_array_elements_text(x.ids) as k(id)
        cross join lateral (
          select d.id from deliveries d where d.agent_id = x.agent and d.message_id = k.id and d.lease_node = x.node offset 0
        ) e
    ), held as materialized (
      -- Again by holder: another node may take it while this waits for the lock.
      select n.i, e.id from named n join deliveries e on e.id = n.id and e.lease_node = n.node
        where e.id = any (array(select a.id from named a)) order by e.id for update of e
    )
    delete from deliveries e using held h
      where e.id = h.id and e.id = any (array(select a.id from held a)) returning h.i, e.message_id;
end $$;

-- items: [{id, node, attempts, until}]. Undoes exactly those leases, the attempt too; answers whose they were.
create or replace function release_deliveries(items json)
returns table (agent_id text)
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_memoize = off set jit = off
as $$
#variable_conflict use_column
begin
  return query
    with named as materialized (
      select * from json_to_recordset(items) as x(id bigint, node text, attempts integer, until bigint)
    ), held as materialized (
      select e.id
        from named x join deliveries e on e.id = x.id and e.lease_node = x.node and e.attempts = x.attempts and e.lease_until = x.until
        where e.id = any (array(select a.id from named a)) order by e.id for update of e
    )
    update deliveries e set lease_until = 0, lease_node = null, attempts = e.attempts - 1,
        expires_at = (select m.expires_at from messages m where m.seq = e.message_seq)
      from held h
      where e.id = h.id and e.id = any (array(select a.id from held a))
      returning e.agent_id;
end $$;
