-- What registers one agent, once (replyslip.md "Register with a join code"). Kept as its SHA-256.
create table join_codes (
  id         text primary key,
  org_id     text not null references orgs,
  -- Whose the agent will be, and in which of her teams.
  member_id  text not null references members,
  team_id    text not null references teams,
  code_hash  bytea not null unique,
  created_at bigint not null,
  expires_at bigint not null,
  revoked_at bigint,
  used_at    bigint,
  agent_id   text references agents,
  check ((used_at is null) = (agent_id is null)),
  check (used_at is null or revoked_at is null)
);
create index join_codes_by_org on join_codes (org_id, created_at desc);
