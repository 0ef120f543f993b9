//! The protocol of idempotency keys, free of any web framework: a client may send the same request
//! any number of times, the work is done once, and every later answer is the first one.
//!
//! Applications use it through `idem-axum`, whose `#[idempotent]` attribute does all that is
//! described here. This crate is for those who write a store, an adapter, or an observer.
//!
//! # The life of a request
//!
//! 1. [`Engine::admit`] looks at the head: a safe method passes through, and so does a request
//!    without a key unless one is required. A key is parsed once, into an [`IdempotencyKey`].
//! 2. The adapter names the [`Caller`] and reads the body. Namespace, caller, operation and key
//!    become the [`StorageKey`]; method, path, query, media type and body the [`Fingerprint`].
//! 3. [`Engine::begin`] claims the key in one atomic step of the [`Store`], which answers with a
//!    [fact](store::Claim).
//! 4. [`decide::decide`] says what that fact means: run the handler, replay, refuse, or wait.
//! 5. The handler runs under a lease that a thread of our own renews. If its client hangs up it goes
//!    on in a task; if its process dies the lease lapses, and the next equal request takes over.
//! 6. [`decide::settle`] says what the answer is worth. A success or a business failure is stored
//!    and then sent; a server error or a panic releases the key, bound to its fingerprint.
//!
//! | record | equal request | another request under the key |
//! |---|---|---|
//! | none, or expired | runs | runs |
//! | in progress | 409 `in-progress` with `Retry-After`, or waits | 409 `key-reused` |
//! | lapsed | runs as the next attempt, or 409 `outcome-unknown` | 409 `key-reused` |
//! | released | runs as the next attempt | 409 `key-reused` |
//! | completed | the stored answer, marked | 409 `key-reused` |
//! | completed, body not kept | 409 `response-unavailable` | 409 `key-reused` |
//! | unknown | 409 `outcome-unknown` | 409 `key-reused` |
//!
//! What each refusal means to a client, and what to do about it, is in [`refusal`].
//!
//! # An adapter in short
//!
//! `Bare` is the [`Adapter`] of a framework whose responses are [`Record`]s.
//! ```
//! use idem_core::{
//!     Builder, Caller, Engine, Fingerprint, MemoryStore, Policy, Record, RequestHead, Selection,
//!     engine::{Admission, Answer, Begun, Keyed, Ran, Reply},
//! };
#![doc = include_str!("adapter/bare.md")]
//!
//! static POLICY: Policy = Policy::new("shop::create_payment");
//!
//! async fn create_payment(body: String) -> Record {
//!     Record::new(201, format!("paid {body}"))
//! }
//!
//! async fn protected(engine: Engine, key: &[u8], body: String) -> Record {
//!     let admitted = match engine.admit(&POLICY, "POST", || Some("/payments"), [key]) {
//!         Admission::Keyed(admitted) => admitted,
//!         Admission::Unprotected => return create_payment(body).await,
//!         Admission::Rejected(rejection) => return engine.problem(&rejection),
//!     };
//!     let head = RequestHead::new("POST", "/payments");
//!     let request = Keyed {
//!         admitted,
//!         caller: Caller::User("ada".to_owned()),
//!         fingerprint: Fingerprint::of(&head, body.as_bytes()),
//!         attempt: None,
//!         selection: Selection::new(),
//!     };
//!     let answer = match engine.begin(request).await {
//!         Begun::Bypassed => return create_payment(body).await,
//!         Begun::Answered(answer) => answer,
//!         Begun::Claimed(claimed) => {
//!             let ours = engine.clone();
//!             let handler = async move {
//!                 let response = create_payment(body).await;
//!                 // Its headers go here too, their names in lower case.
//!                 let lines = std::iter::empty();
//!                 let record = ours.record(response.status, lines, response.body.clone());
//!                 Ran { record, outcome: None, response }
//!             };
//!             match claimed.run(handler).await {
//!                 Ok(Reply::Own(response)) => return response,
//!                 Ok(Reply::Other(answer)) => answer,
//!                 Err(panic) => std::panic::resume_unwind(panic),
//!             }
//!         }
//!     };
//!     match answer {
//!         Answer::Replay(record) => record.with_header(engine.marker().to_owned(), "true"),
//!         Answer::Rejection(rejection) => engine.problem(&rejection),
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), idem_core::ConfigError> {
//! let engine = Builder::<Bare>::new(MemoryStore::new()).build()?.engine;
//! let pay = |body: &str| protected(engine.clone(), b"order-17", body.to_owned());
//! let first = pay("12 EUR").await;
//! let marked = first.clone().with_header("idempotent-replayed", "true");
//! assert_eq!(pay("12 EUR").await, marked);
//! assert_eq!(pay("99 EUR").await.status, 409);
//! assert_eq!((engine.counts().executed, engine.counts().replayed), (1, 1));
//! # Ok(())
//! # }
//! ```
//!
//! # What is promised
//!
//! At most one attempt per key holds a live lease while the store keeps its data. An attempt that
//! outlives its lease (a paused process, one that runs longer than `max_execution`) may overlap with
//! its successor; it cannot change the record, and it sees the same
//! [downstream key](Attempt::downstream_key).
//!
//! # What a store must keep
//!
//! All of that holds as long as the store keeps what it acknowledged. A database that may forget a
//! committed claim, because `synchronous_commit` is off or because a replica that had not received it
//! is promoted, forgets that a request runs or ran: its retry runs again. The claims must be on the
//! quorum. The documentation of each store says which settings that takes.
//!
//! Over Redis there is at most one execution at a time while the primary survives: `RedisStore` and
//! `PostgresStore` say what to set, and where records are lost all the same.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `memory` (default) | `MemoryStore`: the embedded store, for one process |
//! | `redis` | `RedisStore`: records in Redis 7.0 or later, or Valkey |
//! | `redis-tls` | TLS towards Redis: URLs that begin with `rediss://` |
//! | `postgres` | `PostgresStore`: records in a table of PostgreSQL 13 or later |
//! | `postgres-tls` | TLS towards PostgreSQL |
//! | `conformance` | `store::conformance`: the properties that every store must have |
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod adapter;
mod attempt;
mod builder;
pub mod decide;
pub mod engine;
mod error;
mod fingerprint;
mod headers;
mod key;
mod lease;
mod live;
pub mod observe;
mod policy;
mod record;
pub mod refusal;
mod rejection;
mod request;
mod scope;
mod selection;
pub mod store;

pub use adapter::Adapter;
pub use attempt::Attempt;
pub use builder::{Builder, DEFAULT_MARKER};
pub use engine::{Engine, StoreDown};
#[cfg(any(feature = "postgres", feature = "redis"))]
pub use error::ConnectError;
pub use error::{ConfigError, NotConfigured, StoreError};
pub use fingerprint::Fingerprint;
pub use key::{DEFAULT_MAX_KEY_LEN, IdempotencyKey, InvalidKey, KeyFormat, KeyRules, StorageKey};
pub use live::Drained;
pub use observe::Counts;
pub use policy::{
    DEFAULT_HEADER, DEFAULT_LEASE, DEFAULT_TTL, OnLapse, Outcome, Policy, Required, nonzero,
};
pub use record::{HeaderLine, Record, RecordBody, Unreadable, Unwritable};
pub use rejection::{DEFAULT_PROBLEM_BASE, PROBLEM_JSON, Rejection};
pub use request::{RequestHead, is_safe};
pub use scope::{Caller, IntoCaller, Principal, Resolution, Scope};
pub use selection::Selection;
pub use store::Store;
#[cfg(feature = "memory")]
pub use store::{MemoryStore, MemoryStoreOptions};
#[cfg(feature = "postgres")]
pub use store::{PostgresStore, PostgresStoreOptions};
#[cfg(feature = "redis")]
pub use store::{RedisStore, RedisStoreOptions, WaitReplicas};
