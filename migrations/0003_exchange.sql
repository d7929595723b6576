-- Foreign principals: one row per DID that was ever admitted or written to.
create table peers (
  id         text primary key,
  did        text not null unique,
  -- The authority of its did:web, or '' for a did:key.
  domain     text not null,
  name       text not null default '',
  created_at bigint not null
);
create index peers_by_domain on peers (domain);

-- A conversation belongs to one owner, and its id is unique only under that owner: nobody can name another owner's row.
create table conversations (
  owner      text not null references members,
  id         text not null check (length(id) between 1 and 256),
  title      text,
  created_at bigint not null,
  primary key (owner, id)
);

-- participant: 'm:<member id>' or 'p:<peer id>'. their_thread: the thread as that participant writes it; echoed, never used as a key.
create table conversation_participants (
  owner        text not null,
  conversation text not null,
  participant  text not null,
  their_thread text check (length(their_thread) <= 256),
  primary key (owner, conversation, participant),
  foreign key (owner, conversation) references conversations (owner, id) on delete cascade
);

-- Immutable. `sender` scopes the id that the sender chose: 'm:<member id>', 'p:<peer id>', 'system'.
create table messages (
  seq         bigint generated always as identity primary key,
  sender      text not null,
  id          text not null check (length(id) between 1 and 256),
  kind        text not null check (kind in ('request', 'progress', 'reply', 'event')),
  from_addr   text not null,
  to_addr     text not null,
  reply_to    text,
  exchange_id text,
  -- The envelope as it arrived, byte for byte.
  envelope    text not null,
  -- The exact text that the sender's node signed, its node and the key's fingerprint; null when unsigned.
  sig_payload text,
  sig_node    text,
  -- The A2A Message as it arrived, for messages that came over A2A.
  a2a         text,
  wire        text not null,
  created_at  bigint not null,
  expires_at  bigint not null,
  unique (sender, id)
);
create index messages_by_exchange on messages (exchange_id, seq) where exchange_id is not null;

-- Where a message stands in a conversation, and in which session of which agent.
create table conversation_messages (
  owner        text not null,
  conversation text not null,
  seq          bigint not null references messages,
  agent_id     text,
  session      integer,
  primary key (owner, conversation, seq),
  foreign key (owner, conversation) references conversations (owner, id) on delete cascade
);
create index conversation_messages_by_session on conversation_messages (agent_id, session, seq) where session is not null;
create index conversation_messages_by_seq on conversation_messages (seq);

-- A conversation as one agent sees it: agent#s<n>.
create table sessions (
  agent_id     text not null references agents,
  n            integer not null check (n > 0),
  owner        text not null,
  conversation text not null,
  title        text,
  state        text not null default 'open' check (state in ('open', 'closed')),
  created_at   bigint not null,
  last_at      bigint not null,
  primary key (agent_id, n)
);
create index sessions_by_conversation on sessions (agent_id, owner, conversation, n);

-- A request and what becomes of it. `id` is also the A2A task id.
create table exchanges (
  id            text primary key,
  request_seq   bigint not null unique references messages,
  request_id    text not null,
  -- Who asks. asker: 'm:…' or 'p:…'; asker_agent when it has an inbox here; asker_via: the outbox destination of a foreign asker that is sent answers.
  asker         text not null,
  asker_agent   text references agents,
  asker_owner   text,
  asker_conversation text,
  asker_addr    text not null,
  asker_session integer,
  asker_via     text,
  -- The thread as the asker wrote it: what every answer carries on the wire.
  asker_thread  text not null,
  -- Who is asked. asked: 'm:…' or 'p:…'; asked_agent when it lives here.
  asked         text not null,
  asked_agent   text references agents,
  asked_owner   text,
  asked_conversation text,
  asked_addr    text not null,
  asked_session integer,
  state         text not null check (state in
    ('submitted', 'working', 'input_required', 'auth_required', 'completed', 'failed', 'canceled', 'rejected')),
  -- Machine-readable reason of a failed end.
  reason        text,
  created_at    bigint not null,
  updated_at    bigint not null,
  ended_at      bigint,
  check ((ended_at is not null) = (state in ('completed', 'failed', 'canceled', 'rejected')))
);
create index exchanges_by_asked on exchanges (asked_agent, request_id) where asked_agent is not null;
create index exchanges_by_asker on exchanges (asker, request_id);
