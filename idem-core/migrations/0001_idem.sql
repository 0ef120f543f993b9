-- The table of `idem`, for PostgreSQL 13 or later.
--
-- `PostgresStore::migrate` runs this file. It can be given to any other migration tool as it is. For
-- a table of another name, replace "idem" and the names that begin with "idem_.
CREATE TABLE IF NOT EXISTS "idem" (
  id            bytea       NOT NULL,            -- digest of namespace, caller, operation and key
  format        smallint    NOT NULL DEFAULT 1,  -- how the row is to be read; others are left alone
  owner         uuid        NOT NULL,            -- who holds the record, a random value
  fence         bigint      NOT NULL,            -- grows with each claim: microseconds, or one more
  state         smallint    NOT NULL,            -- 0 released, 1 in progress, 2 completed, 3 unknown
  attempts      integer     NOT NULL DEFAULT 1,
  lease_until   timestamptz NOT NULL,
  expires_at    timestamptz NOT NULL,            -- not indexed, so that completing is a HOT update
  purge_at      timestamptz NOT NULL,            -- indexed, and not written by most completions
  created_at    timestamptz NOT NULL,
  completed_at  timestamptz,
  fingerprint   bytea       NOT NULL,            -- version byte and digest of the request
  namespace     text        NOT NULL,
  operation     text        NOT NULL,
  key_hint      text,                            -- the ends of a long key
  caller_digest bytea       NOT NULL,            -- equal for the records of one caller
  key           text,                            -- only where the application asks for it
  caller        text,                            -- only where the application asks for it
  status        smallint,
  flags         smallint    NOT NULL DEFAULT 0,  -- bit 0: the body was not kept
  headers       bytea,
  body          bytea,
  reference     text,                            -- what the handler called the thing that it made
  CONSTRAINT "idem_pk" PRIMARY KEY (id),
  CONSTRAINT "idem_id_len" CHECK (octet_length(id) = 32),
  CONSTRAINT "idem_state" CHECK (state BETWEEN 0 AND 3),
  CONSTRAINT "idem_done" CHECK (
    state <> 2 OR (status IS NOT NULL AND headers IS NOT NULL AND body IS NOT NULL)
  )
) WITH (
  -- Room in each page for the completion of its rows.
  fillfactor = 70,
  -- A table that shrank to a few pages would be read without its key, by statements that stay so
  -- planned while it grows again. Cutting it would lock it, too.
  vacuum_truncate = false,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_analyze_threshold = 1000,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_insert_scale_factor = 0.2
);

CREATE INDEX IF NOT EXISTS "idem_purge" ON "idem" (purge_at);
