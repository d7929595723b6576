-- A link as one org here sees it. Each side wants it or not; it is active while both do. Between two orgs of one instance there are two rows.
create table links (
  id          text primary key,
  org_id      text not null references orgs,
  -- How the peer org is written here: its own handle, or its domain where that handle is taken or not yet known.
  peer_handle text not null check (peer_handle ~ '^[a-z0-9._-]{1,255}$'),
  -- The peer's authority (host or host:port), or null for an org of this instance.
  peer_domain text,
  -- The domain with `:` written `-`, when the peer org is the primary one there: its other name.
  peer_alias  text,
  -- What the peer org calls itself; null until it told us.
  peer_org    text,
  peer_org_id text references orgs,
  -- The revision at which that side's admin said yes; 0 while it does not want the link.
  our_want    bigint not null default 0,
  their_want  bigint not null default 0,
  -- The newest of their wants that was ended here: told late, it no longer counts.
  voided      bigint not null default 0,
  -- Our state's revision, the newest of theirs that we took (older news is ignored), and the newest of ours that they confirmed.
  our_rev     bigint not null default 0,
  their_rev   bigint not null default 0,
  told_rev    bigint not null default 0,
  signed_only boolean not null default true,
  ips         text[] not null default '{}',
  -- What they told of their own rules, as JSON text; shown, not applied.
  their_rules text not null default '{}',
  -- How the peer writes this org, when it is not by its handle.
  known_as    text,
  -- Why the peer could not be told last time; null when it was.
  problem     text,
  created_at  bigint not null,
  updated_at  bigint not null,
  unique (org_id, peer_handle),
  unique (org_id, peer_alias),
  unique (org_id, peer_domain, peer_org),
  unique (org_id, peer_org_id),
  check ((peer_domain is null) <> (peer_org_id is null)),
  check (peer_alias is not null or peer_org is not null or peer_org_id is not null)
);
create index links_by_domain on links (peer_domain) where peer_domain is not null;

create table link_exposures (
  link_id text not null references links on delete cascade,
  side    text not null check (side in ('ours', 'theirs')),
  kind    text not null check (kind in ('agent', 'pub', 'sub')),
  pattern text not null check (length(pattern) between 1 and 400),
  primary key (link_id, side, kind, pattern)
);

-- Every change, as both sides may read it. Ids are their writer's own, so they are unique per side.
create table link_log (
  link_id text not null references links on delete cascade,
  side    text not null check (side in ('ours', 'theirs')),
  id      text not null check (length(id) between 1 and 64),
  at      bigint not null,
  -- The person's handle in the org of that side.
  by      text not null,
  what    text not null,
  detail  text not null default '{}' check (length(detail) <= 2000),
  primary key (link_id, side, id)
);
create index link_log_by_time on link_log (link_id, side, at desc);

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
  unique (owner, peer_did),
  check ((decision = 'pending') = (decided_at is null))
);
create index connection_requests_pending on connection_requests (owner, created_at desc) where decision = 'pending';

-- An admin's block of a whole domain closes both doors.
create table blocked_domains (
  org_id     text not null references orgs,
  domain     text not null,
  created_at bigint not null,
  primary key (org_id, domain)
);
