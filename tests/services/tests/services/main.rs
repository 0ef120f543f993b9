//! What a test may rely on: that a server runs, hangs, crashes and comes back when it is told to,
//! and that nothing of it stays.
#![forbid(unsafe_code)]

mod leftovers;
mod pgbouncer;
mod postgres;
mod proxy;
mod redis;
mod replicas;

type Outcome = Result<(), Box<dyn std::error::Error>>;
