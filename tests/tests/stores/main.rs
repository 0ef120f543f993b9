//! What clients see of a service whose store stops, hangs, loses replies and comes back; and of several
//! processes over one store. The stores are real servers, a server of its own for each test that harms
//! one.
#![forbid(unsafe_code)]

mod outage;
mod pool;
mod processes;
mod replies;
mod waiting;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use idem_core::{
    PostgresStore, PostgresStoreOptions, RedisStore, RedisStoreOptions, Store as Contract,
};
use idem_services::{Postgres, Redis, Server};
use idem_tests::{Framework, Protocol, Row, Setup, StoreKind, World};

/// Runs each named test, an `async fn(StoreKind)`, on Redis and on Postgres.
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        mod redis {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    super::$name(idem_tests::StoreKind::Redis).await;
                }
            )*
        }
        mod postgres {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    super::$name(idem_tests::StoreKind::Postgres).await;
                }
            )*
        }
    };
}
use on_both;

/// A server that a test has for itself.
enum Own {
    Redis(Redis),
    Postgres(Postgres),
}

impl Own {
    async fn start(kind: StoreKind) -> Self {
        match kind {
            StoreKind::Redis => Self::Redis(Redis::start(&[("appendonly", "yes")]).await),
            StoreKind::Postgres => Self::Postgres(Postgres::start(&[]).await),
            StoreKind::Memory => panic!("the embedded store has no server"),
        }
    }

    fn server(&self) -> &Server {
        match self {
            Self::Redis(redis) => redis,
            Self::Postgres(postgres) => postgres,
        }
    }

    fn url(&self) -> String {
        match self {
            Self::Redis(redis) => redis.url(),
            Self::Postgres(postgres) => postgres.url(),
        }
    }

    fn addr(&self) -> SocketAddr {
        self.server().addr()
    }

    async fn restart(&self) {
        match self {
            Self::Redis(redis) => redis.restart().await,
            Self::Postgres(postgres) => postgres.restart().await,
        }
    }
}

/// Opens the store at a URL as an application would, with the defaults.
async fn open(kind: StoreKind, url: &str) -> Arc<dyn Contract> {
    match kind {
        StoreKind::Redis => {
            let options = RedisStoreOptions::default();
            let store = RedisStore::connect_with(url, options).await;
            Arc::new(store.expect("the store opens"))
        }
        StoreKind::Postgres => {
            let options = PostgresStoreOptions::default().with_migration();
            let store = PostgresStore::connect_with(url, options).await;
            Arc::new(store.expect("the store opens"))
        }
        StoreKind::Memory => panic!("the embedded store has no URL"),
    }
}

/// A service over the store at a URL.
async fn service(kind: StoreKind, url: &str, setup: Setup) -> World {
    let row = Row {
        framework: Framework::Axum,
        store: kind,
        protocol: Protocol::Http1,
    };
    World::over(row, setup, open(kind, url).await).await
}

/// As long as an answer may take while the store is silent: the limit of the engine, which is one
/// second by default, and the pauses between its tries; and as much again for a busy machine.
const WITHIN: Duration = Duration::from_millis(2_500);
