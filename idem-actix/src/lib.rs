//! `#[idempotent]` for actix-web: handlers that are safe to retry.
//!
//! A client sends an `Idempotency-Key` with a request, and may then send the request any number of
//! times: the handler runs once, and every later answer is the first one, byte for byte, with
//! `Idempotent-Replayed: true`.
//!
//! ```
//! use actix_web::{App, HttpResponse, post, web::Json};
//! use idem_actix::{Idempotency, MemoryStore, idempotent};
//! # use serde::{Deserialize, Serialize};
//! # #[derive(Deserialize)]
//! # struct NewPayment { amount: u64 }
//! # #[derive(Serialize)]
//! # struct Payment { amount: u64 }
//!
//! #[post("/payments")]
//! #[idempotent(scope = "user", ttl = "24h")]
//! async fn create_payment(new: Json<NewPayment>) -> HttpResponse {
//!     HttpResponse::Created().json(Payment { amount: new.amount })
//! }
//!
//! // Outside of `HttpServer::new(move || …)`, so that all workers have one store.
//! let idem = Idempotency::new(MemoryStore::new());
//! let app = App::new().app_data(idem.clone()).service(create_payment);
//! # let _ = app;
//! ```
//!
//! The caller is read from a [`Principal`] that the application's authentication puts into the
//! request's extensions, or from a resolver of the application's own
//! ([`Builder::scope`](idem_core::Builder::scope)). It must be a stable identity, never a credential
//! that is renewed.
//!
//! ```
//! use actix_web::{
//!     App, Error, HttpMessage,
//!     body::MessageBody,
//!     dev::{ServiceRequest, ServiceResponse},
//!     error::ErrorUnauthorized,
//!     middleware::{Next, from_fn},
//! };
//! use idem_actix::Principal;
//!
//! async fn authenticate(
//!     request: ServiceRequest,
//!     next: Next<impl MessageBody>,
//! ) -> Result<ServiceResponse<impl MessageBody>, Error> {
//!     let account = account(&request).ok_or_else(|| ErrorUnauthorized("who are you?"))?;
//!     request.extensions_mut().insert(Principal::new(account));
//!     next.call(request).await
//! }
//! # fn account(request: &ServiceRequest) -> Option<String> {
//! #     request.headers().get("x-account")?.to_str().ok().map(str::to_owned)
//! # }
//!
//! let app = App::new().wrap(from_fn(authenticate));
//! # let _ = app;
//! ```
//!
//! # Arguments
//!
//! | argument | meaning | default |
//! |---|---|---|
//! | `scope = "user"` | within what a key is unique. `"user"`: an operation and a caller. `"endpoint"`: an operation alone, shared by all callers. Any other name: a resolver registered on the engine | `"user"` |
//! | `ttl = "24h"` | life of a completed record, from its completion | `24h` |
//! | `lease = "30s"` | how long a claim lives unrenewed, so how long a key stays blocked after its process died | `30s` |
//! | `wait = "10s"` | how long a request waits for a running one with the same key | no wait: 409 |
//! | `required`, `required = "any"` | a POST or PATCH (with `"any"`: every method that is not safe) without a key is refused with 400 | a key is optional |
//! | `header = "X-Event-Id"` | the header that carries the key | `Idempotency-Key` |
//! | `key_format = "uuid"` | a key that is no UUID is refused with 400 | any key |
//! | `operation = "payments.create"` | the name by which records are kept apart, instead of the route's | method and route |
//! | `on_lapse = "unknown"` | what follows an attempt that never ended. `"takeover"`: the next equal request runs the handler again. `"unknown"`: it is answered 409 `outcome-unknown` until somebody decides, for seven days or for `ttl` if that is longer | `"takeover"` |
//! | `associated` | the handler is a function in an `impl` block; see [below](#functions-in-an-impl-block) | a free function |
//! | `crate = "my_idem"` | where the adapter is, for a renamed or re-exported crate | `::idem_actix` |
//!
//! A duration is a number and a unit: `300ms`, `30s`, `15m`, `24h` or `7d`, at most 100 years
//! (`36500d`), or a constant expression of type [`Duration`](std::time::Duration). It must be longer
//! than zero. Both forms are checked when the handler is compiled.
//!
//! `operation` names what the handler does, whatever its route is called. The path is still part of
//! what a key stands for: after a change of the route, an honest retry on the new path is refused with
//! 409 `key-reused`, and not replayed. Nothing runs twice.
//!
//! An argument that is not written takes the engine's value; everything else is set once, on the
//! engine ([`Builder`]).
//!
//! # Functions in an `impl` block
//!
//! An associated function without `self` says `associated`; `Self` and the parameters of the `impl` mean
//! there what they always do.
//!
//! ```
//! use actix_web::{App, web};
//! use idem_actix::{Idempotency, MemoryStore, idempotent};
//!
//! struct Payments;
//!
//! impl Payments {
//!     #[idempotent(associated, scope = "user", ttl = "24h")]
//!     async fn create(amount: web::Json<u64>) -> String {
//!         Self::receipt(*amount)
//!     }
//!
//!     fn receipt(amount: u64) -> String {
//!         format!("paid: {amount}")
//!     }
//! }
//!
//! let idem = Idempotency::new(MemoryStore::new());
//! let app = App::new().app_data(idem).route("/payments", web::post().to(Payments::create));
//! # let _ = app;
//! ```
//!
//! Its policy is known only when it runs. So the key comes in the engine's header
//! ([`Builder::header`](idem_core::Builder::header)), and the argument `header` is refused. The body is
//! read whenever that header is there, and the key, its form, a key that is missing and the caller are
//! looked at after the last argument and not before it: a request that is wrong in both is refused for its
//! arguments. Until then an event of a refused body has the route as its operation, also where
//! `operation` names another.
//!
//! The handler itself becomes a function beside the one that is routed, here `__idem_create`.
//! `#[instrument]` calls its span that, unless it says `name = "create"`.
//!
//! # What a replay has
//!
//! A replay has the status, the body and the headers of the first answer, without those that speak of
//! one exchange or one connection:
//!
//! * `Set-Cookie`, `Access-Control-*`, `Server`, `WWW-Authenticate`, `Request-Id` and `X-Request-Id`,
//!   `RateLimit*` and `X-RateLimit-*`, `traceparent` and `tracestate`, `Server-Timing`,
//!   `Strict-Transport-Security`, `Via`, `Age` and a few of their kind are left out, unless
//!   [`keep_header`](idem_core::Builder::keep_header) says otherwise;
//! * `Connection` and what it lists, `Transfer-Encoding`, `Trailer`, `Upgrade` and the others that frame
//!   a message, and trailers, are always left out; `Content-Length` and `Date` are made anew.
//!
//! [`drop_header`](idem_core::Builder::drop_header) leaves out another one. What layers outside of the
//! handler add, such as CORS headers, they add to a replay too.
//!
//! # What happens in which order
//!
//! The handler's arguments are extracted first, one after the other. Before the last of them the key and
//! the caller are looked at; if an earlier one asks for the body, the key before that, and the caller
//! in the end. Then what is left of the body is read, and the key is claimed. So a request that fails authentication is refused
//! before a byte of its body is read, one that fails validation makes no claim, and a replay is still
//! authenticated: let the argument that authenticates stand before the one that reads the body.
//! Extractors run for replays too: one that has an effect or holds a connection, such as a
//! transaction, belongs into the handler.
//!
//! The body of a keyed request is read into memory. What the application allows with `PayloadConfig`,
//! `JsonConfig` and the like holds as without us, and so do their error handlers; where the handler
//! takes a `web::Payload`, or does not read the body, at most 16 MiB are read unless
//! [`max_request_body`](idem_core::Builder::max_request_body) says less. A body that breaks off is refused
//! with `body-incomplete`, whatever the extractor made of it. A middleware that reads the body must put
//! it back (`ServiceRequest::set_payload`): without it nothing tells two requests apart, and a keyed
//! request is refused with `not-configured`; one over HTTP/2 without a length cannot be told. Without a key the body is not touched,
//! and the extractors run as they do without the attribute.
//!
//! # Where the engine goes
//!
//! [`Idempotency`] is the `app_data` of an `App`, of a scope or of a resource; of nested ones the inner
//! wins. Middleware around the handler matters: compression outside, so that the record has the plain
//! bytes; authentication, rate limits and request ids outside, so that their answers and headers are
//! never stored.
//!
//! Operations are kept apart by method and route template. Two routes that only their guards tell
//! apart, such as two versions of one resource, are one operation: give each an
//! `operation = "…"` of its own, or a request to one is answered with the record of the other.
//!
//! # When a client hangs up
//!
//! A handler that has started under a claim goes on when the future of its request is dropped, in a
//! task of its own on the same worker, inside the span that was current; its answer is stored for the
//! retry. So it need not be `Send`. By itself actix-web drops it only when the connection fails, or is
//! closed where `HttpServer::h1_allow_half_closed(false)` says so; otherwise it runs on in its request.
//! A worker that stops takes both along, and therefore a server is to be stopped by [`shutdown`],
//! which waits for them.
//!
//! # Attributes in one place
//!
//! Route attributes such as `#[post]` stand above or below `#[idempotent]`; `#[instrument]` stands below,
//! where it sees the handler's own arguments; `#[utoipa::path]` stands above both. A handler cannot be
//! called directly any more, for instance by a unit test: its one argument is what the attribute makes of
//! the request. Test the function that it calls. Of [each order](macro@idempotent#other-attributes) the
//! attribute says how it ends.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `memory` (default) | [`MemoryStore`]: the embedded store, for one process |
//! | `redis` | `RedisStore`: records in Redis 7.0 or later, or Valkey |
//! | `redis-tls` | TLS towards Redis: URLs that begin with `rediss://` |
//! | `postgres` | `PostgresStore`: records in a table of PostgreSQL 13 or later |
//! | `postgres-tls` | TLS towards PostgreSQL |
//! | `conformance` | [`store`]`::conformance`: the properties that every store must have |
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod attempt;
mod body;
mod deferred;
mod entrance;
mod install;
mod request;
mod response;
mod runtime;

