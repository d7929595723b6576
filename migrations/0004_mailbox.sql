-- One message on its way to one agent. Small and hot: removed when acked, so taking costs the same however many messages are stored.
create table deliveries (
  id          bigint generated always as identity primary key,
  agent_id    text not null references agents,
  message_seq bigint not null references messages,
  -- The message's own id and what it replies to, for ack and `reply_to=` takes.
  message_id  text not null,
  reply_to    text,
  -- As this agent sees it: its conversation id, and itself with the session.
  thread      text not null,
  to_addr     text not null,
  session     integer,
  -- Sealed for this node alone (REDSYN "Cifrado de extremo a extremo").
  reserved_for text,
  expires_at  bigint not null,
  -- 0: queued. Past: the lease ended, queued again.
  lease_until bigint not null default 0,
  lease_node  text,
  attempts    integer not null default 0
) with (fillfactor = 70);
create index deliveries_by_agent on deliveries (agent_id, id);
create index deliveries_by_reply on deliveries (agent_id, reply_to) where reply_to is not null;
create index deliveries_by_expiry on deliveries (expires_at);
-- For acks.
create index deliveries_by_message_id on deliveries (agent_id, message_id);
-- An index on lease columns would make each lease rewrite every index entry of the row (no HOT update). Worn-out rows are found by
-- expires_at instead: the tenth lease moves it to the lease's end.
create index deliveries_by_message on deliveries (message_seq);
