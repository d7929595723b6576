-- Acceptance: everything that one message writes, in one round trip and one commit, for a whole batch of messages.
-- The rules that races could break (once per id, thread binding, one end per exchange) are decided here, under the locks.

-- Binds a requested thread to a conversation of `owner` and returns its id (design §4, confer.md "Vinculación del hilo").
-- As it is, only if the asker takes part in it and it is the owner's; else under the derived id. A local asker may open one under its own word.
create or replace function bind_conversation(
  p_owner text, p_asker text, p_asked_thread text, p_derived text, p_may_open boolean, p_their_thread text, p_now bigint
) returns text language plpgsql as $$
declare
  conv text;
begin
  if p_asked_thread is not null then
    perform 1 from conversation_participants where owner = p_owner and conversation = p_asked_thread and participant = p_asker;
    if found then
      return p_asked_thread;
    end if;
    if p_may_open then
      insert into conversations (owner, id, created_at) values (p_owner, p_asked_thread, p_now)
        on conflict do nothing returning id into conv;
    end if;
  end if;
  if conv is null then
    conv := p_derived;
    insert into conversations (owner, id, created_at) values (p_owner, conv, p_now) on conflict do nothing;
  end if;
  insert into conversation_participants (owner, conversation, participant, their_thread)
    values (p_owner, conv, p_asker, p_their_thread), (p_owner, conv, 'm:' || p_owner, null)
    on conflict do nothing;
  return conv;
end $$;

-- The open session of an agent for a conversation, or a new one. Sessions are numbered per agent.
create or replace function open_session(p_agent text, p_owner text, p_conversation text, p_fresh boolean, p_now bigint)
returns integer language plpgsql as $$
declare
  found_n integer;
  looked_under_lock boolean := false;
begin
  loop
    if not p_fresh then
      select n into found_n from sessions
        where agent_id = p_agent and owner = p_owner and conversation = p_conversation and state = 'open'
        order by n desc limit 1;
      if found_n is not null then
        update sessions set last_at = p_now where agent_id = p_agent and n = found_n;
        return found_n;
      end if;
    end if;
    exit when looked_under_lock or p_fresh;
    perform 1 from mailboxes where agent_id = p_agent for update;
    looked_under_lock := true;
  end loop;
  update mailboxes set next_session = next_session + 1 where agent_id = p_agent returning next_session - 1 into found_n;
  insert into sessions (agent_id, n, owner, conversation, created_at, last_at)
    values (p_agent, found_n, p_owner, p_conversation, p_now, p_now);
  return found_n;
end $$;

create or replace function messages_of_day(p_org text, now_ms bigint) returns bigint language sql stable as $$
  select coalesce(sum(q.used), 0)::bigint from quota_days q where q.org_id = p_org and q.day = (now_ms / 86400000)::integer
$$;

