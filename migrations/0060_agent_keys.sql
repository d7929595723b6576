-- ReplySlip's agents: a name as its owner writes it, and a key of its own.

-- Null: the agent has no other name than its handle. A handle is its name in lower case, and no two names of an org share one.
alter table agents add column display_name text check (length(display_name) between 1 and 100);
create unique index agents_by_display_name on agents (org_id, handle) where display_name is not null;

-- `rsk_` keys, kept as their SHA-256. A further key of an agent ends the one before it.
create table agent_keys (
  id         text primary key,
  agent_id   text not null references agents on delete cascade,
  key_hash   bytea not null unique,
  created_at bigint not null,
  revoked_at bigint
);
create unique index agent_keys_one on agent_keys (agent_id) where revoked_at is null;
