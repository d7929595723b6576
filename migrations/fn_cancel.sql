-- Withdrawing a request that nobody has taken (redsyn.md "Cancelar").

-- p_askers: who may be asking. outcome:
--   missing   none of them sent such a request
--   canceled  withdrawn just now, or before; answered, taken: too late
--   away      it went to another gateway, or may have: outbox_id asks that gateway to withdraw it
-- The locks decide between this and a take or an answer that comes at the same time: first the exchange, as answers have it, then the delivery.
create or replace function cancel_request(p_askers text[], p_id text, p_origin text, now_ms bigint)
returns table (outcome text, exchange text, addressee text, outbox_id bigint, destination text) language plpgsql as $$
declare
  ex exchanges%rowtype;
  ob outbox%rowtype;
  de deliveries%rowtype;
  m_expires bigint;
  v_foreign text;
begin
  select * into ex from exchanges e where e.asker = any (p_askers) and e.request_id = p_id
    order by e.ended_at is not null, e.created_at desc limit 1 for update;
  if ex.id is null then
    outcome := 'missing'; return next; return;
  end if;
  exchange := ex.id; addressee := ex.asked_addr;
  if ex.ended_at is not null then
    outcome := case when ex.state = 'canceled' then 'canceled' else 'answered' end;
    return next; return;
  end if;

  if ex.asked_via is not null then
    -- Its protocol knows no withdrawing: who has it was woken by it.
    outcome := 'taken'; return next; return;
  elsif ex.asked_agent is not null then
    select * into de from deliveries d where d.message_seq = ex.request_seq for update;
    -- Taken once is taken, also when that lease has ended: somebody has read it, and may be at work. A webhook takes with its 2xx alone.
    if de.id is null and withdraw_held(ex.id, now_ms) then
      -- It waits for the owner still: nobody has it.
      null;
    elsif de.id is null or (de.attempts > 0 and de.lease_node is distinct from 'webhook') or ex.state <> 'submitted' then
      outcome := 'taken'; return next; return;
    end if;
    delete from deliveries d where d.id = de.id;
  else
    select * into ob from outbox o where o.message_seq = ex.request_seq and o.kind not in ('cancel', 'a2a-cancel', 'a2a-task') for update;
    if ob.id is null or ob.attempts > 0 then
      -- Already asked for: the same row is waited on.
      select o.id, o.destination into outbox_id, destination from outbox o where o.message_seq = ex.request_seq and o.kind in ('cancel', 'a2a-cancel');
      if outbox_id is null then
        select m.expires_at into m_expires from messages m where m.seq = ex.request_seq;
        select p.domain into destination from peers p where 'p:' || p.id = ex.asked;
        -- An agent on an A2A server, or a linked gateway.
        select r.destination into v_foreign from remote_tasks r where r.exchange_id = ex.id;
        v_foreign := coalesce(v_foreign, case when ob.kind = 'a2a' then ob.destination end);
        -- Behind a try that is under way, so that it does not overtake what it withdraws. Between tries the request itself goes no more.
        if ob.id is not null and ob.lease_until <= now_ms then
          delete from outbox o where o.id = ob.id;
        end if;
        insert into outbox (kind, destination, lane, message_seq, due_at, expires_at, created_at)
          values (case when v_foreign is null then 'cancel' else 'a2a-cancel' end, coalesce(ob.destination, v_foreign, destination), coalesce(ob.lane, 'cancel ' || ex.id), ex.request_seq, now_ms,
                  greatest(m_expires, now_ms + 60000), now_ms)
          returning outbox.id, outbox.destination into outbox_id, destination;
      end if;
      outcome := 'away'; return next;
      perform wake_replicas(p_origin, array['outbox']);
      return;
    end if;
    delete from outbox o where o.id = ob.id;
  end if;

  perform end_canceled(ex.id, p_origin, now_ms);
  outcome := 'canceled'; return next;
end $$;

-- False when it had ended otherwise before.
create or replace function end_canceled(p_exchange text, p_origin text, now_ms bigint) returns boolean language plpgsql as $$
begin
  update exchanges e set state = 'canceled', updated_at = greatest(now_ms, e.updated_at + 1), ended_at = now_ms
    where e.id = p_exchange and e.ended_at is null;
  if not found then
    return false;
  end if;
  perform drop_follow_ups(p_exchange);
  perform wake_replicas(p_origin, array['exchange:' || p_exchange]);
  return true;
end $$;
