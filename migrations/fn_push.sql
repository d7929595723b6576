-- Pushing to webhooks. A push is a take by the node 'webhook': the row of `deliveries` is the only truth, its lease the time of the try and then the pause
-- until the next one, its attempts the tries. So expiry, ten attempts, both error replies and what a crash leaves are the mailbox's own rules,
-- messages that already wait are pushed without being moved, and DELETE …/webhook only ends leases.

-- Leases what may be pushed for one agent now: of each session (or thread, where there is none) the oldest message, and only that one, so that
-- order is kept while an earlier one waits for its next try. At most p_max rows; and one row without id: when to look again (wake_at), or null.
create or replace function claim_pushes(p_agent text, p_max integer, now_ms bigint, p_until bigint, longest_lease bigint)
returns table (
  id bigint, seq bigint, message_id text, kind text, from_addr text, reply_to text, envelope text, sig_payload text,
  sig_node text, a2a text, created_at bigint, thread text, to_addr text, session integer, expires_at bigint, attempts integer,
  lease_until bigint, topic text, url text, secret bytea, version text, wake_at bigint
)
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_incremental_sort = off
set enable_hashjoin = off set enable_mergejoin = off set enable_memoize = off set jit = off
as $$
#variable_conflict use_column
declare
  d record;
  h record;
  v_key text;
  v_keys text[] := '{}';
  v_ids bigint[] := '{}';
  v_drop bigint[] := '{}';
  v_wake bigint;
  v_leased boolean;
begin
  select w.url, w.secret, o.api_version into h from webhooks w join orgs o on o.id = w.org_id where w.agent_id = p_agent;
  if not found then
    return;
  end if;
  for d in
    select e.id, e.session, e.thread, e.message_seq, e.lease_until, e.expires_at, e.attempts, e.checks from deliveries e
      where e.agent_id >= p_agent and e.agent_id <= p_agent and e.reserved_for is null
      order by e.agent_id, e.id limit 5000
  loop
    v_leased := d.lease_until > now_ms and d.lease_until <= now_ms + longest_lease;
    -- What is over is the sweeper's.
    continue when not v_leased and (d.expires_at <= now_ms or d.attempts >= 10);
    v_key := coalesce('s' || d.session, 't' || d.thread);
    if v_leased then
      v_wake := least(v_wake, d.lease_until);
      v_keys := v_keys || v_key;
    elsif not v_key = any (v_keys) then
      if d.checks is not null
        and not event_may_pass(d.checks, (select m.sig_payload is not null from messages m where m.seq = d.message_seq))
      then
        v_drop := v_drop || d.id;
      else
        v_keys := v_keys || v_key;
        v_ids := v_ids || d.id;
        exit when cardinality(v_ids) = p_max;
      end if;
    end if;
  end loop;
  if cardinality(v_drop) > 0 then
    delete from deliveries e where e.id = any (v_drop);
  end if;

  return query
    with held as materialized (
      select e.id from deliveries e
        where e.id = any (v_ids) and (e.lease_until <= now_ms or e.lease_until > now_ms + longest_lease) and e.attempts < 10
        for update of e skip locked
    ), leased as (
      update deliveries e set lease_until = p_until, lease_node = 'webhook', attempts = e.attempts + 1,
          expires_at = case when e.attempts >= 9 then least(e.expires_at, p_until) else e.expires_at end
        from held where e.id = held.id and e.id = any (v_ids)
        returning e.*
    )
    select l.id, l.message_seq, l.message_id, m.kind, m.from_addr, m.reply_to, m.envelope, m.sig_payload, m.sig_node, m.a2a, m.created_at,
        l.thread, l.to_addr, l.session, m.expires_at, l.attempts, l.lease_until, case when m.kind = 'event' then m.to_addr end,
        h.url, h.secret, h.api_version, null::bigint
      from leased l cross join lateral (select c.* from messages c where c.seq = l.message_seq offset 0) m
      order by l.id;
  id := null; wake_at := v_wake;
  return next;
end $$;

-- The webhook took it. False when the lease is no longer ours: it may then be delivered again, which its id shows.
create or replace function end_push(p_id bigint, p_attempts integer, p_until bigint) returns boolean language plpgsql as $$
begin
  delete from deliveries d where d.id = p_id and d.lease_node = 'webhook' and d.attempts = p_attempts and d.lease_until = p_until;
  return found;
end $$;

-- It did not: rests until p_retry or its own end, whichever comes first; after ten tries it is over, and the sweeper tells the sender.
create or replace function retry_push(p_id bigint, p_attempts integer, p_until bigint, p_retry bigint, now_ms bigint) returns boolean language plpgsql as $$
begin
  update deliveries d
    set lease_until = case when d.attempts >= 10 then 0 else least(p_retry, greatest(d.expires_at, now_ms)) end,
        expires_at = case when d.attempts >= 10 then least(d.expires_at, now_ms) else d.expires_at end
    where d.id = p_id and d.lease_node = 'webhook' and d.attempts = p_attempts and d.lease_until = p_until;
  return found;
end $$;

-- Ends the leases of all that is being pushed or waits for its next try: back in the inbox, with as many takes as any other message.
create or replace function return_pushes(p_agent text) returns void language sql as $$
  update deliveries d set lease_until = 0, lease_node = null, attempts = 0,
      expires_at = (select m.expires_at from messages m where m.seq = d.message_seq)
    where d.agent_id = p_agent and d.lease_node = 'webhook'
$$;
