//! What is particular to Postgres: its transactions, its locks, its pool, its servers and their ends.
#![cfg(all(feature = "postgres", feature = "conformance"))]

#[path = "../subjects"]
mod subjects {
    pub(crate) mod postgres;
}

mod attempt;
mod cancel;
mod clock;
mod connect;
mod cost;
mod engine;
mod isolation;
mod locks;
mod outage;
mod plans;
mod pool;
mod pooler;
mod purge;
mod rows;
mod stalled;
