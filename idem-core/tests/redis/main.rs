//! What is true of the store over Redis alone; what is true of every store is in `conformance`.
#![forbid(unsafe_code)]
#![cfg(feature = "redis")]

mod attempt;
mod cluster;
mod commands;
mod connection;
mod expiry;
mod failover;
mod full;
mod golden;
mod lease;
mod logs;
mod permission;
mod race;
mod sentinel;
mod sizes;
mod start;
mod unreadable;
mod world;
