-- How agents are woken (replyslip.md "How agents get woken"). An agent without a row is not: it asks for itself.
create table agent_delivery (
  agent_id    text primary key references agents on delete cascade,
  mode        text not null check (mode in ('webhook', 'local')),
  -- Of a webhook: `scheme://host`, and {url, auth} as JSON, sealed for 'delivery:<agent id>'.
  origin      text,
  sealed      bytea,
  -- What reads show of what is sealed, as JSON: last characters, names of header fields.
  shown       text,
  -- Of a local one: the watcher's driver, and its word for where the agent runs.
  driver      text check (length(driver) between 1 and 64),
  target      text check (length(target) between 1 and 200),
  updated_at  bigint not null,
  check (mode <> 'webhook' or (origin is not null and sealed is not null and shown is not null)),
  check (mode <> 'local' or (driver is not null and target is not null))
);

-- One notice to one agent that something waits for it. Which way it goes is asked when it goes. See fn_wakes.sql.
create table wakes (
  id          uuid primary key default gen_random_uuid(),
  agent_id    text not null references agents on delete cascade,
  org_id      text not null references orgs,
  reason      text not null check (reason in ('task', 'message', 'result', 'question', 'failure')),
  task_id     text,
  state       text not null default 'pending' check (state in ('pending', 'done', 'failed')),
  attempts    integer not null default 0,
  -- The next try of a webhook; null while one is in the outbox.
  due_at      bigint,
  -- Handed to a watcher until then.
  lease_until bigint not null default 0,
  last_error  text,
  created_at  bigint not null,
  updated_at  bigint not null
);
create index wakes_pending on wakes (org_id, created_at) where state = 'pending';
create index wakes_of_agent on wakes (agent_id, created_at) where state <> 'done';
create index wakes_due on wakes (due_at) where state = 'pending' and due_at is not null;
create index wakes_ended on wakes (updated_at) where state <> 'pending';

-- `rsw_` keys: poll and ack wakes of an org, and nothing else. Kept as their SHA-256.
create table watcher_keys (
  id         text primary key,
  org_id     text not null references orgs,
  name       text not null check (length(name) between 1 and 200),
  key_hash   bytea not null unique,
  created_by text not null references people,
  created_at bigint not null,
  last_seen  bigint,
  revoked_at bigint
);
create index watcher_keys_by_org on watcher_keys (org_id);
