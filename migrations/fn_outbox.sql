-- Claiming what leaves. See fn_take.sql on why plans must not depend on statistics; the bounds of (destination, due_at) are row comparisons
-- for the same reason.

-- Leases at most p_most rows that may be sent now, of the destinations of p_ids, of p_destinations, or (both null) of all:
-- due, not leased, not expired, of a kind that somebody here sends, and first of their lane. A destination has at most p_each rows under lease on all
-- replicas together, one while its circuit is half open, none while it is open or stopped. Those with least under way come first.
create or replace function claim_outbox(
  now_ms bigint, p_lease_until bigint, p_kinds text[], p_most integer, p_each integer, p_ids bigint[], p_destinations text[]
)
returns table (
  id bigint, kind text, destination text, lane text, message_seq bigint, body text, attempts integer, expires_at bigint,
  lease_until bigint
)
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_incremental_sort = off
set enable_hashjoin = off set enable_mergejoin = off set enable_memoize = off set jit = off
as $$
#variable_conflict use_column
declare
  v_destinations text[];
  v_ids bigint[];
  v_leases bigint[];
begin
  -- Claims take turns, so that what is under way to a destination is counted right. A claim is one short statement.
  perform pg_advisory_xact_lock(7184302912);

  if p_ids is null and p_destinations is null then
    with recursive d as (
      (select o.destination from outbox o order by o.destination limit 1)
      union all
      select (select o.destination from outbox o where o.destination > d.destination order by o.destination limit 1)
        from d where d.destination is not null
    )
    select array_agg(d.destination) into v_destinations from d where d.destination is not null;
  else
    select array_agg(distinct x.destination) into v_destinations from (
      select o.destination from outbox o where o.id = any (coalesce(p_ids, '{}'))
      union all select unnest(coalesce(p_destinations, '{}'))
    ) x;
  end if;

  select array_agg(x.id), array_agg(x.lease_until) into v_ids, v_leases from (
    select r.id, r.lease_until
      from unnest(v_destinations) as d(destination)
      left join circuits c on c.destination = d.destination
      cross join lateral (
        select count(*) as n from (
          select from outbox o
            where (o.destination, o.lease_until) > (d.destination, now_ms) and o.destination <= d.destination and o.lease_until > 0
            order by o.destination, o.lease_until limit p_each
        ) b
      ) busy
      cross join lateral (
        select w.id, w.lease_until, busy.n + row_number() over (order by w.due_at, w.id) as rank
          from (
            select o.id, o.lane, o.kind, o.lease_until, o.expires_at, o.due_at from outbox o
              where (o.destination, o.due_at) >= (d.destination, 0::bigint) and (o.destination, o.due_at) <= (d.destination, now_ms)
              order by o.destination, o.due_at, o.id limit 1000
          ) w
          where w.lease_until <= now_ms and w.expires_at > now_ms and w.kind = any (p_kinds)
            and w.id = (select e.id from outbox e where e.lane >= w.lane and e.lane <= w.lane order by e.lane, e.id limit 1)
          order by w.due_at, w.id
          limit greatest(0, case when c.failures > 0 then 1 else p_each end - busy.n)
      ) r
      where c.destination is null or (c.alert is null and c.open_until <= now_ms)
      order by r.rank, random() limit p_most
  ) x;

  return query
    with held as materialized (
      -- A row that was put back meanwhile has another lease than was seen, and its destination may have been found down.
      select o.id from unnest(v_ids, v_leases) as seen(id, lease_until)
        join outbox o on o.id = seen.id and o.lease_until = seen.lease_until for update of o skip locked
    )
    update outbox o set lease_until = p_lease_until, attempts = o.attempts + 1
      from held h where o.id = h.id and o.id = any (v_ids)
      returning o.id, o.kind, o.destination, o.lane, o.message_seq, o.body, o.attempts, o.expires_at, o.lease_until;
end $$;

-- The next time at which something may be sent, given up or taken back, or null.
create or replace function next_outbox(now_ms bigint) returns bigint language sql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_memoize = off set jit = off
as $$
  select least(
    (select min(due_at) from outbox where due_at > now_ms),
    (select min(expires_at) from outbox where expires_at > now_ms),
    (select min(lease_until) from outbox where lease_until > now_ms and lease_until > 0),
    (select min(open_until) from circuits where open_until > now_ms and alert is null)
  )
$$;

-- The destination itself was heard: nothing waits for it any longer. One that refused us is first asked with a single row.
-- True when something may go now that could not before.
create or replace function hear_outbox(p_destination text, now_ms bigint) returns boolean language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_memoize = off set jit = off
as $$
declare
  changed boolean;
begin
  update circuits set alert = null, failures = 1, open_until = 0 where destination = p_destination and alert is not null;
  changed := found;
  if not changed then
    delete from circuits where destination = p_destination and failures > 0 and open_until > now_ms;
    changed := found;
  end if;
  update outbox set due_at = now_ms
    where (destination, due_at) > (p_destination, now_ms) and destination <= p_destination;
  return changed or found;
end $$;

-- A clock that ran ahead and was set back left times that nobody meant: nothing lies further ahead than p_furthest.
create or replace function mend_outbox(now_ms bigint, p_furthest bigint) returns void language sql
set enable_seqscan = off set enable_bitmapscan = off set enable_memoize = off set jit = off
as $$
  update outbox set due_at = now_ms where due_at > now_ms + p_furthest;
  update outbox set lease_until = 0 where lease_until > now_ms + p_furthest and lease_until > 0;
  update circuits set open_until = now_ms where open_until > now_ms + p_furthest;
$$;
