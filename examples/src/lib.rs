//! What the payment services share, whichever framework serves them: the ledger, the bodies of
//! requests and responses, and the settings.
#![forbid(unsafe_code)]

pub mod ledger;
pub mod settings;
pub mod transfer;

/// Compiles the Rust of the README.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
