-- Tasks as A2A's clients steer them: going on with one, canceling it, and telling webhooks that it changed.

-- The asker's next message of an open exchange: it goes to whoever was asked, in the same session. outcome: accepted, duplicate, closed, missing
-- (no such exchange of that agent). The exchange's lock decides between this and an answer or an end that comes at the same time.
create or replace function follow_up(
  p_exchange text, p_agent text, p_sender text, p_id text, p_from text, p_envelope text, p_sig_payload text, p_sig_node text, p_a2a text,
  p_wire text, p_reserved_for text, p_expires bigint, now_ms bigint
) returns table (outcome text, thread text, addressee text, seq bigint, state text, wakes text[]) language plpgsql as $$
declare
  ex exchanges%rowtype;
  v_seq bigint;
  v_session integer;
begin
  wakes := '{}';
  select * into ex from exchanges e where e.id = p_exchange and e.asked_agent = p_agent for update;
  if ex.id is null then
    outcome := 'missing'; return next; return;
  end if;
  thread := ex.asker_thread; state := ex.state;
  if ex.ended_at is not null then
    outcome := 'closed'; return next; return;
  end if;
  if exists (select from permissions p where p.exchange_id = ex.id and p.decision = 'pending') then
    outcome := 'held'; return next; return;
  end if;
  select s.n into v_session from sessions s where s.agent_id = ex.asked_agent and s.n = ex.asked_session and s.state = 'open';
  if v_session is null then
    v_session := open_session(ex.asked_agent, ex.asked_owner, ex.asked_conversation, false, now_ms);
  else
    update sessions s set last_at = now_ms where s.agent_id = ex.asked_agent and s.n = v_session;
  end if;
  addressee := ex.asked_addr || '#s' || v_session;

  insert into messages (sender, id, kind, from_addr, to_addr, reply_to, exchange_id, envelope, sig_payload, sig_node, a2a, wire, created_at, expires_at)
    values (p_sender, p_id, 'request', p_from, addressee, ex.request_id, ex.id, p_envelope, p_sig_payload, p_sig_node, p_a2a, p_wire, now_ms, p_expires)
    on conflict do nothing returning messages.seq into v_seq;
  if v_seq is null then
    outcome := 'duplicate'; return next; return;
  end if;
  insert into follow_ups (exchange_id, message_seq, agent_id, request_id) values (ex.id, v_seq, p_agent, p_id);
  if state in ('input_required', 'auth_required') then
    state := 'working';
  end if;
  update exchanges e set state = follow_up.state, asked_session = v_session, is_followed = true, updated_at = greatest(now_ms, e.updated_at + 1)
    where e.id = ex.id;
  insert into conversation_messages values (ex.asked_owner, ex.asked_conversation, v_seq, ex.asked_agent, v_session) on conflict do nothing;
  if ex.asker_owner is not null then
    insert into conversation_messages values (ex.asker_owner, ex.asker_conversation, v_seq, ex.asker_agent, ex.asker_session) on conflict do nothing;
  end if;
  insert into deliveries (agent_id, message_seq, message_id, reply_to, thread, to_addr, session, reserved_for, expires_at)
    values (p_agent, v_seq, p_id, null, ex.asked_conversation, addressee, v_session, p_reserved_for, p_expires);
  outcome := 'accepted'; seq := v_seq; wakes := array['inbox:' || p_agent, 'exchange:' || ex.id];
  return next;
end $$;

-- Ends what is still owed of an exchange's follow-ups: its reply, or its end, closes them too.
create or replace function drop_follow_ups(p_exchange text) returns void language sql as $$
  delete from deliveries d using follow_ups f where f.exchange_id = p_exchange and d.message_seq = f.message_seq
$$;

-- Cancels an exchange with an agent here, whether it was taken or not; an agent that took it is told with p_notice, an envelope from the asker.
-- outcome: missing, ended, elsewhere (asked of an agent behind another gateway), canceled.
create or replace function cancel_task(p_exchange text, p_notice_id text, p_notice text, p_expires bigint, p_origin text, now_ms bigint)
returns table (outcome text, wakes text[]) language plpgsql as $$
declare
  ex exchanges%rowtype;
  v_untaken integer;
  v_asked integer;
  v_seq bigint;
