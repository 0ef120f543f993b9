//! The protocol of idempotency keys, free of any web framework.
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
pub use record::{HeaderLine, Record, RecordBody, TooLarge, Unreadable};
pub use rejection::{DEFAULT_PROBLEM_BASE, PROBLEM_JSON, Rejection};
pub use request::{RequestHead, is_safe};
pub use scope::{Caller, IntoCaller, Principal, Resolution, Scope};
pub use selection::Selection;
pub use store::Store;
#[cfg(feature = "memory")]
pub use store::{MemoryStore, MemoryStoreOptions};
