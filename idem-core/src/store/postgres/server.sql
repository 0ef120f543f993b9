-- What the server is.
SELECT current_setting('server_version_num')::integer AS number,
       current_setting('server_version') AS version,
       pg_is_in_recovery() AS copies,
       current_setting('server_encoding') AS encoding
