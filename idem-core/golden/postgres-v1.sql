-- A completed record as version 1 of the row has it; its key is 8e03978e-40d5-43e8-bc93-6894a57f9324.
INSERT INTO "idem" (
  id, format, owner, fence, state, attempts, lease_until, expires_at, purge_at, created_at,
  completed_at, fingerprint, namespace, operation, key_hint, caller_digest, key, caller,
  status, flags, headers, body, reference
) VALUES (
  '\xda5f0629bcdf82a167e549bc70aea220aff9d1417d6271a40ecc6c5403ab876d', 1,
  '00112233-4455-6677-8899-aabbccddeeff', 1790000000000000, 2, 2,
  now(), now() + interval '1 hour', now() + interval '1 hour', now(), now(),
  '\x01e31efd59aea48e1f7dabf21384379dc1da1193a4efbed3b278a105501fa4a1c5',
  'shop', 'POST /payments', '8e03…9324',
  '\x3f6a661f171055b5ffdfc9da4be511da9db52a61e6e03bba9b281b6dd24ddabf', NULL, NULL,
  201, 0,
  '\x000200080000000b6c6f636174696f6e2f7061796d656e74732f37000700000004782d6c6174696e636166e9',
  '\x7b2262223a312c2261223a312e302c202263223a225c7530303030227dff',
  'txn_789'
);
