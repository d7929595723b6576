-- Questions that wait for the owner of the agent that they are for.

-- Whoever asked takes it back: true when it was still waiting. The caller holds the exchange's lock.
create or replace function withdraw_held(p_exchange text, now_ms bigint) returns boolean language plpgsql as $$
begin
  update permissions p set decision = 'withdrawn', decided_at = now_ms where p.exchange_id = p_exchange and p.decision = 'pending';
  return found;
end $$;

-- Delivers what its owner allowed. Under the exchange's lock, and once: the caller has claimed the decision.
create or replace function release_held(p_exchange text, now_ms bigint) returns text[] language plpgsql as $$
declare
  ex exchanges%rowtype;
begin
  update exchanges e set state = 'submitted', updated_at = greatest(now_ms, e.updated_at + 1)
    where e.id = p_exchange and e.state = 'auth_required' returning * into ex;
  if ex.id is null then
    return '{}';
  end if;
  insert into deliveries (agent_id, message_seq, message_id, reply_to, thread, to_addr, session, expires_at)
    select ex.asked_agent, m.seq, m.id, null, ex.asked_conversation, ex.asked_addr || coalesce('#s' || ex.asked_session, ''), ex.asked_session, m.expires_at
      from messages m where m.seq = ex.request_seq;
  return array['inbox:' || ex.asked_agent, 'exchange:' || ex.id];
end $$;
