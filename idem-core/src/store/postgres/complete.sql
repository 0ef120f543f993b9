-- Stores an outcome: in the row of its owner, or in a new one where none is alive.
--
-- Always one row. Where nothing was stored, it tells what this statement saw; a row that says it
-- should have been stored changed meanwhile, and the statement is to be sent again.
--
-- $1 lock_timeout · $2 id · $3 owner · $4 fingerprint · $5 ttl, ms · $6 namespace · $7 operation
-- $8 key hint · $9 caller digest · $10 key · $11 caller · $12 status · $13 flags · $14 headers
-- $15 body · $16 reference · $17 fence, if it is known · $18 attempt, if it is known
WITH limits AS MATERIALIZED (
  SELECT set_config('lock_timeout', $1, true) AS lock_timeout
), stored AS (
  UPDATE "idem" r
  SET state = 2, status = $12, flags = $13, headers = $14, body = $15, reference = $16,
      completed_at = statement_timestamp(), lease_until = statement_timestamp(),
      expires_at = statement_timestamp() + $5::bigint * interval '1 millisecond',
      -- An unknown record was to be kept for longer.
      purge_at = CASE WHEN r.state = 3
        THEN statement_timestamp() + $5 * interval '1 millisecond'
        ELSE r.purge_at END
  FROM limits
  WHERE limits.lock_timeout IS NOT NULL
    AND r.id = $2 AND r.owner = $3 AND r.state IN (1, 3)
    AND r.format = 1 AND r.expires_at > statement_timestamp()
  RETURNING 1
), alive AS (
  SELECT r.format, r.state, r.owner
  FROM "idem" r
  WHERE r.id = $2 AND (r.format <> 1 OR r.expires_at > statement_timestamp())
), restored AS (
  INSERT INTO "idem" AS t (
    id, owner, fence, state, attempts, lease_until, expires_at, purge_at, created_at, completed_at,
    fingerprint, namespace, operation, key_hint, caller_digest, key, caller,
    status, flags, headers, body, reference
  )
  SELECT $2, $3,
         COALESCE($17, (extract(epoch FROM statement_timestamp()) * 1000000)::bigint),
         2, COALESCE($18, 1), statement_timestamp(),
         statement_timestamp() + $5::bigint * interval '1 millisecond',
         statement_timestamp() + $5::bigint * interval '1 millisecond',
         statement_timestamp(), statement_timestamp(),
         $4, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16
  FROM limits
  WHERE limits.lock_timeout IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM stored) AND NOT EXISTS (SELECT 1 FROM alive)
  ON CONFLICT (id) DO UPDATE SET
    owner = excluded.owner, fence = excluded.fence, state = excluded.state,
    attempts = excluded.attempts, lease_until = excluded.lease_until,
    expires_at = excluded.expires_at, purge_at = excluded.purge_at,
    created_at = excluded.created_at, completed_at = excluded.completed_at,
    fingerprint = excluded.fingerprint, namespace = excluded.namespace,
    operation = excluded.operation, key_hint = excluded.key_hint,
    caller_digest = excluded.caller_digest, key = excluded.key, caller = excluded.caller,
    status = excluded.status, flags = excluded.flags, headers = excluded.headers,
    body = excluded.body, reference = excluded.reference
  WHERE t.format = 1 AND t.expires_at <= statement_timestamp()
  RETURNING 1
)
SELECT EXISTS (SELECT 1 FROM stored) AS stored, EXISTS (SELECT 1 FROM restored) AS restored,
       a.format, a.state, a.owner = $3 AS own
FROM (SELECT 1) one LEFT JOIN alive a ON true
