-- Carries out an operator's decision to forget a record: always one row, as with `complete.sql`.
--
-- $1 lock_timeout · $2 id · $3 the fence that it must have
WITH limits AS MATERIALIZED (
  SELECT set_config('lock_timeout', $1, true) AS lock_timeout
), resolved AS (
  DELETE FROM "idem" r
  USING limits
  WHERE limits.lock_timeout IS NOT NULL
    AND r.id = $2 AND r.fence = $3
    AND r.format = 1 AND r.expires_at > statement_timestamp()
  RETURNING 1
)
SELECT EXISTS (SELECT 1 FROM resolved) AS resolved, r.format, r.fence,
       r.fence = $3 AS expected
FROM (SELECT 1) one
LEFT JOIN "idem" r
  ON r.id = $2 AND (r.format <> 1 OR r.expires_at > statement_timestamp())
