-- Who exists here. Times are milliseconds since 1970, from the gateway's clock.

create table orgs (
  id          text primary key,
  handle      text not null unique check (handle ~ '^[a-z0-9._-]{1,100}$'),
  is_primary  boolean not null default false,
  -- REDSYN "Versiones": without the header, the date that was current when the org was created rules.
  api_version text not null,
  plan        text not null check (plan in ('free', 'pro', 'enterprise')),
  created_by  text,
  created_at  bigint not null
);
create unique index orgs_one_primary on orgs (is_primary) where is_primary;

create table people (
  id          text primary key,
  email       text unique check (email = lower(email)),
  -- May do what the instance's operator may.
  is_operator boolean not null default false,
  -- An operator's invitation stood for the e-mail address: only then do invitations to that address reach this person by themselves.
  is_vouched  boolean not null default false,
  created_at  bigint not null
);

-- A person in an org, with a handle there. A member is the "owner" of agents and threads: the unit of consent and of did:web identity.
create table members (
  id         text primary key,
  org_id     text not null references orgs,
  person_id  text not null references people,
  handle     text not null check (handle ~ '^[a-z0-9._-]{1,100}$'),
  role       text not null check (role in ('admin', 'member')),
  created_at bigint not null,
  unique (org_id, handle),
  unique (org_id, person_id)
);
create index members_by_person on members (person_id);

create table teams (
  id         text primary key,
  org_id     text not null references orgs,
  handle     text not null check (handle ~ '^[a-z0-9._-]{1,100}$'),
  created_at bigint not null,
  unique (org_id, handle)
);

create table team_members (
  team_id   text not null references teams,
  member_id text not null references members,
  primary key (team_id, member_id)
);
create index team_members_by_member on team_members (member_id);

-- One invitation: its code logs one person in once; her e-mail address may then join the org once.
create table invites (
  id         text primary key,
  org_id     text not null references orgs,
  team_id    text not null references teams,
  email      text not null check (email = lower(email)),
  code_hash  bytea not null unique,
  invited_by text not null references people,
  created_at bigint not null,
  expires_at bigint not null,
  used_at    bigint,
  joined_at  bigint
);
create index invites_by_email on invites (email) where joined_at is null;

-- A machine or a server that speaks for all agents of its person. The token is kept as its SHA-256.
create table nodes (
  id         text primary key,
  person_id  text not null references people,
  name       text not null check (length(name) between 1 and 200),
  token_hash bytea not null unique,
  created_at bigint not null,
  revoked_at bigint,
  public_key text,
  enc_key    text,
  enc_sig    text,
  key_set_at bigint
);
create index nodes_by_person on nodes (person_id);

create table agents (
  id             text primary key,
  org_id         text not null references orgs,
  team_id        text not null references teams,
  member_id      text not null references members,
  handle         text not null check (handle ~ '^[a-z0-9._-]{1,100}$'),
  description    text not null default '',
  adapter        text not null default '',
  -- JSON text: skills, languages, room axes and what else an announcement says about the agent.
  profile        text not null default '{}',
  allow          text[] not null default '{}',
  trust          text not null default 'none' check (trust in ('none', 'full')),
  signed_only    boolean not null default false,
  encrypted_only boolean not null default false,
  is_default     boolean not null default false,
  is_front_desk  boolean not null default false,
  -- An admin lists it in /.well-known/agents.json even where its policy does not say `anyone`.
  is_listed      boolean not null default false,
  created_at     bigint not null,
  updated_at     bigint not null,
  unique (team_id, member_id, handle),
  -- REDSYN "Agentes y presencia": full trust demands `allow` and signed requests.
  check (trust = 'none' or (signed_only and cardinality(allow) > 0))
);
create unique index agents_one_default on agents (member_id) where is_default;
create unique index agents_one_front_desk on agents (is_front_desk) where is_front_desk;
create index agents_by_member on agents (member_id);
create index agents_by_org on agents (org_id);

-- The hot row of an agent: presence, the session counter, and the lock that keeps takes of one agent in order.
create table mailboxes (
  agent_id      text primary key references agents,
  last_seen     bigint not null default 0,
  node_id       text,
  next_session  integer not null default 1
) with (fillfactor = 50);
