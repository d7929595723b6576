-- Key pairs that this instance keeps, sealed with GATEHOUSE_SECRET.
-- holder: 'instance', 'owner:<member id>', 'agent:<agent id>'.
create table keys (
  id               text primary key,
  holder           text not null,
  -- The verification method id as published. Stored, never recomputed (confer.md "Resolución del DID de un usuario").
  method_id        text not null unique,
  public_multibase text not null,
  sealed_seed      bytea not null,
  -- pending: listed, not signing yet · active: signs · retired: listed until `listed_until`
  state            text not null check (state in ('pending', 'active', 'retired')),
  created_at       bigint not null,
  active_from      bigint not null,
  listed_until     bigint,
  check ((state = 'retired') = (listed_until is not null))
);
create index keys_by_holder on keys (holder);
create unique index keys_one_active on keys (holder) where state = 'active';
create index keys_by_public on keys (public_multibase);
