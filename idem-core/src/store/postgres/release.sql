-- Gives a claim up: always one row, as with `complete.sql`.
--
-- $1 lock_timeout · $2 id · $3 owner · $4 how: 0 bound, 1 forget, 2 undo, 3 unknown
-- $5 how long an unknown one is kept, ms
WITH limits AS MATERIALIZED (
  SELECT set_config('lock_timeout', $1, true) AS lock_timeout
), forgotten AS (
  DELETE FROM "idem" r
  USING limits
  WHERE limits.lock_timeout IS NOT NULL
    AND r.id = $2 AND r.owner = $3 AND r.state = 1
    AND r.format = 1 AND r.expires_at > statement_timestamp()
    AND ($4::smallint = 1 OR $4 = 2 AND r.attempts = 1)
  RETURNING 1
), released AS (
  UPDATE "idem" r
  SET state = CASE WHEN $4 = 3 THEN 3 ELSE 0 END,
      lease_until = statement_timestamp(),
      expires_at = CASE WHEN $4 = 3
        THEN statement_timestamp() + $5::bigint * interval '1 millisecond'
        ELSE r.expires_at END,
      purge_at = CASE WHEN $4 = 3
        THEN statement_timestamp() + $5 * interval '1 millisecond'
        ELSE r.purge_at END
  FROM limits
  WHERE limits.lock_timeout IS NOT NULL
    AND r.id = $2 AND r.owner = $3 AND r.state = 1
    AND r.format = 1 AND r.expires_at > statement_timestamp()
    AND NOT ($4 = 1 OR $4 = 2 AND r.attempts = 1)
  RETURNING 1
)
SELECT EXISTS (SELECT 1 FROM forgotten) OR EXISTS (SELECT 1 FROM released) AS released,
       r.format, r.state, r.owner = $3 AS own
FROM (SELECT 1) one
LEFT JOIN "idem" r
  ON r.id = $2 AND (r.format <> 1 OR r.expires_at > statement_timestamp())
