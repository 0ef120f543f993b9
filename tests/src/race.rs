//! What two processes that claim the same keys agree on.

use std::{sync::Arc, time::Duration};

use idem_core::{
    Caller, Fingerprint, IdempotencyKey, KeyRules, PostgresStore, PostgresStoreOptions, RedisStore,
    RedisStoreOptions, RequestHead, StorageKey, Store,
    store::{Audit, ClaimRequest, Grant, LeaseRef, Owner, Takeover},
};
use serde::{Deserialize, Serialize};

/// How the claims of one key were answered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// How many have it.
    pub acquired: usize,
    /// How many were told that somebody has it.
    pub in_progress: usize,
    /// What else was answered.
    pub other: Vec<String>,
}

/// A key that is raced for.
#[derive(Debug, Clone)]
pub struct Race {
    caller: Caller,
    key: IdempotencyKey,
    id: StorageKey,
    fingerprint: Fingerprint,
    owner: Owner,
    lease: Duration,
}

impl Race {
    const OPERATION: &str = "POST /charge";

    /// The key of this number, the same in every process.
    ///
    /// # Panics
    /// Never: each number makes a valid key.
    pub fn key(number: usize) -> Self {
        let caller = Caller::User("ada".to_owned());
        let key = IdempotencyKey::parse(format!("key-{number}").as_bytes(), &KeyRules::default());
        let key = key.expect("letters and digits are a key");
        let id = StorageKey::derive("", &caller, Self::OPERATION, &key);
        Self {
            fingerprint: Fingerprint::of(&RequestHead::new("POST", "/charge"), b"{}"),
            owner: Owner::random(),
            lease: Duration::from_mins(1),
            caller,
            key,
            id,
        }
    }

    /// The same with another lease.
    #[must_use]
    pub fn with_lease(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }

    /// A claim of it.
    pub fn claim(&self) -> ClaimRequest<'_> {
        ClaimRequest {
            key: &self.id,
            owner: self.owner,
            fingerprint: &self.fingerprint,
            lease: self.lease,
            ttl: Duration::from_mins(1),
            takeover: Takeover::Allowed,
            audit: self.audit(),
        }
    }

    /// What a claim that was acquired holds.
    pub fn lease(&self, grant: Grant) -> LeaseRef<'_> {
        LeaseRef {
            key: &self.id,
            owner: self.owner,
            grant: Some(grant),
            fingerprint: &self.fingerprint,
            lease: self.lease,
            audit: self.audit(),
        }
    }

    fn audit(&self) -> Audit<'_> {
        Audit {
            namespace: "",
            operation: Self::OPERATION,
            caller: &self.caller,
            key: &self.key,
        }
    }
}

/// Opens the store at a URL, with the records of this prefix or table.
///
/// # Panics
/// If it cannot be opened.
pub async fn open(url: &str, place: &str) -> Arc<dyn Store> {
    // The machine is busy with two processes and their server.
    let patience = Duration::from_secs(20);
    if url.starts_with("redis") {
        let options = RedisStoreOptions::default()
            .with_prefix(place)
            .with_timeout(patience);
        let store = RedisStore::connect_with(url, options).await;
        Arc::new(store.expect("the store opens"))
    } else {
        let options = PostgresStoreOptions::default()
            .with_table(place)
            .with_migration()
            .with_timeout(patience)
            .with_lock_timeout(patience);
        let store = PostgresStore::connect_with(url, options).await;
        Arc::new(store.expect("the store opens"))
    }
}
