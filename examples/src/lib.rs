//! What the programs share. Of the payment services all that no framework owns: the ledger, the bodies
//! of requests and responses, the settings, how a process starts and ends. Of a client what it decides
//! and remembers.
#![forbid(unsafe_code)]

pub mod journal;
pub mod ledger;
pub mod pace;
pub mod process;
pub mod retry;
pub mod settings;
pub mod store;
pub mod support;
pub mod transfer;

/// Compiles the Rust of the README.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
