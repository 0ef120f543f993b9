//! The embedded store, on a paused clock.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use idem_core::{MemoryStore, StorageKey, Store, store::conformance::Subject};

pub(crate) struct Memory {
    pub(crate) store: MemoryStore,
    pub(crate) unit: Duration,
}

impl Memory {
    /// Leases begin at a third of a second.
    pub(crate) fn new(store: MemoryStore) -> Self {
        Self {
            store,
            unit: Duration::from_millis(30),
        }
    }
}

#[async_trait]
impl Subject for Memory {
    async fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    fn unit(&self) -> Duration {
        self.unit
    }

    async fn advance(&self, by: Duration) {
        tokio::time::advance(by).await;
    }

    fn tolerance(&self) -> Duration {
        Duration::ZERO
    }

    async fn swap_response(&self, key: &StorageKey, bytes: Bytes) -> Option<Bytes> {
        self.store.swap_response(key, bytes)
    }
}
