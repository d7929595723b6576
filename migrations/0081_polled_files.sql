-- The zip of a reply to an asker that is sent nothing but asks for its task (A2A): no row owes it, so its time ends it. Milliseconds.
alter table message_files add column kept_until bigint;
create index message_files_kept on message_files (kept_until) where kept_until is not null and zip is not null;
