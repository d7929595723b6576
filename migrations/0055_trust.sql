-- Trust between did:keys (muretai.md, muretai-wire-facts §9 to §12). Whom an owner lets in is a contact (0006); here is what her agents know beside it.

-- What an agent's owner decided about strangers; without a row the defaults hold.
create table trust_settings (
  agent_id text primary key references agents,
  connect  text not null default 'filtered' check (connect in ('filtered', 'open', 'closed')),
  -- Who may ask for the standing of a third party.
  privacy  text not null default 'self' check (privacy in ('self', 'trusted', 'public'))
);

-- What is known of a did:key that asked to be let in or was: where it is reached, as it says, and what the owner says of it.
create table trust_peers (
  agent_id   text not null references agents,
  did        text not null check (length(did) <= 512),
  name       text not null default '' check (length(name) <= 200),
  url        text check (length(url) <= 1024),
  relay      text check (length(relay) <= 1024),
  enc_pub    text check (enc_pub ~ '^[0-9a-f]{64}$'),
  -- Thousandths. Only the owner changes these two; who has an expertise may be named in a referral.
  level      integer not null default 1000 check (level between 0 and 1000),
  expertise  text[] not null default '{}',
  updated_at bigint not null,
  primary key (agent_id, did)
);

-- Introductions that agents here issued.
create table introductions_issued (
  id            text primary key,
  agent_id      text not null references agents,
  subject       text not null,
  introduced_to text not null,
  -- As it was signed.
  credential    text not null,
  valid_until   bigint not null,
  created_at    bigint not null,
  revoked_at    bigint
);
create index introductions_issued_by_agent on introductions_issued (agent_id, created_at desc);

-- Introductions that were presented to an agent here and verified. Ids are their issuers' own.
create table introductions_held (
  agent_id    text not null references agents,
  issuer      text not null check (length(issuer) <= 512),
  id          text not null check (length(id) <= 64),
  subject     text not null check (length(subject) <= 512),
  level       integer not null check (level between 0 and 1000),
  expertise   text[] not null,
  endpoint    text,
  valid_until bigint not null,
  created_at  bigint not null,
  -- When its issuer last said that it stands; null while it could not be asked.
  checked_at  bigint,
  -- By its issuer, or by the owner here.
  revoked_at  bigint,
  primary key (agent_id, issuer, id)
);
create index introductions_held_by_subject on introductions_held (agent_id, subject) where revoked_at is null;

-- Invitations: the value is worth mutual trust, once.
create table trust_invites (
  id         text primary key,
  agent_id   text not null references agents,
  nonce_hash bytea not null unique,
  purpose    text not null default '' check (length(purpose) <= 200),
  created_at bigint not null,
  expires_at bigint not null,
  spent_by   text,
  spent_at   bigint,
  revoked_at bigint,
  check ((spent_by is null) = (spent_at is null))
);
create index trust_invites_by_agent on trust_invites (agent_id, created_at desc);

-- Whom agents here asked: an acceptance counts only from one of these.
create table trust_asked (
  agent_id   text not null references agents,
  did        text not null check (length(did) <= 512),
  method     text not null check (method in ('connect/request', 'onboard/claim')),
  state      text not null default 'pending' check (state in ('pending', 'connected', 'declined', 'failed')),
  problem    text check (length(problem) <= 500),
  created_at bigint not null,
  updated_at bigint not null,
  primary key (agent_id, did)
);
