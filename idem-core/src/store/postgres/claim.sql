-- Claims a key, or says what is there: always exactly one row.
--
-- A conflicting row that was committed after this statement began is invisible to `prior`, but
-- ON CONFLICT DO UPDATE locks and sees its newest version. So `won` decides again on that version,
-- and writes either the claim or the row as it is: what it returns is the truth.
--
-- $1 lock_timeout · $2 id · $3 owner · $4 fingerprint · $5 lease, ms · $6 ttl, ms · $7 namespace
-- $8 operation · $9 key hint · $10 caller digest · $11 key · $12 caller · $13 takeover
WITH limits AS MATERIALIZED (
  -- For this statement only. The insert reads it, so that it is set before the insert can wait.
  SELECT set_config('lock_timeout', $1, true) AS lock_timeout
), prior AS (
  -- What a claim leaves as it is, seen without a lock and without a write.
  SELECT r.*
  FROM "idem" r
  WHERE r.id = $2
    AND (r.format <> 1
      OR r.expires_at > statement_timestamp()
        AND (r.fingerprint <> $4
          OR r.state NOT IN (0, 1)
          OR r.state = 1 AND r.owner <> $3
            AND (r.lease_until > statement_timestamp() OR NOT $13::boolean)))
), won AS (
  INSERT INTO "idem" AS t (
    id, owner, fence, state, attempts, lease_until, expires_at, purge_at, created_at,
    fingerprint, namespace, operation, key_hint, caller_digest, key, caller
  )
  SELECT $2, $3, (extract(epoch FROM statement_timestamp()) * 1000000)::bigint, 1, 1,
         statement_timestamp() + $5::bigint * interval '1 millisecond',
         statement_timestamp() + GREATEST($5::bigint, $6::bigint) * interval '1 millisecond',
         statement_timestamp() + GREATEST($5::bigint, $6::bigint) * interval '1 millisecond',
         statement_timestamp(), $4, $7, $8, $9, $10, $11, $12
  FROM limits
  WHERE limits.lock_timeout IS NOT NULL AND NOT EXISTS (SELECT 1 FROM prior)
  ON CONFLICT (id) DO UPDATE SET (
    owner, fence, state, attempts, lease_until, expires_at, purge_at, created_at, completed_at,
    namespace, operation, key_hint, caller_digest, key, caller,
    fingerprint, status, flags, headers, body, reference
  ) = (
    -- A new record in the place of an expired one.
    SELECT excluded.owner, GREATEST(t.fence + 1, excluded.fence), excluded.state, 1,
           excluded.lease_until, excluded.expires_at, excluded.purge_at, excluded.created_at,
           NULL::timestamptz, excluded.namespace, excluded.operation, excluded.key_hint,
           excluded.caller_digest, excluded.key, excluded.caller,
           excluded.fingerprint, NULL::smallint, 0::smallint, NULL::bytea, NULL::bytea, NULL::text
    WHERE t.format = 1 AND t.expires_at <= statement_timestamp()
    UNION ALL
    -- The next attempt: the last one was released, or its lease lapsed.
    SELECT excluded.owner, GREATEST(t.fence + 1, excluded.fence), excluded.state, t.attempts + 1,
           excluded.lease_until, excluded.expires_at, excluded.purge_at, t.created_at,
           NULL, t.namespace, t.operation, t.key_hint, t.caller_digest, t.key, t.caller,
           t.fingerprint, NULL, 0, NULL, NULL, NULL
    WHERE t.format = 1 AND t.expires_at > statement_timestamp() AND t.fingerprint = $4
      AND (t.state = 0
        OR t.state = 1 AND t.owner <> $3 AND t.lease_until <= statement_timestamp() AND $13)
    UNION ALL
    -- The claim of an owner whose reply was lost: the same attempt, whose lease counts from now.
    SELECT t.owner, t.fence, t.state, t.attempts,
           GREATEST(t.lease_until, excluded.lease_until),
           GREATEST(t.expires_at, excluded.lease_until), t.purge_at, t.created_at,
           t.completed_at, t.namespace, t.operation, t.key_hint, t.caller_digest, t.key, t.caller,
           t.fingerprint, t.status, t.flags, t.headers, t.body, t.reference
    WHERE t.format = 1 AND t.expires_at > statement_timestamp() AND t.fingerprint = $4
      AND t.state = 1 AND t.owner = $3
    UNION ALL
    -- Anything else stays as it is.
    SELECT t.owner, t.fence, t.state, t.attempts, t.lease_until, t.expires_at, t.purge_at,
           t.created_at, t.completed_at, t.namespace, t.operation, t.key_hint, t.caller_digest,
           t.key, t.caller, t.fingerprint, t.status, t.flags, t.headers, t.body, t.reference
    WHERE t.format <> 1
       OR t.expires_at > statement_timestamp()
         AND (t.fingerprint <> $4
           OR t.state NOT IN (0, 1)
           OR t.state = 1 AND t.owner <> $3
             AND (t.lease_until > statement_timestamp() OR NOT $13))
  )
  RETURNING t.*
), found AS (
  SELECT * FROM won UNION ALL SELECT * FROM prior
)
SELECT f.format, f.state, f.owner = $3 AS own, f.fingerprint = $4 AS same, f.fence, f.attempts,
       (extract(epoch FROM f.lease_until - statement_timestamp()) * 1000000)::bigint AS lease_left,
       CASE WHEN f.state = 2 AND f.fingerprint = $4 THEN f.status END AS status, f.flags,
       CASE WHEN f.state = 2 AND f.fingerprint = $4 THEN f.headers END AS headers,
       CASE WHEN f.state = 2 AND f.fingerprint = $4 THEN f.body END AS body,
       CASE WHEN f.state = 2 AND f.fingerprint = $4 THEN f.reference END AS reference
FROM found f
