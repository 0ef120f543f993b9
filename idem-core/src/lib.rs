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
//! # What is promised
//!
//! At most one attempt per key holds a live lease while the store keeps its data. An attempt that
//! outlives its lease (a paused process, one that runs longer than `max_execution`) may overlap with
//! its successor; it cannot change the record, and it sees the same
//! [downstream key](Attempt::downstream_key).
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `memory` (default) | `MemoryStore`: the embedded store, for one process |
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
