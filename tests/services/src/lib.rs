//! Real servers for tests, started from the installed programs on free ports of 127.0.0.1, and a
//! [`Proxy`] that loses what goes through it.
//!
//! A server ends with the value that stands for it, and with the process of the test, however that
//! ends; its directory goes with it. The `shared` ones live as long as the process.
//! A program that is not installed is a panic that says what to install.
//!
//! Not here: anything of idem. This crate can be used to test any of ours.
#![forbid(unsafe_code)]

mod cluster;
mod pgbouncer;
mod port;
mod postgres;
mod proxy;
mod redis;
mod replicated;
mod sentinel;
mod server;
mod watchdog;

pub use self::{
    cluster::{Cluster, Migration},
    pgbouncer::{PgBouncer, PoolMode},
    postgres::Postgres,
    proxy::{Direction, Proxy},
    redis::Redis,
    replicated::Replicated,
    sentinel::Sentinel,
    server::Server,
};