#[cfg(any(feature = "postgres", feature = "redis"))]
#[doc(inline)]
pub use idem_core::ConnectError;
#[doc(inline)]
pub use idem_core::{
    Caller, ConfigError, Counts, Drained, IdempotencyKey, IntoCaller, InvalidKey, KeyFormat,
    KeyRules, OnLapse, Outcome, Principal, Record, RecordBody, Rejection, Required, Resolution,
    StorageKey, Store, StoreDown, StoreError, decide, observe, refusal, store,
};
#[cfg(feature = "memory")]
#[doc(inline)]
pub use idem_core::{MemoryStore, MemoryStoreOptions};
#[cfg(feature = "postgres")]
#[doc(inline)]
pub use idem_core::{PostgresStore, PostgresStoreOptions};
#[cfg(feature = "redis")]
#[doc(inline)]
pub use idem_core::{RedisStore, RedisStoreOptions, WaitReplicas};
pub use idem_macros::idempotent_actix as idempotent;

pub use self::{
    attempt::Attempt,
    install::{Builder, Idempotency, shutdown},
    response::{OutcomeExt, WithOutcome},
};

/// What the attribute expands to. Not part of the public interface.
#[doc(hidden)]
pub mod __private {
    pub use std::time::Duration;

    pub use idem_core::{KeyFormat, OnLapse, Policy, Required, Scope, Selection, nonzero};

    pub use crate::{
        deferred::Associated,
        request::Captured,
        runtime::{Response, Route, extractor, into_response},
    };
}
