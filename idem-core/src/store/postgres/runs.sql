-- Whether an attempt holds a record: a look for those who wait for its end.
--
-- $1 id
SELECT EXISTS (
  SELECT 1
  FROM "idem" r
  WHERE r.id = $1 AND r.state = 1 AND r.format = 1
    AND r.lease_until > statement_timestamp() AND r.expires_at > statement_timestamp()
) AS runs
