//! The store over Redis. Time is not waited for: the records are moved instead, which is the same
//! as if the server's clock had gone on.

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
    ConnectError, RedisStore, RedisStoreOptions, StorageKey, Store, store::conformance::Subject,
};
use tokio::time::Instant;

/// The records of one prefix.
pub(crate) struct Redis {
    pub(crate) store: RedisStore,
    pub(crate) unit: Duration,
    aged: AtomicU64,
}

impl Redis {
    /// On the server that all tests share.
    pub(crate) async fn new() -> Self {
        let redis = idem_services::Redis::shared().await;
        Self::over(RedisStore::connect_with(&redis.url(), options()).await)
    }

    /// Over a store with a prefix of its own.
    pub(crate) fn over(store: Result<RedisStore, ConnectError>) -> Self {
        Self {
            store: store.expect("the store opens"),
            unit: Duration::from_secs(3),
            aged: AtomicU64::new(0),
        }
    }
}

/// A prefix that no other test has, and patience: the machine that runs the tests is busy.
pub(crate) fn options() -> RedisStoreOptions {
    RedisStoreOptions::default()
        .with_prefix(format!("idem:test:{:016x}:", rand::random::<u64>()))
        .with_timeout(Duration::from_secs(10))
}

#[async_trait]
impl Subject for Redis {
    async fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    fn unit(&self) -> Duration {
        self.unit
    }

    async fn advance(&self, by: Duration) {
        self.store.advance(by).await.expect("the store answers");
        let by = u64::try_from(by.as_millis()).expect("a short time");
        self.aged.fetch_add(by, Ordering::Relaxed);
    }

    fn tolerance(&self) -> Duration {
        self.unit / 3
    }

    fn now(&self) -> Instant {
        Instant::now() + Duration::from_millis(self.aged.load(Ordering::Relaxed))
    }

    async fn swap_response(&self, key: &StorageKey, bytes: Bytes) -> Option<Bytes> {
        let swapped = self.store.swap_response(key, bytes).await;
        swapped.expect("the store answers")
    }
}
