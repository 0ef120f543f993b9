//! What the programs share: the ledger, the bodies of requests and responses, and the settings of
//! the payment services, whichever framework serves them; what a client decides and remembers.
#![forbid(unsafe_code)]

pub mod journal;
pub mod ledger;
pub mod retry;
pub mod settings;
pub mod store;
pub mod transfer;

/// Compiles the Rust of the README.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
