-- Drops expired records, the oldest first. Any number of replicas may do so at once: a row that one
-- of them has locked, or that is being claimed anew, is passed over.
--
-- $1 how many at most · $2 how long they stay after they expired, ms
WITH doomed AS MATERIALIZED (
  SELECT r.id
  FROM "idem" r
  WHERE r.purge_at < statement_timestamp() - $2::bigint * interval '1 millisecond'
    AND r.expires_at < statement_timestamp() - $2 * interval '1 millisecond'
  ORDER BY r.purge_at
  LIMIT $1
  FOR UPDATE SKIP LOCKED
), purged AS (
  DELETE FROM "idem" r USING doomed d WHERE r.id = d.id
  RETURNING 1
)
SELECT count(*) AS purged FROM purged
