-- The zips of messages, beside the messages: what is delivered names their size and hash, and the zip is fetched apart (redsyn.md "El sobre").

create table message_files (
  seq    bigint primary key references messages on delete cascade,
  -- The message's own id.
  id     text not null,
  bytes  integer not null check (bytes > 0),
  sha256 text not null,
  -- Whose space it takes while it waits: 'out:<org>' of the org here that sent it, 'in:<org>' of the one that gets it from elsewhere.
  payer  text not null,
  -- Null once it was delivered, or will not be.
  zip    bytea
);
create index message_files_by_id on message_files (id);
-- Summed at each message with files; nothing is counted in a row of its own, which every sender would have to wait for.
create index message_files_waiting on message_files (payer) include (bytes) where zip is not null;
-- Already compressed.
alter table message_files alter column zip set storage external;

-- Set in the transaction that accepts, for messages with files alone: all others cost no trigger.
alter table deliveries add column has_files boolean not null default false;
alter table outbox add column has_files boolean not null default false;

-- "Los archivos quedan en el relay solo hasta que se entregan": they go with the last row that still owed them, whoever removed it and why.
create function drop_files() returns trigger language plpgsql as $$
begin
  -- Two who remove the last two rows at once see each other's work only one after the other.
  perform 1 from message_files f where f.seq = old.message_seq for update;
  update message_files f set zip = null
    where f.seq = old.message_seq and f.zip is not null
      and not exists (select from deliveries d where d.message_seq = old.message_seq)
      and not exists (select from outbox o where o.message_seq = old.message_seq);
  return null;
end $$;
create trigger deliveries_drop_files after delete on deliveries for each row when (old.has_files) execute function drop_files();
create trigger outbox_drop_files after delete on outbox for each row when (old.has_files) execute function drop_files();
