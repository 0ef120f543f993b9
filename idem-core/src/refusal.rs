//! What each refusal means to a client, and what to do about it.
//!
//! A refusal is a problem document (RFC 9457): its `code` is stable, its `type` ends with the code.
//! One rule is enough for most clients: **409 with `Retry-After` means wait and repeat the request
//! unchanged; 409 without means do not repeat it, read `code`.** A retryable refusal has
//! `"retryable": true`, and `retry_after` repeats the header for those who cannot read it.
//!
//! A key stands for one operation. Make it before the first attempt, keep it with the operation, and
//! send it unchanged with every attempt. It is no nonce: what a signed request makes anew each time
//! must not be the key, and what is the key must not be made anew.
//!
//! | code | status | it means | what to do |
//! |---|---|---|---|
//! | `key-missing` | 400 | the operation needs a key | make one, and send it with every attempt |
//! | `key-invalid` | 400 | the key breaks the rule that `detail` names; it was not looked up | send one that is valid: a UUID always is |
//! | `body-incomplete` | 400 | the body broke off; nothing ran | send it again, whole |
//! | `caller-missing` | 403 | the caller is anonymous, and keys belong to callers | authenticate |
//! | `key-reused` | 409 | the key was used for another request, whose state is `original_state`; this one did not run | if it is a new operation, make a new key; if it is a retry, send what the first attempt sent, byte for byte |
//! | `in-progress` | 409 | an equal request runs | wait for `Retry-After`, and repeat it |
//! | `outcome-unknown` | 409 | an attempt began and nobody knows how it ended; nothing runs until somebody decides | look the operation up, or ask |
//! | `response-unavailable` | 409 | the operation is done with `original_status`; its response was too large or a stream | read the result at `original_location` |
//! | `request-too-large` | 413 | the body is over `limit` bytes; nothing ran | send less |
//! | `not-configured` | 500 | the server lacks something; its log says what | tell its operators |
//! | `record-unreadable` | 500 | there is an outcome that this version of the server cannot read; nothing ran | tell its operators; do not make a new key |
//! | `store-unavailable` | 503 | the request cannot be protected now; nothing ran | wait for `Retry-After`, and repeat it |
//! | `shutting-down` | 503 | this server stops; nothing ran | wait for `Retry-After`, and repeat it |
