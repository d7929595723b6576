-- Events: who gets a copy, and whether a copy may still be handed out.

-- Whether everything that an event crossed still lets it pass. A check is `<kind> <side> <link> <team/name>[ <rev>]`: the link is active, its domain
-- not blocked, and `side` exposes the topic as `kind`. With a rev the peer vouched for its exposure as of that revision of its side, which
-- counts until we have heard of it. What enters must be signed when the link says so.
create or replace function event_may_pass(checks text[], is_signed boolean) returns boolean language sql stable as $$
  select not exists (
    select from unnest(checks) as c(line)
      cross join lateral (
        select split_part(c.line, ' ', 1) as kind, split_part(c.line, ' ', 2) as side, split_part(c.line, ' ', 3) as link,
          split_part(c.line, ' ', 4) as path, nullif(split_part(c.line, ' ', 5), '')::bigint as rev
      ) p
      where not exists (
        select from links l
          where l.id = p.link and l.our_want > 0 and l.their_want > 0
            and (is_signed or not l.signed_only or (p.kind = 'sub' and p.side = 'ours'))
            and not exists (select from blocked_domains b where b.org_id = l.org_id and b.domain = l.peer_domain)
            and (l.their_rev < p.rev or exists (
              select from link_exposures x
                where x.link_id = l.id and x.side = p.side and x.kind = p.kind
                  and (x.pattern = '*' or x.pattern = p.path or (right(x.pattern, 2) = '/*' and starts_with(p.path, left(x.pattern, -1))))))))
$$;

-- The topic of an org here, made by its first use; null when the org has as many as one may have.
create or replace function topic_of(p_org text, p_team text, p_name text, p_id text, now_ms bigint) returns text language plpgsql as $$
declare
  v_id text;
begin
  select t.id into v_id from topics t where t.org_id = p_org and t.team = p_team and t.name = p_name;
  if v_id is not null then
    return v_id;
  end if;
  if (select count(*) from topics t where t.org_id = p_org) >= 10000 then
    return null;
  end if;
  insert into topics (id, org_id, team, name, created_at) values (p_id, p_org, p_team, p_name, now_ms) on conflict do nothing returning id into v_id;
  if v_id is null then
    select t.id into v_id from topics t where t.org_id = p_org and t.team = p_team and t.name = p_name;
  end if;
  return v_id;
end $$;

-- Copies of an event for every agent here that listens to one of p_topics, but p_skip: one statement, however many they are. Each agent has a session
-- of its own for a topic, opened by its first event. p_revs: by link, the revision that its peer vouched for. Answers whom to wake.
create or replace function fan_out(
  p_topics text[], p_seq bigint, p_message text, p_address text, p_skip text, p_checks text[], p_revs json, p_expires bigint, now_ms bigint
) returns text[] language plpgsql as $$
declare
  v_wakes text[];
