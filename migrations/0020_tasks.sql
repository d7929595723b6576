-- What A2A's clients need of exchanges (a2a-conformance §7, §10).

-- The asker's further messages of an exchange that is still open. A reply to any of them ends it.
create table follow_ups (
  exchange_id text not null references exchanges on delete cascade,
  message_seq bigint not null unique references messages,
  agent_id    text not null references agents,
  request_id  text not null,
  primary key (exchange_id, message_seq)
);
create index follow_ups_by_request on follow_ups (agent_id, request_id);

-- Where an asker wants to be told of changes. What authenticates us there is sealed.
create table push_configs (
  exchange_id text not null references exchanges on delete cascade,
  id          text not null check (length(id) between 1 and 256),
  url         text not null check (length(url) <= 2048),
  -- The circuit: the origin of the url.
  destination text not null,
  -- {token, scheme, credentials} as JSON, sealed for 'push:<url>'; null when there is none of them.
  secrets     bytea,
  -- Of whoever registered it: what is sent there is in this form.
  version     text not null check (version in ('1.0', '0.3')),
  created_at  bigint not null,
  primary key (exchange_id, id)
);

-- So that exchanges without either cost nothing more.
alter table exchanges add column is_followed boolean not null default false;
alter table exchanges add column has_push boolean not null default false;
