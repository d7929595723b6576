-- Topics and who listens to them (redsyn.md "Tópicos y eventos"), and what cancelling and end-to-end reservation remember.

-- A topic of an org here (org_id), or one behind a link as that link's org here follows it (link_id).
create table topics (
  id         text primary key,
  org_id     text references orgs,
  link_id    text references links on delete cascade,
  team       text not null check (team ~ '^[a-z0-9._-]{1,100}$'),
  name       text not null check (name ~ '^[a-z0-9._-]{1,100}$'),
  -- Behind a link: grows whenever the first agent here begins to listen or the last one ends; the newest that the topic's gateway confirmed.
  rev        bigint not null default 0,
  told_rev   bigint not null default 0,
  -- Why the topic's gateway does not let us listen; null when it does.
  problem    text,
  created_at bigint not null,
  check ((org_id is null) <> (link_id is null)),
  unique (org_id, team, name),
  unique (link_id, team, name)
);

-- An agent here that listens. One that ended keeps its row, so that its history goes on when it listens again.
create table subscriptions (
  topic_id     text not null references topics on delete cascade,
  agent_id     text not null references agents,
  active       boolean not null,
  -- The topic as this agent sees it: a conversation of its owner, and the session that events arrive in; null until the first, and once closed.
  conversation text not null,
  session      integer,
  -- For an agent of another org of this instance: the link of the topic's org that lets it listen.
  link_id      text references links on delete cascade,
  created_at   bigint not null,
  primary key (topic_id, agent_id)
);
create index subscriptions_by_agent on subscriptions (agent_id);

-- A linked org behind another gateway that listens. Its gateway hands on to its agents.
create table topic_links (
  topic_id text not null references topics on delete cascade,
  link_id  text not null references links on delete cascade,
  active   boolean not null,
  -- Of the listening side: older news is ignored.
  rev      bigint not null,
  primary key (topic_id, link_id)
);
create index topic_links_by_link on topic_links (link_id);

-- What must still hold of links when an event is handed out; null for all else. See event_may_pass (fn_topics.sql).
alter table deliveries add column checks text[];
create index deliveries_reserved on deliveries (reserved_for) where reserved_for is not null;

-- The node that sent the request: sealed answers are for it alone.
alter table exchanges add column asker_node text;

-- Whose encryption key a reader was told last: what it seals next is for that node. reader: 'm:<member id>', 'd:<did>'.
create table served_keys (
  agent_id  text not null references agents,
  reader    text not null check (length(reader) <= 700),
  node_id   text not null references nodes,
  served_at bigint not null,
  primary key (agent_id, reader)
);
