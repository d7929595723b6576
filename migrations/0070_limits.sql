-- What an agent and a peer ask of each other, and how far it may go (design §4 "Loops", confer.md "Compuerta de consentimiento").

-- Per agent, UTC day and peer ('p:…', 'm:…' or 'anonymous'), spread over shards so that senders do not queue on one row.
create table budget_days (
  agent_id text not null references agents on delete cascade,
  day      integer not null,
  peer     text not null,
  shard    smallint not null,
  messages bigint not null default 0,
  bytes    bigint not null default 0,
  tokens   bigint not null default 0,
  primary key (agent_id, day, peer, shard)
);

-- What its owner chose for an agent and a peer, and whether they are paused. peer '': all peers of the agent together. Null: the usual limit.
create table limits (
  agent_id      text not null references agents on delete cascade,
  peer          text not null,
  messages      bigint check (messages >= 0),
  bytes         bigint check (bytes >= 0),
  tokens        bigint check (tokens >= 0),
  turns         integer check (turns between 1 and 1000000),
  paused_at     bigint,
  paused_for    text check (paused_for in ('messages', 'bytes', 'tokens', 'turns')),
  -- What was used when the owner last let it go on; that day counts from there.
  base_day      integer,
  base_messages bigint not null default 0,
  base_bytes    bigint not null default 0,
  base_tokens   bigint not null default 0,
  primary key (agent_id, peer),
  check ((paused_at is null) = (paused_for is null))
);
create index limits_by_peer on limits (peer) where paused_at is not null;

-- How long a chain of requests is, each sent by whom the one before had reached: of the last that reached the agent, and when that was.
alter table mailboxes
  add column turns    integer not null default 0,
  add column turns_at bigint not null default 0;

-- The same of the last request from an agent to a peer elsewhere, whose next may come of it.
create table peer_turns (
  agent_id text not null references agents on delete cascade,
  peer     text not null,
  turns    integer not null,
  turns_at bigint not null,
  primary key (agent_id, peer)
);
