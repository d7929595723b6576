-- Agents whose messages are pushed (redsyn.md "Webhooks"). A delivery stays a row of `deliveries`: see fn_push.sql.

create table webhooks (
  agent_id      text primary key references agents on delete cascade,
  org_id        text not null references orgs,
  url           text not null check (length(url) between 1 and 2000),
  -- Where it goes, to bound what is under way to one place: host or host:port.
  host          text not null,
  -- Sealed with GATEHOUSE_SECRET for 'webhook:<agent id>'.
  secret        bytea not null,
  created_at    bigint not null,
  -- What the last delivery that was not accepted met, for the owner; null after one that was.
  last_error    text,
  last_error_at bigint
);
create index webhooks_by_org on webhooks (org_id);