-- Requests that begin something new, most of all that come: an id and a proof that nobody has seen, to an agent here, in a conversation that
-- does not exist yet. Then there is nothing to decide between messages, and one statement writes all of them instead of ten for each. What it
-- leaves out, and everything when somebody else was faster (unique_violation), goes the long way in accept_messages, which decides the same.
--
-- Plans: see fn_take.sql. p_orgs, p_left: what orgs with a limit may still send today. p_near: those that may meet a limit of their agent's, which go
-- the long way. p_turns: by i + 1, how long the chain is that each stands in (fn_accept_limits.sql).
drop function if exists accept_fresh(json, text[], bigint[], bigint);
create or replace function accept_fresh(items json, p_orgs text[], p_left bigint[], p_near integer[], p_turns integer[], now_ms bigint)
returns table (i integer, exchange text, thread text, addressee text, seq bigint, signed boolean, wake text, quota_org text)
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
#variable_conflict use_column
begin
  -- All of the batch or none, in the order that takes have too: the long way locks one by one.
  perform 1 from mailboxes
    where agent_id in (
        select x.agent_id from json_to_recordset(items) as x(target text, agent_id text, session integer)
          where x.target = 'agent' and x.session is null)
      and exists (
        select from json_to_recordset(items) as x(target text, session integer, asked_owner text, thread_asked text, asker text)
          where x.target = 'agent' and x.session is null and not exists (select from conversation_participants p
            where p.owner = x.asked_owner and p.conversation = x.thread_asked and p.participant = x.asker))
    order by agent_id collate "C" for update;
  if not found then
    return;
  end if;
  return query
    with asked as materialized (
      select x.*,
          count(*) over (partition by x.sender, x.id) as same_id,
          count(*) over (partition by coalesce(x.proof, x.i::text)) as same_proof,
          -- As bind_conversation has it.
          case when x.may_open and x.thread_asked is not null
                and not exists (select from conversations c where c.owner = x.asked_owner and c.id = x.thread_asked)
            then x.thread_asked else x.thread_derived end as conv
        from json_to_recordset(items) as x(
          i integer, sender text, id text, kind text, from_addr text, to_addr text, reply_to text, envelope text,
          sig_payload text, sig_node text, a2a text, wire text, expires_at bigint, proof text, proof_expires bigint,
          quota_org text, exchange_id text, target text, agent_id text, asked_owner text, asked text, asked_addr text,
          session integer, session_new boolean, thread_asked text, thread_derived text, may_open boolean,
          asker text, asker_agent text, asker_owner text, asker_addr text, asker_session integer, asker_via text, asker_thread text,
          reserved_for text, asker_node text, quota_limit bigint, push json, asker_kind text, asker_ref text, held json)
        where x.target = 'agent' and x.session is null and x.push is null and x.held is null and x.i <> all (p_near)
          and (x.quota_limit is null or p_left[array_position(p_orgs, x.quota_org)] >= json_array_length(items))
          and not exists (select from messages m where m.sender = x.sender and m.id = x.id)
          and (x.proof is null or not exists (select from seen_proofs s where s.proof = decode(x.proof, 'hex')))
          and not exists (select from conversation_participants p
            where p.owner = x.asked_owner and p.conversation = x.thread_asked and p.participant = x.asker)
          and not exists (select from conversation_participants p
            where p.owner = x.asker_owner and p.conversation = x.thread_asked and p.participant = x.asked and p.their_thread is not null)
    ), sides as (
      select a.i, a.asked_owner as owner, a.conv as id from asked a
      union all select a.i, a.asker_owner, a.asker_thread from asked a where a.asker_owner is not null
    ), shared as materialized (
      select distinct s.i from (
        select w.i, min(w.i) over (partition by w.owner, w.id) <> max(w.i) over (partition by w.owner, w.id) as by_several from sides w
      ) s where s.by_several
    ), fresh as materialized (
      select a.*, nextval(pg_get_serial_sequence('messages', 'seq')) as v_seq,
          (b.next_session + row_number() over (partition by a.agent_id order by a.i) - 1)::integer as v_session
        from asked a join mailboxes b on b.agent_id = a.agent_id
        where a.same_id = 1 and a.same_proof = 1
          and not exists (select from shared s where s.i = a.i)
          and not exists (select from conversations c where c.owner = a.asked_owner and c.id = a.conv)
    ), new_proofs as (
      insert into seen_proofs (proof, expires_at) select decode(f.proof, 'hex'), f.proof_expires from fresh f where f.proof is not null
    ), new_messages as (
      insert into messages (seq, sender, id, kind, from_addr, to_addr, reply_to, exchange_id, envelope, sig_payload, sig_node, a2a, wire, created_at, expires_at)
        overriding system value
        select f.v_seq, f.sender, f.id, f.kind, f.from_addr, f.to_addr, f.reply_to, f.exchange_id, f.envelope, f.sig_payload, f.sig_node, f.a2a,
            f.wire, now_ms, f.expires_at from fresh f
    ), new_conversations as (
      insert into conversations (owner, id, created_at) select f.asked_owner, f.conv, now_ms from fresh f
    ), asker_conversations as (
      insert into conversations (owner, id, created_at)
        select distinct f.asker_owner, f.asker_thread, now_ms from fresh f
          where f.asker_owner is not null and (f.asker_owner, f.asker_thread) <> (f.asked_owner, f.conv)
        on conflict do nothing
    ), new_participants as (
      insert into conversation_participants (owner, conversation, participant, their_thread)
        select p.owner, p.conversation, p.participant, p.their_thread from fresh f cross join lateral (
            values (1, f.asked_owner, f.conv, f.asker, f.asker_thread), (2, f.asked_owner, f.conv, 'm:' || f.asked_owner, null),
              (3, f.asker_owner, f.asker_thread, 'm:' || f.asker_owner, null), (4, f.asker_owner, f.asker_thread, f.asked, f.conv)
          ) p(at, owner, conversation, participant, their_thread)
          where p.owner is not null order by f.i, p.at
        on conflict do nothing
    ), numbered as (
      update mailboxes b set next_session = b.next_session + k.n,
          turns = coalesce(greatest(leaked(b.turns, b.turns_at, now_ms), k.turns), b.turns), turns_at = case when k.turns is null then b.turns_at else now_ms end
        from (select f.agent_id, count(*)::integer as n, max(p_turns[f.i + 1]) as turns from fresh f group by f.agent_id) k where b.agent_id = k.agent_id
    ), new_sessions as (
      insert into sessions (agent_id, n, owner, conversation, created_at, last_at)
        select f.agent_id, f.v_session, f.asked_owner, f.conv, now_ms, now_ms from fresh f
    ), placed as (
      insert into conversation_messages (owner, conversation, seq, agent_id, session)
        select p.owner, p.conversation, f.v_seq, p.agent_id, p.session from fresh f cross join lateral (
            values (1, f.asked_owner, f.conv, f.agent_id, f.v_session), (2, f.asker_owner, f.asker_thread, f.asker_agent, f.asker_session)
          ) p(at, owner, conversation, agent_id, session)
          where p.owner is not null order by f.i, p.at
        on conflict do nothing
    ), new_exchanges as (
      insert into exchanges (id, request_seq, request_id, asker, asker_agent, asker_owner, asker_conversation, asker_addr, asker_session, asker_via,
                             asker_node, asker_thread, asked, asked_agent, asked_owner, asked_conversation, asked_addr, asked_session, state, created_at, updated_at,
                             asker_kind, asker_ref)
        select f.exchange_id, f.v_seq, f.id, f.asker, f.asker_agent, f.asker_owner, case when f.asker_owner is not null then f.asker_thread end,
            f.asker_addr, f.asker_session, f.asker_via, f.asker_node, f.asker_thread, f.asked, f.agent_id, f.asked_owner, f.conv, f.asked_addr,
            f.v_session, 'submitted', now_ms, now_ms, f.asker_kind, f.asker_ref from fresh f
    ), new_deliveries as (
      insert into deliveries (agent_id, message_seq, message_id, reply_to, thread, to_addr, session, reserved_for, expires_at)
        select f.agent_id, f.v_seq, f.id, null, f.conv, f.asked_addr || '#s' || f.v_session, f.v_session, f.reserved_for, f.expires_at
          from fresh f order by f.i
    )
    select f.i, f.exchange_id, f.asker_thread, f.asked_addr || '#s' || f.v_session, f.v_seq, f.sig_payload is not null, 'inbox:' || f.agent_id,
        f.quota_org from fresh f order by f.i;