begin
  wakes := '{}';
  select * into ex from exchanges e where e.id = p_exchange for update;
  if ex.id is null or ex.ended_at is not null then
    outcome := case when ex.id is null then 'missing' else 'ended' end; return next; return;
  end if;
  if ex.asked_agent is null then
    outcome := 'elsewhere'; return next; return;
  end if;
  with asked as (
    select ex.request_seq as message_seq union all select f.message_seq from follow_ups f where f.exchange_id = ex.id
  ), gone as (
    delete from deliveries d using asked a where d.message_seq = a.message_seq returning d.attempts
  )
  select (select count(*) from gone g where g.attempts = 0), (select count(*) from asked) into v_untaken, v_asked;
  perform end_canceled(ex.id, p_origin, now_ms);
  wakes := array['exchange:' || ex.id];
  if not withdraw_held(ex.id, now_ms) and v_untaken < v_asked then
    insert into messages (sender, id, kind, from_addr, to_addr, reply_to, envelope, wire, created_at, expires_at)
      values ('system', p_notice_id, 'progress', ex.asker_addr, ex.asked_addr || coalesce('#s' || ex.asked_session, ''), ex.request_id, p_notice, 'relay', now_ms, p_expires)
      returning messages.seq into v_seq;
    insert into conversation_messages values (ex.asked_owner, ex.asked_conversation, v_seq, ex.asked_agent, ex.asked_session) on conflict do nothing;
    insert into deliveries (agent_id, message_seq, message_id, reply_to, thread, to_addr, session, expires_at)
      values (ex.asked_agent, v_seq, p_notice_id, ex.request_id, ex.asked_conversation, ex.asked_addr || coalesce('#s' || ex.asked_session, ''),
              ex.asked_session, p_expires);
    wakes := wakes || ('inbox:' || ex.asked_agent);
    perform wake_replicas(p_origin, array['inbox:' || ex.asked_agent]);
  end if;
  outcome := 'canceled'; return next;
end $$;

-- p_configs: [{id, url, destination, secrets (base64 or null), version}]. One that has the id of another replaces it. False, and nothing done, when there
-- would be more than p_most.
create or replace function set_push_configs(p_exchange text, p_configs json, p_most integer, now_ms bigint) returns boolean language plpgsql as $$
begin
  perform 1 from exchanges e where e.id = p_exchange for update;
  if not found then
    return true;
  end if;
  if (select count(*) from (
    select p.id from push_configs p where p.exchange_id = p_exchange union select c.id from json_to_recordset(p_configs) as c(id text)
  ) x) > p_most then
    return false;
  end if;
  insert into push_configs as p (exchange_id, id, url, destination, secrets, version, created_at)
    select p_exchange, c.id, c.url, c.destination, decode(c.secrets, 'base64'), c.version, now_ms
      from json_to_recordset(p_configs) as c(id text, url text, destination text, secrets text, version text)
    on conflict (exchange_id, id) do update
      set url = excluded.url, destination = excluded.destination, secrets = excluded.secrets, version = excluded.version,
          last_error = null, last_error_at = null;
  update exchanges e set has_push = true where e.id = p_exchange and not e.has_push;
  return true;
end $$;

-- Whatever changes an exchange, in the same transaction: each webhook is owed the task as it will then stand. One row that has not left yet stands for
-- all changes until it does; its lock keeps a worker from leaving with less than that.
create or replace function push_change() returns trigger language plpgsql as $$
declare
  c record;
  v_some boolean := false;
begin
  for c in select p.id, p.destination from push_configs p where p.exchange_id = new.id order by p.id loop
    perform 1 from outbox o
      where o.lane = 'push ' || new.id || ' ' || c.id and o.lease_until <= new.updated_at order by o.id limit 1 for update;
    if not found then
      insert into outbox (kind, destination, lane, body, due_at, expires_at, created_at)
        values ('push', c.destination, 'push ' || new.id || ' ' || c.id, json_build_object('task', new.id, 'config', c.id)::text,
                new.updated_at, new.updated_at + 86400000, new.updated_at);
      v_some := true;
    end if;
  end loop;
  if v_some then
    perform wake_replicas('', array['outbox']);
  end if;
  return null;
end $$;

create or replace trigger exchanges_push after update of updated_at on exchanges
  for each row when (new.has_push and new.updated_at is distinct from old.updated_at) execute function push_change();
