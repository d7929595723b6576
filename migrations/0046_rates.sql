-- What each peer domain sent in a minute, on all replicas together. Not logged: after a crash the minute begins anew. Spread over shards, so
-- that replicas do not queue on one row.
create unlogged table rate_windows (
  key    text not null check (length(key) <= 300),
  minute integer not null,
  shard  smallint not null,
  used   integer not null,
  primary key (key, minute, shard)
);