end $$;

-- weights: of each message that asks something of an agent or for one, for `weigh` (fn_accept_limits.sql). budget: a warning, or what paused it.
drop function if exists accept_messages(json, text, bigint);
create or replace function accept_messages(items json, origin text, now_ms bigint, weights json default '[]')
returns table (i integer, outcome text, exchange text, thread text, addressee text, seq bigint, outbox_id bigint, signed boolean, wakes text[], budget json)
language plpgsql as $$
declare
  it record;
  ex exchanges%rowtype;
  se sessions%rowtype;
  v_seq bigint;
  v_conv text;
  v_asked_thread text;
  v_session integer;
  v_outbox bigint;
  v_topic text;
  v_wakes text[];
  all_wakes text[] := '{}';
  counted text[] := '{}';
  v_at integer;
  p_orgs text[] := '{}';
  p_left bigint[] := '{}';
  fresh record;
  done integer[] := '{}';
  w_agents text[] := '{}';
  w_peers text[] := '{}';
  w_abroad boolean[] := '{}';
  w_leaves boolean[] := '{}';
  w_bytes bigint[] := '{}';
  w_senders text[] := '{}';
  w_turns integer[] := '{}';
  w_counted boolean[] := '{}';
  w_warnings json[] := '{}';
  p_near integer[] := '{}';
  near_agents text[] := '{}';
  spent_agents text[] := '{}';
  spent_peers text[] := '{}';
  spent_bytes bigint[] := '{}';
  led_agents text[] := '{}';
  led_peers text[] := '{}';
  led_turns integer[] := '{}';
