//! `#[idempotent]` for axum: handlers that are safe to retry.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod attempt;
mod install;
mod request;
mod response;
mod runtime;

#[doc(inline)]
pub use idem_core::{
    ConfigError, Counts, Drained, IntoCaller, KeyFormat, OnLapse, Outcome, Principal, Rejection,
    Required, StoreDown, observe, store,
};
#[cfg(feature = "memory")]
#[doc(inline)]
pub use idem_core::{MemoryStore, MemoryStoreOptions};
pub use idem_macros::idempotent_axum as idempotent;

pub use self::{
    attempt::Attempt,
    install::{Builder, Idempotency, IdempotencyService},
};

/// What the attribute expands to. Not part of the public interface.
#[doc(hidden)]
pub mod __private {
    pub use std::time::Duration;

    pub use idem_core::{KeyFormat, OnLapse, Policy, Required, Scope, Selection, nonzero};

    pub use crate::{
        request::Captured,
        runtime::{Response, Route, into_response},
    };
}
