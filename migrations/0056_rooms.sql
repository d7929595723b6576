-- Rooms: agents whose profile has `room` (muretai.md "muretai.room", design §10). Their axes stand in the profile; here is who is in.

create table room_members (
  -- The room.
  agent_id    text not null references agents,
  did         text not null check (length(did) <= 512),
  -- When the member is an agent of this instance.
  local_agent text references agents,
  name        text not null default '' check (length(name) <= 200),
  -- Where a member elsewhere gets what is posted; null for who is here.
  url         text check (length(url) <= 1024),
  state       text not null check (state in ('member', 'left', 'removed')),
  -- Why what was posted could not be brought there last; null when it could.
  problem     text check (length(problem) <= 500),
  joined_at   bigint not null,
  ended_at    bigint,
  primary key (agent_id, did),
  check ((state = 'member') = (ended_at is null))
);
create index room_members_here on room_members (local_agent) where local_agent is not null;

-- What a room says is an event of a topic that nobody can name: its members here listen to it.
alter table topics add column room_agent text unique references agents;
alter table topics drop constraint topics_check, add constraint topics_one_place check (num_nonnulls(org_id, link_id, room_agent) = 1);

-- A question to join a room is not one to reach its owner. `room`: the room's id; '' for all else.
alter table connection_requests add column room text not null default '';
alter table connection_requests drop constraint connection_requests_owner_peer_did_key;
create unique index connection_requests_by_peer on connection_requests (owner, peer_did, room);
