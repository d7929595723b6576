-- What Confer's wire needs of exchanges (confer-wire-facts §3).

-- Which outbox kind carries the answers to a foreign asker, and what that kind needs beside the message; null: an envelope to its gateway.
alter table exchanges add column asker_kind text;
alter table exchanges add column asker_ref text check (length(asker_ref) <= 8192);
-- How a request left that is no envelope and no A2A task: 'confer'. Null for all others, and until it was brought.
alter table exchanges add column asked_via text;

create index exchanges_open_in_thread on exchanges (asker_owner, asked) where ended_at is null and asked_agent is null;
