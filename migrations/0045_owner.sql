-- What owners decide (confer.md "Modelo de permisos", "Políticas permanentes"; confer-wire-facts §9, §10).

alter table contacts
  add column tags      text[] not null default '{}',
  add column pinned    boolean not null default false,
  add column muted     boolean not null default false,
  add column added_via text not null default 'manual' check (length(added_via) between 1 and 40),
  -- The contact's own policy as its owner wrote it (YAML or JSON); null when there is none.
  add column policy    text check (length(policy) <= 65536);
create index contacts_by_owner on contacts (owner, created_at desc, id desc);

-- A question that waits for the owner of the agent that it is for. The message stands with its exchange; no delivery does.
create table permissions (
  id           text primary key,
  owner        text not null references members,
  agent_id     text not null references agents,
  level        text not null check (level in ('L2', 'L3')),
  action       text not null check (length(action) between 1 and 300),
  -- What it would bring about, one by one (L3).
  effects      text[] not null default '{}',
  -- Every DID that the asker goes by, the narrowest first.
  names        text[] not null check (cardinality(names) > 0),
  peer_domain  text not null,
  -- The link that it came through; null for who came as itself.
  link_id      text,
  -- The first 500 characters of what is asked.
  content      text not null check (length(content) <= 500),
  exchange_id  text not null unique references exchanges on delete cascade,
  expires_at   bigint not null,
  created_at   bigint not null,
  -- Before this no decision counts (L3's countdown).
  decidable_at bigint not null,
  decision     text not null default 'pending'
    check (decision in ('pending', 'allow_once', 'allow_always', 'deny', 'deny_always', 'expired', 'withdrawn')),
  decided_scope text check (decided_scope in ('peer', 'peer_action', 'global')),
  decided_at   bigint,
  check ((decision = 'pending') = (decided_at is null))
);
create index permissions_pending on permissions (owner, created_at desc) where decision = 'pending';
create index permissions_decided on permissions (owner, decided_at desc) where decision <> 'pending';
create index permissions_expiring on permissions (expires_at) where decision = 'pending';

-- What a decision "always" left: `*` is any action, '' any peer.
create table standing_rules (
  id         text not null,
  owner      text not null references members,
  action     text not null check (length(action) between 1 and 300),
  peer_did   text not null,
  decision   text not null check (decision in ('allow', 'deny')),
  created_at bigint not null,
  primary key (owner, peer_did, action)
);

-- An owner's policy as she wrote it: YAML or JSON text, kept whole.
create table standing_policies (
  owner      text primary key references members,
  source     text not null check (length(source) <= 65536),
  updated_at bigint not null
);

-- One owner's own block of a domain: as if everybody there were a blocked contact of hers. An admin's block is of the whole organisation.
create table owner_blocked_domains (
  owner      text not null references members,
  domain     text not null,
  created_at bigint not null,
  primary key (owner, domain)
);
