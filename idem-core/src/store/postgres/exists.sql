-- Whether "idem" and its index are there.
--
-- $1 table · $2 index
SELECT to_regclass($1::text) IS NOT NULL AND to_regclass($2::text) IS NOT NULL AS there