begin
  -- Before any row is locked. Close to the limit of a day the senders of an org take turns, so that it is met exactly; far from it nobody waits.
  for it in
    select x.quota_org as org, min(x.quota_limit) as most from json_to_recordset(items) as x(quota_org text, quota_limit bigint)
      where x.quota_limit is not null group by x.quota_org order by x.quota_org
  loop
    p_orgs := p_orgs || it.org;
    p_left := p_left || it.most - messages_of_day(it.org, now_ms);
    v_at := cardinality(p_left);
    if p_left[v_at] < 1000 then
      perform pg_advisory_xact_lock(7184302, hashtext(it.org));
      p_left[v_at] := it.most - messages_of_day(it.org, now_ms);
    end if;
  end loop;

  for it in select * from weigh(weights, now_ms)
  loop
    v_at := it.i + 1;
    w_agents[v_at] := it.agent; w_peers[v_at] := it.peer; w_abroad[v_at] := it.abroad; w_leaves[v_at] := it.leaves; w_bytes[v_at] := it.bytes; w_senders[v_at] := it.sender;
    w_turns[v_at] := it.turns; w_counted[v_at] := it.counted; w_warnings[v_at] := it.warning;
    if it.near then
      p_near := p_near || it.i;
      near_agents := near_agents || it.agent;
    end if;
  end loop;
  if cardinality(near_agents) > 0 then
    perform pg_advisory_xact_lock(7184303, k.key) from (select distinct hashtext(a) as key from unnest(near_agents) as a order by 1) k;
  end if;

  begin
    for fresh in select * from accept_fresh(items, p_orgs, p_left, p_near, w_turns, now_ms)
    loop
      i := fresh.i; outcome := 'accepted'; exchange := fresh.exchange; thread := fresh.thread; addressee := fresh.addressee; seq := fresh.seq;
      outbox_id := null; signed := fresh.signed; wakes := array[fresh.wake]; budget := w_warnings[fresh.i + 1];
      all_wakes := all_wakes || fresh.wake;
      if w_counted[fresh.i + 1] then
        spent_agents := spent_agents || w_agents[fresh.i + 1]; spent_peers := spent_peers || w_peers[fresh.i + 1];
        spent_bytes := spent_bytes || w_bytes[fresh.i + 1];
      end if;
      if fresh.quota_org is not null then
        counted := counted || fresh.quota_org;
        v_at := array_position(p_orgs, fresh.quota_org);
        if v_at is not null then
          p_left[v_at] := p_left[v_at] - 1;
        end if;
      end if;
      done := done || fresh.i;
      return next;
    end loop;
  exception when unique_violation then
    null;
  end;

  for it in
    select * from json_to_recordset(items) as x(
      i integer, sender text, id text, kind text, from_addr text, to_addr text, reply_to text, envelope text,
      sig_payload text, sig_node text, a2a text, wire text, expires_at bigint, proof text, proof_expires bigint,
      quota_org text, exchange_id text, target text, agent_id text, asked_owner text, asked text, asked_addr text,
      session integer, session_new boolean, thread_asked text, thread_derived text, may_open boolean,
      asker text, asker_agent text, asker_owner text, asker_addr text, asker_session integer, asker_via text, asker_thread text,
      reserved_for text, destination text, lane text, state text, reason text, event json, sealed boolean, asker_node text,
      quota_limit bigint, outbox_kind text, outbox_body text, push json, asker_kind text, asker_ref text, held json)
      where x.i <> all (done)
  loop
    i := it.i; exchange := null; thread := null; addressee := null; seq := null; outbox_id := null; signed := null; wakes := '{}';
    v_seq := null; v_outbox := null; v_wakes := '{}'; v_session := null; budget := null;

    if it.proof is not null then
      insert into seen_proofs (proof, expires_at) values (decode(it.proof, 'hex'), it.proof_expires) on conflict do nothing;
      if not found then
        outcome := 'replayed'; return next; continue;
      end if;
    end if;

    -- A repeat gets what the first got, whatever became of it since.
    select m.seq, m.exchange_id, m.sig_payload is not null into v_seq, exchange, signed
      from messages m where m.sender = it.sender and m.id = it.id;
    if v_seq is not null then
      select * into ex from exchanges e where e.id = exchange;
      if exchange is null then
        -- An event opens no exchange.
        select m.to_addr into addressee from messages m where m.seq = v_seq;
        outcome := 'duplicate'; seq := v_seq; thread := coalesce(it.asker_thread, it.id); return next; continue;
      end if;
      outcome := 'duplicate'; seq := v_seq; thread := ex.asker_thread;
      addressee := case when it.kind = 'request' then ex.asked_addr || coalesce('#s' || ex.asked_session, '') else ex.asker_addr end;
      return next; continue;
    end if;

    v_at := array_position(p_orgs, it.quota_org);
    if it.quota_limit is not null and p_left[v_at] <= 0 then
      outcome := 'day_used'; return next; continue;
    end if;

    if it.i = any (p_near) then
      budget := judge_budget(w_agents[it.i + 1], w_peers[it.i + 1], w_abroad[it.i + 1], w_bytes[it.i + 1], w_senders[it.i + 1], w_turns[it.i + 1],
                             w_leaves[it.i + 1], now_ms);
      if budget is not null then
        outcome := 'paused'; return next; continue;
      end if;
    end if;

    if it.target = 'event' then
      v_topic := null;
      if it.event ->> 'to' = 'own' then
        v_topic := topic_of(it.event ->> 'org', it.event ->> 'team', it.event ->> 'name', it.event ->> 'topic', now_ms);
        if v_topic is null then
          outcome := 'no_room'; return next; continue;
        end if;
      end if;
      insert into messages (sender, id, kind, from_addr, to_addr, envelope, sig_payload, sig_node, a2a, wire, created_at, expires_at)
        values (it.sender, it.id, it.kind, it.from_addr, it.to_addr, it.envelope, it.sig_payload, it.sig_node, it.a2a, it.wire, now_ms, it.expires_at)
        on conflict do nothing returning messages.seq into v_seq;
      thread := it.asker_thread; addressee := it.to_addr; signed := it.sig_payload is not null;
      if v_seq is null then
        outcome := 'duplicate'; return next; continue;
      end if;
      if it.asker_owner is not null then
        insert into conversations (owner, id, created_at) values (it.asker_owner, it.asker_thread, now_ms) on conflict do nothing;
        insert into conversation_participants (owner, conversation, participant) values (it.asker_owner, it.asker_thread, 'm:' || it.asker_owner)
          on conflict do nothing;
        insert into conversation_messages values (it.asker_owner, it.asker_thread, v_seq, it.asker_agent, it.asker_session) on conflict do nothing;
      end if;
      select s.outbox_id, s.wakes into v_outbox, v_wakes
        from spread_event(it.event, v_topic, v_seq, it.id, it.to_addr, it.expires_at, now_ms) s;
    elsif it.target = 'asker' then
      select * into ex from exchanges e where e.id = it.exchange_id for update;
      if ex.ended_at is not null then
        outcome := 'closed'; exchange := ex.id; return next; continue;
      end if;
      insert into messages (sender, id, kind, from_addr, to_addr, reply_to, exchange_id, envelope, sig_payload, sig_node, a2a, wire, created_at, expires_at)
        values (it.sender, it.id, it.kind, ex.asked_addr || coalesce('#s' || ex.asked_session, ''), ex.asker_addr, ex.request_id, ex.id, it.envelope,
                it.sig_payload, it.sig_node, it.a2a, it.wire, now_ms, it.expires_at)
        on conflict do nothing returning messages.seq into v_seq;
      if v_seq is null then
        outcome := 'duplicate'; exchange := ex.id; thread := ex.asker_thread; addressee := ex.asker_addr;
        signed := it.sig_payload is not null; return next; continue;
      end if;
      update exchanges e set state = it.state, reason = it.reason, updated_at = greatest(now_ms, e.updated_at + 1),
          ended_at = case when it.kind = 'reply' then now_ms end
        where e.id = ex.id;
      if ex.asked_owner is not null then
        insert into conversation_messages values (ex.asked_owner, ex.asked_conversation, v_seq, ex.asked_agent, ex.asked_session) on conflict do nothing;
        update sessions s set last_at = now_ms where s.agent_id = ex.asked_agent and s.n = ex.asked_session;
      end if;
      if ex.asker_owner is not null then
        insert into conversation_messages values (ex.asker_owner, ex.asker_conversation, v_seq, ex.asker_agent, ex.asker_session) on conflict do nothing;
      end if;
      if it.kind = 'reply' then
        -- "Un reply cierra su pedido": it acks the request, and nothing of it is owed any more.
        delete from deliveries d where d.message_seq = ex.request_seq;
        delete from outbox o where o.message_seq = ex.request_seq;
        if ex.is_followed then
          perform drop_follow_ups(ex.id);
        end if;
      end if;
      if ex.asker_agent is not null then
        insert into deliveries (agent_id, message_seq, message_id, reply_to, thread, to_addr, session, reserved_for, expires_at)
          values (ex.asker_agent, v_seq, it.id, ex.request_id, ex.asker_thread, ex.asker_addr, ex.asker_session,
                  case when it.sealed then ex.asker_node end, it.expires_at);
        v_wakes := v_wakes || ('inbox:' || ex.asker_agent);
      end if;
      -- Who reads no envelopes is sent what it is told or asked for; what is said in between it reads from the stream.
      if ex.asker_via is not null and (ex.asker_kind is null or it.kind = 'reply' or it.state = 'input_required') then
        insert into outbox (kind, destination, lane, message_seq, body, due_at, expires_at, created_at)
          values (coalesce(ex.asker_kind, 'redsyn'), ex.asker_via, ex.asker_via || ' ' || ex.id, v_seq, ex.asker_ref, now_ms, it.expires_at, now_ms)
          returning id into v_outbox;
        v_wakes := v_wakes || 'outbox'::text;
      end if;
      v_wakes := v_wakes || ('exchange:' || ex.id);
      exchange := ex.id; thread := ex.asker_thread; addressee := ex.asker_addr;
    elsif it.target = 'note' then
      -- Told to an agent without being asked for: it is stored and handed out, and opens nothing.
      insert into messages (sender, id, kind, from_addr, to_addr, envelope, sig_payload, sig_node, a2a, wire, created_at, expires_at)
        values (it.sender, it.id, it.kind, it.from_addr, it.asked_addr, it.envelope, it.sig_payload, it.sig_node, it.a2a, it.wire, now_ms, it.expires_at)
        on conflict do nothing returning messages.seq into v_seq;
      thread := it.asker_thread; addressee := it.asked_addr; signed := it.sig_payload is not null;
      if v_seq is null then
        outcome := 'duplicate'; return next; continue;
      end if;
      v_conv := bind_conversation(it.asked_owner, it.asker, it.thread_asked, it.thread_derived, it.may_open, it.asker_thread, now_ms);
      v_session := open_session(it.agent_id, it.asked_owner, v_conv, false, now_ms);
      insert into conversation_messages values (it.asked_owner, v_conv, v_seq, it.agent_id, v_session);
      insert into deliveries (agent_id, message_seq, message_id, reply_to, thread, to_addr, session, expires_at)
        values (it.agent_id, v_seq, it.id, null, v_conv, it.asked_addr || '#s' || v_session, v_session, it.expires_at);
      v_wakes := v_wakes || ('inbox:' || it.agent_id);
      addressee := it.asked_addr || '#s' || v_session;
    elsif it.target = 'follow' then
      exchange := it.exchange_id; signed := it.sig_payload is not null;
      if it.push is not null and not set_push_configs(it.exchange_id, it.push, 20, now_ms) then
        outcome := 'push_full'; return next; continue;
      end if;
      select f.outcome, f.thread, f.addressee, f.seq, f.wakes into outcome, thread, addressee, v_seq, v_wakes
        from follow_up(it.exchange_id, it.agent_id, it.sender, it.id, it.from_addr, it.envelope, it.sig_payload, it.sig_node, it.a2a, it.wire,
                       it.reserved_for, it.expires_at, now_ms) f;
      if outcome <> 'accepted' then
        return next; continue;
      end if;
    else
      v_asked_thread := it.thread_asked;
      -- A follow-up carries the thread as the other side knows it, when the other side opened it.
      if it.asker_owner is not null and v_asked_thread is not null then
        select p.their_thread into v_asked_thread from conversation_participants p
          where p.owner = it.asker_owner and p.conversation = it.thread_asked and p.participant = it.asked and p.their_thread is not null;
        v_asked_thread := coalesce(v_asked_thread, it.thread_asked);
      end if;

      if it.target = 'room' and not may_post(it.agent_id, array(select json_array_elements_text(it.event -> 'dids')), it.event ->> 'skip') then
        outcome := 'no_member'; return next; continue;
      end if;

      if it.target in ('agent', 'room') then
        if it.session is not null then
          select * into se from sessions s where s.agent_id = it.agent_id and s.n = it.session for share;
          if se.n is null or not exists (
            select 1 from conversation_participants p where p.owner = se.owner and p.conversation = se.conversation and p.participant = it.asker
          ) then
            outcome := 'no_session'; return next; continue;
          elsif se.state = 'closed' then
            outcome := 'session_closed'; return next; continue;
          end if;
        end if;
      end if;

      insert into messages (sender, id, kind, from_addr, to_addr, reply_to, exchange_id, envelope, sig_payload, sig_node, a2a, wire, created_at, expires_at)
        values (it.sender, it.id, it.kind, it.from_addr, it.to_addr, it.reply_to, it.exchange_id, it.envelope, it.sig_payload, it.sig_node,
                it.a2a, it.wire, now_ms, it.expires_at)
        on conflict do nothing returning messages.seq into v_seq;
      if v_seq is null then
        -- Another copy was committed between the look and the insert.
        select m.seq, m.exchange_id, m.sig_payload is not null into v_seq, exchange, signed
          from messages m where m.sender = it.sender and m.id = it.id;
        select * into ex from exchanges e where e.id = exchange;
        outcome := 'duplicate'; seq := v_seq; thread := ex.asker_thread;
        addressee := ex.asked_addr || coalesce('#s' || ex.asked_session, ''); return next; continue;
      end if;

      v_conv := null;
      if it.target in ('agent', 'room') then
        if it.session is not null then
          v_conv := se.conversation;
          v_session := it.session;
          update sessions s set last_at = now_ms where s.agent_id = it.agent_id and s.n = it.session;
        else
          v_conv := bind_conversation(it.asked_owner, it.asker, v_asked_thread, it.thread_derived, it.may_open, it.asker_thread, now_ms);
          v_session := open_session(it.agent_id, it.asked_owner, v_conv, coalesce(it.session_new, false), now_ms);
        end if;
        insert into conversation_messages values (it.asked_owner, v_conv, v_seq, it.agent_id, v_session);
      end if;

      if it.asker_owner is not null then
        insert into conversations (owner, id, created_at) values (it.asker_owner, it.asker_thread, now_ms) on conflict do nothing;
        insert into conversation_participants (owner, conversation, participant, their_thread)
          values (it.asker_owner, it.asker_thread, 'm:' || it.asker_owner, null), (it.asker_owner, it.asker_thread, it.asked, v_conv)
          on conflict do nothing;
        insert into conversation_messages values (it.asker_owner, it.asker_thread, v_seq, it.asker_agent, it.asker_session) on conflict do nothing;
      end if;

      insert into exchanges (id, request_seq, request_id, asker, asker_agent, asker_owner, asker_conversation, asker_addr, asker_session, asker_via,
                             asker_node, asker_thread, asked, asked_agent, asked_owner, asked_conversation, asked_addr, asked_session, state, created_at, updated_at,
                             asker_kind, asker_ref)
        values (it.exchange_id, v_seq, it.id, it.asker, it.asker_agent, it.asker_owner, case when it.asker_owner is not null then it.asker_thread end,
                it.asker_addr, it.asker_session, it.asker_via, it.asker_node, it.asker_thread, it.asked, it.agent_id,
                case when it.target in ('agent', 'room') then it.asked_owner end, v_conv, it.asked_addr, v_session,
                case when it.held is null then 'submitted' else 'auth_required' end, now_ms, now_ms,
                it.asker_kind, it.asker_ref);
      if it.push is not null then
        perform set_push_configs(it.exchange_id, it.push, 20, now_ms);
      end if;

      if it.held is not null then
        -- Its owner sees it in the conversation and in her tray; her agent gets it when she says so.
        insert into permissions (id, owner, agent_id, level, action, effects, names, peer_domain, link_id, content, exchange_id, expires_at, created_at, decidable_at)
          select h.id, it.asked_owner, it.agent_id, h.level, h.action, h.effects, h.names, h.domain, h.link_id, h.content, it.exchange_id, it.expires_at, now_ms, h.decidable_at
            from json_to_record(it.held) as h(id text, level text, action text, effects text[], names text[], domain text, link_id text, content text, decidable_at bigint);
      elsif it.target = 'room' then
        -- The room answers for itself, in the same commit: what it took is with its members.
        v_wakes := v_wakes || post_to_room(it.agent_id, it.event, it.from_addr, it.asked_addr, (it.event ->> 'expires')::bigint, now_ms);
        select v_wakes || a.wakes into v_wakes from accept_messages(json_build_array(json_build_object(
          'i', 0, 'sender', 'system', 'id', 'posted-' || v_seq, 'kind', 'reply', 'from_addr', it.asked_addr, 'to_addr', '', 'reply_to', it.id,
          'envelope', it.event ->> 'reply', 'wire', 'relay', 'expires_at', it.expires_at, 'target', 'asker', 'exchange_id', it.exchange_id,
          'state', 'completed')), origin, now_ms) a;
      elsif it.target = 'agent' then
        insert into deliveries (agent_id, message_seq, message_id, reply_to, thread, to_addr, session, reserved_for, expires_at)
          values (it.agent_id, v_seq, it.id, null, v_conv, it.asked_addr || '#s' || v_session, v_session, it.reserved_for, it.expires_at);
        v_wakes := v_wakes || ('inbox:' || it.agent_id);
      else
        insert into outbox (kind, destination, lane, message_seq, body, due_at, expires_at, created_at)
          values (coalesce(it.outbox_kind, 'redsyn'), it.destination, it.lane, v_seq, it.outbox_body, now_ms, it.expires_at, now_ms)
          returning id into v_outbox;
        v_wakes := v_wakes || 'outbox'::text;
      end if;
      exchange := it.exchange_id; thread := it.asker_thread; addressee := it.asked_addr || coalesce('#s' || v_session, '');
    end if;

    outcome := 'accepted'; seq := v_seq; outbox_id := v_outbox; signed := it.sig_payload is not null; wakes := v_wakes;
    all_wakes := all_wakes || v_wakes;
    if w_agents[it.i + 1] is not null then
      budget := w_warnings[it.i + 1];
      if w_counted[it.i + 1] and it.i = any (p_near) then
        -- The next of this batch is judged with it.
        perform count_budget(array[w_agents[it.i + 1]], array[w_peers[it.i + 1]], array[w_bytes[it.i + 1]], now_ms);
      elsif w_counted[it.i + 1] then
        spent_agents := spent_agents || w_agents[it.i + 1]; spent_peers := spent_peers || w_peers[it.i + 1];
        spent_bytes := spent_bytes || w_bytes[it.i + 1];
      end if;
      if it.target = 'agent' or it.target = 'follow' then
        update mailboxes b set turns = greatest(leaked(b.turns, b.turns_at, now_ms), w_turns[it.i + 1]), turns_at = now_ms
          where b.agent_id = it.agent_id and (leaked(b.turns, b.turns_at, now_ms) < w_turns[it.i + 1] or abs(now_ms - b.turns_at) >= 1000);
      elsif w_leaves[it.i + 1] then
        led_agents := led_agents || w_agents[it.i + 1]; led_peers := led_peers || w_peers[it.i + 1]; led_turns := led_turns || w_turns[it.i + 1];
      end if;
    end if;
    if it.quota_org is not null then
      counted := counted || it.quota_org;
      if v_at is not null then
        p_left[v_at] := p_left[v_at] - 1;
      end if;
    end if;
    return next;
  end loop;

  if cardinality(counted) > 0 then
    insert into quota_days as q (org_id, day, shard, used)
      select org, (now_ms / 86400000)::integer, (random() * 15)::smallint, count(*) from unnest(counted) as c(org) group by org order by org
      on conflict (org_id, day, shard) do update set used = q.used + excluded.used;
  end if;
  if cardinality(spent_agents) > 0 then
    perform count_budget(spent_agents, spent_peers, spent_bytes, now_ms);
  end if;
  if cardinality(led_agents) > 0 then
    insert into peer_turns as p (agent_id, peer, turns, turns_at)
      select l.agent, l.peer, max(l.turns), now_ms from unnest(led_agents, led_peers, led_turns) as l(agent, peer, turns)
        group by l.agent, l.peer order by l.agent, l.peer
      on conflict (agent_id, peer) do update
        set turns = greatest(leaked(p.turns, p.turns_at, now_ms), excluded.turns), turns_at = excluded.turns_at;
  end if;
  perform wake_replicas(origin, all_wakes);
end $$;

-- One NOTIFY per 100 topics: a payload ends at 8,000 bytes.
create or replace function wake_replicas(origin text, topics text[]) returns void language plpgsql as $$
declare
  distinct_topics text[];
  at integer := 1;
begin
  select array_agg(distinct t) into distinct_topics from unnest(topics) as t;
  while at <= coalesce(cardinality(distinct_topics), 0) loop
    perform pg_notify('gatehouse', json_build_object('o', origin, 't', distinct_topics[at:at + 99])::text);
    at := at + 100;
  end loop;
end $$;
