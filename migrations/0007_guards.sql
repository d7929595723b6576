-- Proofs seen within their window: the same bytes twice are a replay.
create table seen_proofs (
  proof      bytea primary key,
  expires_at bigint not null
);
create index seen_proofs_by_expiry on seen_proofs (expires_at);

-- Messages per org and UTC day, spread over shards so that senders do not queue on one row.
create table quota_days (
  org_id text not null references orgs,
  day    integer not null,
  shard  smallint not null,
  used   integer not null,
  primary key (org_id, day, shard)
);
