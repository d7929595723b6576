-- Requests to agents on A2A servers that are no linked gateways, and the tasks that they became there.

create table remote_tasks (
  exchange_id  text primary key references exchanges on delete cascade,
  -- Whose key signs, and in which of her threads it was asked; whom, as exchanges have it.
  owner        text not null,
  thread       text not null,
  agent        text not null,
  destination  text not null,
  -- The did:web or the URL of a card by which it was asked.
  card         text not null,
  -- Where and how it is spoken to, as JSON: the interface that was chosen from the card.
  endpoint     text not null,
  -- Null until the server has named them; a server that answered with a message has no task.
  task_id      text check (length(task_id) <= 512),
  context_id   text check (length(context_id) <= 512),
  state        text not null,
  -- A process waits for the answer to the send itself until then, and moves this on while it does.
  held_until   bigint not null default 0,
  -- The push URL's last segment, and the SHA-256 of its token.
  push_id      text unique,
  push_token   text,
  pushed_at    bigint not null default 0,
  -- What events have told of the task so far, as JSON.
  snapshot     text,
  -- Keys of what the asker was told already.
  told         text[] not null default '{}',
  -- The exchange whose request went on with this task: it is told the rest.
  continued_by text references remote_tasks on delete set null,
  created_at   bigint not null,
  ended_at     bigint
);
create index remote_tasks_by_thread on remote_tasks (owner, thread, agent, created_at desc);
create index remote_tasks_continued on remote_tasks (continued_by) where continued_by is not null;
