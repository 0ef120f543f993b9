SELECT cron.schedule('purge-idem', '* * * * *', $$
  DELETE FROM idem WHERE id IN (
    SELECT id FROM idem
    WHERE purge_at < now() - interval '5 minutes' AND expires_at < now() - interval '5 minutes'
    ORDER BY purge_at LIMIT 10000 FOR UPDATE SKIP LOCKED)
$$);
