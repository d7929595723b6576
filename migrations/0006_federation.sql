-- A link as one org here sees it. Each side wants it or not; it is active while both do. Between two orgs of one instance there are two rows.
create table links (
  id          text primary key,
  org_id      text not null references orgs,
  peer_handle text not null,
  -- The peer's authority (host or host:port), or null for an org of this instance.
  peer_domain text,
  peer_org_id text references orgs,
  we_want     boolean not null default false,
  they_want   boolean not null default false,
  ended       boolean not null default false,
  -- Our state's number, and the newest of theirs that we took: older news is ignored.
  our_rev     bigint not null default 0,
  their_rev   bigint not null default 0,
  signed_only boolean not null default true,
  ips         text[] not null default '{}',
  -- What they told of their own rules, as JSON text; shown, not applied.
  their_rules text not null default '{}',
  created_at  bigint not null,
  updated_at  bigint not null,
  unique (org_id, peer_handle),
  unique (org_id, peer_domain),
  check ((peer_domain is null) <> (peer_org_id is null))
);

create table link_exposures (
  link_id text not null references links,
  side    text not null check (side in ('ours', 'theirs')),
  kind    text not null check (kind in ('agent', 'pub', 'sub')),
  pattern text not null check (length(pattern) between 1 and 400),
  primary key (link_id, side, kind, pattern)
);

create table link_log (
  id      text primary key,
  link_id text not null references links,
  at      bigint not null,
  -- Who did it, as both sides may read it: an org's handle and a person's.
  by      text not null,
  what    text not null,
  detail  text not null default '{}'
);
create index link_log_by_link on link_log (link_id, at desc);

-- The owner's consent for one foreign DID (agent or signer).
create table contacts (
  id         text primary key,
  owner      text not null references members,
  peer_id    text not null references peers,
  alias      text,
  blocked    boolean not null default false,
  created_at bigint not null,
  unique (owner, peer_id)
);

-- A stranger costs one row per owner, whatever it sends.
create table connection_requests (
  id           text primary key,
  owner        text not null references members,
  peer_did     text not null,
  peer_domain  text not null,
  agent_id     text references agents,
  first_message text not null check (length(first_message) <= 500),
  decision     text not null default 'pending' check (decision in ('pending', 'allowed', 'denied')),
  created_at   bigint not null,
  decided_at   bigint,
  unique (owner, peer_did)
);

-- An admin's block of a whole domain closes both doors.
create table blocked_domains (
  org_id     text not null references orgs,
  domain     text not null,
  created_at bigint not null,
  primary key (org_id, domain)
);
