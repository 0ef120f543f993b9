-- Carries out an operator's decision on a record, which stays: always one row, as with
-- `complete.sql`.
--
-- $1 lock_timeout · $2 id · $3 the fence that it must have · $4 the new owner, who is nobody
-- $5 the new state · $6 ttl, ms, if it is to change · $7 status · $8 flags · $9 headers · $10 body
-- $11 reference
WITH limits AS MATERIALIZED (
  SELECT set_config('lock_timeout', $1, true) AS lock_timeout
), resolved AS (
  UPDATE "idem" r
  SET owner = $4, fence = r.fence + 1, state = $5, lease_until = statement_timestamp(),
      expires_at = COALESCE(
        statement_timestamp() + $6::bigint * interval '1 millisecond', r.expires_at),
      purge_at = COALESCE(
        statement_timestamp() + $6 * interval '1 millisecond', r.purge_at),
      completed_at = CASE WHEN $5 = 2 THEN statement_timestamp() END,
      status = $7, flags = $8, headers = $9, body = $10, reference = $11
  FROM limits
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