begin
  -- Two events of one topic touch the same sessions.
  perform 1 from topics t where t.id = any (p_topics) order by t.id for no key update;
  with listening as materialized (
    select s.topic_id, s.agent_id, s.session, s.conversation, a.member_id as owner,
        o.handle || '/' || t.handle || '/' || m.handle || '/' || a.handle as address,
        p_checks || case
          when s.link_id is not null then array['sub ours ' || s.link_id || ' ' || tp.team || '/' || tp.name]
          when tp.link_id is not null then array['sub theirs ' || tp.link_id || ' ' || tp.team || '/' || tp.name || coalesce(' ' || (p_revs ->> tp.link_id), '')]
          else '{}'::text[] end as checks
      from topics tp join subscriptions s on s.topic_id = tp.id
      join agents a on a.id = s.agent_id join orgs o on o.id = a.org_id join teams t on t.id = a.team_id join members m on m.id = a.member_id
      where tp.id = any (p_topics) and s.active and s.agent_id is distinct from p_skip
        and (s.link_id is null or event_may_pass(array['sub ours ' || s.link_id || ' ' || tp.team || '/' || tp.name], true))
  ), boxes as materialized (
    select b.agent_id from mailboxes b
      where b.agent_id in (select l.agent_id from listening l where l.session is null) order by b.agent_id collate "C" for update
  ), opened as (
    update mailboxes b set next_session = b.next_session + 1 from boxes where b.agent_id = boxes.agent_id
      returning b.agent_id, b.next_session - 1 as n
  ), placed as materialized (
    select l.*, coalesce(l.session, n.n) as n, n.n is not null as is_new from listening l left join opened n on n.agent_id = l.agent_id
  ), talk as (
    insert into conversations (owner, id, created_at) select owner, conversation, now_ms from placed where is_new on conflict do nothing
  ), part as (
    insert into conversation_participants (owner, conversation, participant) select owner, conversation, 'm:' || owner from placed where is_new
      on conflict do nothing
  ), fresh as (
    insert into sessions (agent_id, n, owner, conversation, title, created_at, last_at)
      select agent_id, n, owner, conversation, p_address, now_ms, now_ms from placed where is_new
  ), kept as (
    update subscriptions s set session = p.n from placed p where p.is_new and s.topic_id = p.topic_id and s.agent_id = p.agent_id
  ), touched as (
    update sessions s set last_at = now_ms from placed p where not p.is_new and s.agent_id = p.agent_id and s.n = p.n
  ), said as (
    insert into conversation_messages (owner, conversation, seq, agent_id, session) select owner, conversation, p_seq, agent_id, n from placed
      on conflict do nothing
  ), given as (
    insert into deliveries (agent_id, message_seq, message_id, reply_to, thread, to_addr, session, expires_at, checks)
      select agent_id, p_seq, p_message, null, conversation, address || '#s' || n, n, p_expires, nullif(checks, '{}') from placed
      returning agent_id
  )
  select array_agg('inbox:' || agent_id) into v_wakes from given;
  return coalesce(v_wakes, '{}');
end $$;

-- What one accepted event writes. p_event: {to: 'own', topic, team, name, skip, checks} | {to: 'behind', links: {link: rev}, team, name, skip} |
-- {to: 'far', destination, lane, link}. outbox_id only for the last: the copy that goes to the topic's own gateway.
create or replace function spread_event(
  p_event json, p_topic text, p_seq bigint, p_message text, p_address text, p_expires bigint, now_ms bigint
) returns table (outbox_id bigint, wakes text[]) language plpgsql as $$
declare
  v_checks text[] := array(select json_array_elements_text(coalesce(p_event -> 'checks', '[]')));
  v_topics text[];
begin
  wakes := '{}';
  if p_event ->> 'to' = 'far' then
    insert into outbox (kind, destination, lane, message_seq, body, due_at, expires_at, created_at)
      values ('event', p_event ->> 'destination', p_event ->> 'lane', p_seq, json_build_object('link', p_event ->> 'link')::text, now_ms, p_expires, now_ms)
      returning id into outbox_id;
    wakes := array['outbox'];
  elsif p_event ->> 'to' = 'behind' then
    v_topics := array(
      select t.id from topics t
        where t.link_id = any (array(select json_object_keys(p_event -> 'links')))
          and t.team = p_event ->> 'team' and t.name = p_event ->> 'name');
    wakes := fan_out(v_topics, p_seq, p_message, p_address, p_event ->> 'skip', v_checks, p_event -> 'links', p_expires, now_ms);
  else
    wakes := fan_out(array[p_topic], p_seq, p_message, p_address, p_event ->> 'skip', v_checks, null, p_expires, now_ms);
    -- Once to each gateway with listeners: it hands on to its agents.
    insert into outbox (kind, destination, lane, message_seq, body, due_at, expires_at, created_at)
      select 'event', d.peer_domain, d.peer_domain || ' ' || p_topic, p_seq, json_build_object('topic', p_topic, 'checks', v_checks)::text,
          now_ms, p_expires, now_ms
        from (
          select distinct l.peer_domain from topic_links x join links l on l.id = x.link_id
            where x.topic_id = p_topic and x.active
              and event_may_pass(array['sub ours ' || l.id || ' ' || (p_event ->> 'team') || '/' || (p_event ->> 'name')], true)
        ) d;
    if found then
      wakes := wakes || 'outbox'::text;
    end if;
  end if;
  return next;
end $$;
