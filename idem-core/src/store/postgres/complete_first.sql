-- Stores an outcome in the row of its owner, as nearly every completion does. No row is an answer too:
-- nothing was stored, and `complete.sql` is to be asked.
--
-- $1 lock_timeout · $2 id · $3 owner · $4 fingerprint · $5 ttl, ms · $6 namespace · $7 operation
-- $8 key hint · $9 caller digest · $10 key · $11 caller · $12 status · $13 flags · $14 headers
-- $15 body · $16 reference; the rest is unused here
UPDATE "idem" r
SET state = 2, status = $12, flags = $13, headers = $14, body = $15, reference = $16,
    completed_at = statement_timestamp(), lease_until = statement_timestamp(),
    expires_at = statement_timestamp() + $5::bigint * interval '1 millisecond',
    -- An unknown record was to be kept for longer.
    purge_at = CASE WHEN r.state = 3
      THEN statement_timestamp() + $5 * interval '1 millisecond'
      ELSE r.purge_at END
WHERE r.id = $2 AND r.owner = $3 AND r.state IN (1, 3)
  AND r.format = 1 AND r.expires_at > statement_timestamp()
  -- For this statement only, and before the update can wait.
  AND set_config('lock_timeout', $1, true) IS NOT NULL
RETURNING true AS stored
