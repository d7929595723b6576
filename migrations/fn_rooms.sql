-- Rooms: what a member posts goes to every other member (muretai.md "muretai.room").

-- Whether the author of a post is in, now: whoever is removed meanwhile waits for this post, and no later one gets through.
create or replace function may_post(p_room text, p_dids text[], p_local text) returns boolean language plpgsql as $$
begin
  perform 1 from room_members m
    where m.agent_id = p_room and m.state = 'member' and (m.did = any (p_dids) or m.local_agent = p_local) for share;
  return found;
end $$;

-- What the room forwards, as one message of its own: a copy for each member here that listens, and one outbox row for each member elsewhere.
-- p_post: {id, envelope, dids, skip}: `dids` are the author's, `skip` the agent here that it is. Answers whom to wake.
create or replace function post_to_room(p_room text, p_post json, p_from text, p_address text, p_expires bigint, now_ms bigint)
returns text[] language plpgsql as $$
declare
  v_seq bigint;
  v_topic text;
  v_wakes text[] := '{}';
  v_dids text[] := array(select json_array_elements_text(p_post -> 'dids'));
begin
  insert into messages (sender, id, kind, from_addr, to_addr, envelope, wire, created_at, expires_at)
    values ('room:' || p_room, p_post ->> 'id', 'event', p_from, p_address, p_post ->> 'envelope', 'relay', now_ms, p_expires)
    returning messages.seq into v_seq;
  select t.id into v_topic from topics t where t.room_agent = p_room;
  if v_topic is not null then
    v_wakes := fan_out(array[v_topic], v_seq, p_post ->> 'id', p_address, p_post ->> 'skip', '{}', null, p_expires, now_ms);
  end if;
  insert into outbox (kind, destination, lane, message_seq, body, due_at, expires_at, created_at)
    select 'muretai-room', lower(substring(m.url from '^[a-zA-Z]+://([^/?#]+)')), 'room ' || p_room || ' ' || m.did, v_seq,
        json_build_object('room', p_room, 'did', m.did)::text, now_ms, p_expires, now_ms
      from room_members m
      where m.agent_id = p_room and m.state = 'member' and m.local_agent is null and m.url is not null and not m.did = any (v_dids);
  if found then
    v_wakes := v_wakes || 'outbox'::text;
  end if;
  return v_wakes;
end $$;
