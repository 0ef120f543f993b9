-- Extends leases: one row for each that was asked for, in that order.
--
-- A row that somebody else has locked is left out and not waited for, so that it holds no other
-- lease up. It looks as if it should have been renewed, and is to be asked for again.
--
-- $1 ids · $2 owners · $3 leases, ms
WITH asked AS (
  SELECT a.id, a.owner, a.lease, a.place
  FROM unnest($1::bytea[], $2::uuid[], $3::bigint[]) WITH ORDINALITY AS a (id, owner, lease, place)
), locked AS MATERIALIZED (
  SELECT l.id, a.lease
  FROM asked a
  CROSS JOIN LATERAL (
    SELECT r.id
    FROM "idem" r
    WHERE r.id = a.id AND r.owner = a.owner AND r.state = 1
      AND r.format = 1 AND r.expires_at > statement_timestamp()
    FOR UPDATE SKIP LOCKED
  ) l
), renewed AS (
  UPDATE "idem" r
  SET lease_until = GREATEST(
        r.lease_until, statement_timestamp() + l.lease * interval '1 millisecond'),
      expires_at = GREATEST(
        r.expires_at, r.lease_until, statement_timestamp() + l.lease * interval '1 millisecond')
  -- A lease may be asked for twice.
  FROM (SELECT id, max(lease) AS lease FROM locked GROUP BY id) l
  WHERE r.id = l.id
  RETURNING r.id, r.owner,
    (extract(epoch FROM r.lease_until - statement_timestamp()) * 1000000)::bigint AS lease_left
)
SELECT n.lease_left, r.format, r.state, r.owner = a.owner AS own
FROM asked a
LEFT JOIN renewed n ON n.id = a.id AND n.owner = a.owner
LEFT JOIN LATERAL (
  SELECT i.format, i.state, i.owner
  FROM "idem" i
  WHERE i.id = a.id AND (i.format <> 1 OR i.expires_at > statement_timestamp())
  OFFSET 0
) r ON true
ORDER BY a.place
