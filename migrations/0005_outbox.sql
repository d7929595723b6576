-- All that leaves. A row is removed when it was delivered or given up; a row that is here is still owed.
create table outbox (
  id          bigint generated always as identity primary key,
  -- Which sender takes it: 'redsyn' (a message to a linked gateway), 'link' (a link's state), …
  kind        text not null,
  -- The circuit: one dead destination delays nobody else. A domain, mostly.
  destination text not null,
  -- Rows of one lane leave in order.
  lane        text not null,
  message_seq bigint references messages,
  body        text,
  due_at      bigint not null,
  expires_at  bigint not null,
  attempts    integer not null default 0,
  lease_until bigint not null default 0,
  last_error  text,
  created_at  bigint not null
) with (fillfactor = 70);
create index outbox_due on outbox (due_at, id);
create index outbox_by_lane on outbox (lane, id);
create index outbox_by_destination_due on outbox (destination, due_at, id);
create index outbox_leased on outbox (destination, lease_until) where lease_until > 0;
create index outbox_by_message on outbox (message_seq) where message_seq is not null;
create index outbox_by_expiry on outbox (expires_at);

create table circuits (
  destination text primary key,
  failures    integer not null default 0,
  -- Nothing is tried before this time, unless the destination calls first.
  open_until  bigint not null default 0,
  down_since  bigint,
  last_error  text,
  -- 401/403 from the other side: stopped until an operator or the peer acts.
  alert       text
);
