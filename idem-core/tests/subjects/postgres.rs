//! A store over Postgres with a table of its own, on a server whose time can be moved.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use idem_core::{
    PostgresStore, PostgresStoreOptions, StorageKey, Store, store::conformance::Subject,
};
use sqlx::{AssertSqlSafe, PgPool, postgres::PgPoolOptions};
use tokio::time::Instant;

pub(crate) struct Postgres {
    pub(crate) store: PostgresStore,
    /// The test's own way to the table.
    pub(crate) pool: PgPool,
    pub(crate) table: String,
    /// Long, so that a busy machine does not matter: few tests wait for it.
    pub(crate) unit: Duration,
    aged: AtomicU64,
}

impl Postgres {
    /// A table that no other test has, on the server that all share.
    pub(crate) async fn new() -> Self {
        let url = idem_services::Postgres::shared().await.url();
        Self::at(&url, |options| options).await
    }

    /// A table that no other test has, with these options.
    pub(crate) async fn at(
        url: &str,
        set: impl FnOnce(PostgresStoreOptions) -> PostgresStoreOptions,
    ) -> Self {
        let table = format!("t_{:032x}", rand::random::<u128>());
        let options = PostgresStoreOptions::default()
            .with_table(&table)
            .with_migration()
            // The machine may be busy with other tests.
            .with_timeout(Duration::from_secs(20))
            .with_lock_timeout(Duration::from_secs(10));
        let store = PostgresStore::connect_with(url, set(options)).await;
        let pool = PgPoolOptions::new().max_connections(2).connect(url).await;
        Self {
            store: store.expect("a store"),
            pool: pool.expect("a pool"),
            table,
            unit: Duration::from_secs(4),
            aged: AtomicU64::new(0),
        }
    }

    /// Carries a statement out; `{}` stands for the table.
    pub(crate) async fn execute(&self, sql: &str) -> u64 {
        let sql = sql.replace("{}", &self.table);
        let done = sqlx::query(AssertSqlSafe(sql)).execute(&self.pool).await;
        done.expect("the statement is right").rows_affected()
    }
}

#[async_trait]
impl Subject for Postgres {
    async fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    fn unit(&self) -> Duration {
        self.unit
    }

    /// Moves every time in the table back, which is to turn the server's clock forward.
    async fn advance(&self, by: Duration) {
        let shift = format!("interval '{} us'", by.as_micros());
        let sql = "UPDATE {} SET lease_until = lease_until - BY, expires_at = expires_at - BY,
                   purge_at = purge_at - BY";
        self.execute(&sql.replace("BY", &shift)).await;
        let by = u64::try_from(by.as_millis()).expect("a short time");
        self.aged.fetch_add(by, Ordering::Relaxed);
    }

    fn tolerance(&self) -> Duration {
        self.unit / 3
    }

    fn now(&self) -> Instant {
        Instant::now() + Duration::from_millis(self.aged.load(Ordering::Relaxed))
    }

    /// A record is in columns: what damages one has tests of its own.
    async fn swap_response(&self, _: &StorageKey, _: Bytes) -> Option<Bytes> {
        None
    }
}
