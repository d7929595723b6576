-- Agents that a model answers for (adapter `model`), and what they may look into. Times in milliseconds.

create index agents_by_model on agents (id) where adapter = 'model';

create table models (
  agent_id      text primary key references agents,
  provider      text not null,
  -- '': the provider's own.
  base_url      text not null,
  model         text not null,
  -- Sealed under GATEHOUSE_SECRET for this very row; null when the owner gave none.
  key           bytea,
  key_last4     text,
  system        text not null,
  -- Of one answer.
  max_tokens    integer not null,
  streams       boolean not null,
  remembers     boolean not null,
  search_url    text not null,
  search_key    bytea,
  search_last4  text,
  -- What its owner is told of the last turn that failed.
  last_error    text,
  last_error_at bigint,
  updated_at    bigint not null
);

create table knowledge_bases (
  id                text primary key,
  owner             text not null references members,
  name              text not null check (length(name) between 1 and 100),
  -- Only then may an answer to somebody else draw on it.
  shared_with_peers boolean not null default false,
  created_at        bigint not null,
  unique (owner, name)
);

create table knowledge_documents (
  id         text primary key,
  base_id    text not null references knowledge_bases on delete cascade,
  name       text not null check (length(name) between 1 and 300),
  url        text,
  bytes      integer not null,
  updated_at bigint not null,
  unique (base_id, name)
);

-- words: of the text as src/model/words.ts reads it, so that what is stored and what is asked meet.
create table knowledge_chunks (
  document_id text not null references knowledge_documents on delete cascade,
  n           integer not null,
  place       text not null,
  text        text not null,
  words       tsvector not null,
  primary key (document_id, n)
);
create index knowledge_chunks_by_words on knowledge_chunks using gin (words);

-- What was learnt in turns. origin 'peer': somebody else said it; it is shown as that, and to the owner alone.
create table memories (
  id         text primary key,
  owner      text not null references members,
  origin     text not null check (origin in ('owner', 'peer')),
  source     text not null,
  text       text not null check (length(text) between 1 and 1000),
  words      tsvector not null,
  created_at bigint not null
);
create unique index memories_once on memories (owner, origin, md5(text));
create index memories_by_owner on memories (owner, created_at, id);
create index memories_by_words on memories using gin (words);
