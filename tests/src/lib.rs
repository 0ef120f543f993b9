//! The support of the scenarios: a sample application whose handlers do what the request tells
//! them, a ledger as the truth, a client, and a store whose clock the test turns.
//!
//! A scenario is written once, over [`World`]. Each row of [`scenarios!`] runs it on one framework
//! and one store; a new framework or store is one more row and one more arm in `world`.
#![forbid(unsafe_code)]

pub mod actix_app;
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

/// Runs each named scenario, an `async fn(World)`, on every framework, store and protocol. After
/// `in memory:` it runs with the embedded store only, and after `on axum:` on that framework; in both
/// over HTTP/1.1, unless it says more itself.
///
/// A scenario that needs another [`Setup`] than the default starts its own with
/// [`World::again`].
#[macro_export]
macro_rules! scenarios {
    (in memory: $($name:ident),* $(,)?) => {
        $crate::scenarios!(@row axum_memory_only, Axum, Memory, Http1, $($name),*);
        $crate::scenarios!(@row actix_memory_only, Actix, Memory, Http1, $($name),*);
    };
    (on axum: $($name:ident),* $(,)?) => {
        $crate::scenarios!(@row axum_only_memory, Axum, Memory, Http1, $($name),*);
        $crate::scenarios!(@row axum_only_redis, Axum, Redis, Http1, $($name),*);
        $crate::scenarios!(@row axum_only_postgres, Axum, Postgres, Http1, $($name),*);
    };
    ($($name:ident),* $(,)?) => {
        $crate::scenarios!(@row axum_memory, Axum, Memory, Http1, $($name),*);
        $crate::scenarios!(@row axum_redis, Axum, Redis, Http1, $($name),*);
        $crate::scenarios!(@row axum_postgres, Axum, Postgres, Http1, $($name),*);
        $crate::scenarios!(@row actix_memory, Actix, Memory, Http1, $($name),*);
        $crate::scenarios!(@row actix_redis, Actix, Redis, Http1, $($name),*);
        $crate::scenarios!(@row actix_postgres, Actix, Postgres, Http1, $($name),*);
        $crate::scenarios!(@row axum_memory_http2, Axum, Memory, Http2, $($name),*);
        $crate::scenarios!(@row axum_redis_http2, Axum, Redis, Http2, $($name),*);
        $crate::scenarios!(@row axum_postgres_http2, Axum, Postgres, Http2, $($name),*);
        $crate::scenarios!(@row actix_memory_http2, Actix, Memory, Http2, $($name),*);
        $crate::scenarios!(@row actix_redis_http2, Actix, Redis, Http2, $($name),*);
        $crate::scenarios!(@row actix_postgres_http2, Actix, Postgres, Http2, $($name),*);
    };
    (@row $row:ident, $framework:ident, $store:ident, $protocol:ident, $($name:ident),*) => {
        mod $row {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    let row = $crate::Row {
                        framework: $crate::Framework::$framework,
                        store: $crate::StoreKind::$store,
                        protocol: $crate::Protocol::$protocol,
                    };
                    super::$name($crate::World::start(row, $crate::Setup::default()).await).await;
                }
            )*
        }
    };
}
