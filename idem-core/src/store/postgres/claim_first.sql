-- Claims a key that has no row, or reads a row that needs no lock to be sure of: one that is
-- completed or unknown, or stands for another request. No row is an answer too: ask `claim.sql`.
--
-- Where the row answers, nothing else is done: the insert has no row to begin with.
--
-- $1 lock_timeout · $2 id · $3 owner · $4 fingerprint · $5 lease, ms · $6 ttl, ms · $7 namespace
-- $8 operation · $9 key hint · $10 caller digest · $11 key · $12 caller · $13 takeover, unused here
WITH prior AS MATERIALIZED (
  SELECT r.format, r.state, r.owner = $3 AS own, r.fingerprint = $4 AS same, r.fence, r.attempts,
         NULL::bigint AS lease_left,
         CASE WHEN r.state = 2 AND r.fingerprint = $4 THEN r.status END AS status, r.flags,
         CASE WHEN r.state = 2 AND r.fingerprint = $4 THEN r.headers END AS headers,
         CASE WHEN r.state = 2 AND r.fingerprint = $4 THEN r.body END AS body,
         CASE WHEN r.state = 2 AND r.fingerprint = $4 THEN r.reference END AS reference
  FROM "idem" r
  WHERE r.id = $2 AND r.format = 1 AND r.expires_at > statement_timestamp()
    AND (r.state IN (2, 3) OR r.fingerprint <> $4)
), fresh AS (
  INSERT INTO "idem" (
    id, owner, fence, state, lease_until, expires_at, purge_at, created_at,
    fingerprint, namespace, operation, key_hint, caller_digest, key, caller
  )
  SELECT $2, $3, (extract(epoch FROM statement_timestamp()) * 1000000)::bigint, 1,
         statement_timestamp() + $5::bigint * interval '1 millisecond',
         statement_timestamp() + GREATEST($5::bigint, $6::bigint) * interval '1 millisecond',
         statement_timestamp() + GREATEST($5::bigint, $6::bigint) * interval '1 millisecond',
         statement_timestamp(), $4, $7, $8, $9, $10, $11, $12
  WHERE NOT EXISTS (SELECT 1 FROM prior)
    -- For this statement only, and before the insert can wait.
    AND set_config('lock_timeout', $1, true) IS NOT NULL
  ON CONFLICT (id) DO NOTHING
  RETURNING fence, attempts
)
SELECT 1::smallint AS format, 1::smallint AS state, true AS own, true AS same, fence, attempts,
       NULL::bigint AS lease_left, NULL::smallint AS status, 0::smallint AS flags,
       NULL::bytea AS headers, NULL::bytea AS body, NULL::text AS reference
FROM fresh
UNION ALL
SELECT * FROM prior
