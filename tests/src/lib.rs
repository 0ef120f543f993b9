//! The support of the scenarios: a sample application whose handlers do what the request tells
//! them, a ledger as the truth, a client, and a store whose clock the test turns.
//!
//! A scenario is written once, over [`World`]. Each row of [`scenarios!`] runs it on one framework
//! and one store; a new framework or store is one more row and one more arm in `world`.
#![forbid(unsafe_code)]

pub mod app;
pub mod axum_app;
pub mod client;
pub mod clock;
pub mod connection;
pub mod framed;
pub mod gate;
pub mod heard;
pub mod logs;
pub mod measure;
pub mod race;
pub mod script;
pub mod store;
pub mod world;

use std::{future::Future, time::Duration};

pub use self::{
    client::{Answer, Call, Protocol},
    connection::Connection,
    framed::Framed,
    heard::Heard,
    script::{Script, Step},
    store::StoreCall,
    world::{Framework, Row, Setup, StoreKind, Time, Workers, World},
};

/// Waits for something that is to happen, for at most 30 seconds: a scenario fails, and does not
/// hang.
pub(crate) async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(30);
    let happened = tokio::time::timeout(limit, future).await;
    happened.unwrap_or_else(|_| panic!("never came to be: {what}"))
}

/// Runs each named scenario, an `async fn(World)`, on every framework and store; after `in memory:` with
/// the embedded store only.
///
/// A scenario that needs another [`Setup`] than the default starts its own with
/// [`World::again`].
#[macro_export]
macro_rules! scenarios {
    (in memory: $($name:ident),* $(,)?) => {
        $crate::scenarios!(@row axum_memory_only, Axum, Memory, $($name),*);
    };
    ($($name:ident),* $(,)?) => {
        $crate::scenarios!(@row axum_memory, Axum, Memory, $($name),*);
        $crate::scenarios!(@row axum_redis, Axum, Redis, $($name),*);
        $crate::scenarios!(@row axum_postgres, Axum, Postgres, $($name),*);
    };
    (@row $row:ident, $framework:ident, $store:ident, $($name:ident),*) => {
        mod $row {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    let row = $crate::Row {
                        framework: $crate::Framework::$framework,
                        store: $crate::StoreKind::$store,
                    };
                    super::$name($crate::World::start(row, $crate::Setup::default()).await).await;
                }
            )*
        }
    };
}
