-- Owes a wake for whatever is put before an agent that wants to be woken, by whichever wire it came and whoever put it there: "the task row and a wake
-- row are saved in one transaction". One look per statement, and nothing more for agents that are not woken.

create or replace function owe_wakes() returns trigger language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
  it record;
  v_id uuid;
  any_webhook boolean := false;
begin
  for it in
    select f.agent_id, a.org_id, d.mode, d.origin, m.kind, m.exchange_id, m.created_at,
        case
          when m.kind = 'request' and m.seq = e.request_seq then 'task'
          when m.kind = 'reply' then case when e.state = 'completed' then 'result' else 'failure' end
          when m.kind = 'progress' and e.state = 'input_required' then 'question'
          else 'message'
        end as reason
      from fresh f
      join agent_delivery d on d.agent_id = f.agent_id
      join agents a on a.id = f.agent_id
      join messages m on m.seq = f.message_seq
      left join exchanges e on e.id = m.exchange_id
      order by m.seq
  loop
    -- One that was not tried yet says all that a second one would: a stream of words wakes nobody for each of them.
    if it.kind = 'progress' and it.reason = 'message' and exists (
      select from wakes w where w.agent_id = it.agent_id and w.state <> 'done' and w.state = 'pending' and w.attempts = 0 and w.reason = 'message'
        and w.task_id is not distinct from it.exchange_id
    ) then
      continue;
    end if;
    insert into wakes (agent_id, org_id, reason, task_id, created_at, updated_at)
      values (it.agent_id, it.org_id, it.reason, it.exchange_id, it.created_at, it.created_at) returning id into v_id;
    if it.mode = 'webhook' then
      insert into outbox (kind, destination, lane, body, due_at, expires_at, created_at)
        values ('wake', 'wake ' || it.origin, 'wake ' || v_id, v_id::text, it.created_at, it.created_at + 604800000, it.created_at);
      any_webhook := true;
    end if;
  end loop;
  -- No origin: the process that accepted it sends it too.
  if any_webhook then
    perform wake_replicas('', array['outbox']);
  end if;
  return null;
end $$;

create or replace trigger deliveries_owe_wakes after insert on deliveries
  referencing new table as fresh for each statement execute function owe_wakes();
