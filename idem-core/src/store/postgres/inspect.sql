-- Looks a record up.
--
-- $1 id
SELECT r.format, r.state, r.fence, r.attempts, r.namespace, r.operation, r.key_hint,
       (extract(epoch FROM r.created_at) * 1000000)::bigint AS created,
       (extract(epoch FROM r.completed_at) * 1000000)::bigint AS completed,
       (extract(epoch FROM r.lease_until - statement_timestamp()) * 1000000)::bigint AS lease_left,
       (extract(epoch FROM r.expires_at - statement_timestamp()) * 1000000)::bigint AS expires_in,
       r.status, r.flags, r.headers, r.reference
FROM "idem" r
WHERE r.id = $1 AND r.expires_at > statement_timestamp()
