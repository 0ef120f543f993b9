//! An attempt as a test writes it, and the calls that it makes.

use std::{sync::Arc, time::Duration};

use idem_core::{
    Caller, Fingerprint, IdempotencyKey, KeyRules, Record, RequestHead, StorageKey, Store,
    StoreError,
    store::{
        Audit, Claim, ClaimRequest, Completion, Grant, LeaseRef, Owner, Release, Released, Renewal,
        Takeover,
    },
};

/// A lease or a life that does not end during a test.
pub(crate) const LONG: Duration = Duration::from_mins(10);
pub(crate) const OPERATION: &str = "POST /payments";
pub(crate) const CALLER: &str = "ada@example.com";

#[derive(Debug)]
struct Key {
    client: IdempotencyKey,
    caller: Caller,
    storage: StorageKey,
}

/// One attempt at a key.
#[derive(Debug, Clone)]
pub(crate) struct Attempt {
    key: Arc<Key>,
    pub(crate) owner: Owner,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) lease: Duration,
    pub(crate) ttl: Duration,
    pub(crate) grant: Option<Grant>,
}

impl Attempt {
    /// The first attempt at a key of its own.
    pub(crate) fn fresh() -> Self {
        Self::at(&uuid::Uuid::from_u128(rand::random()).to_string())
    }

    /// The first attempt at this key.
    pub(crate) fn at(key: &str) -> Self {
        let client = IdempotencyKey::parse(key.as_bytes(), &KeyRules::default());
        let client = client.expect("a key");
        let caller = Caller::User(CALLER.into());
        let storage = StorageKey::derive("", &caller, OPERATION, &client);
        let key = Key {
            client,
            caller,
            storage,
        };
        Self {
            key: Arc::new(key),
            owner: Owner::random(),
            fingerprint: fingerprint(b"{\"amount\":100}"),
            lease: LONG,
            ttl: LONG,
            grant: None,
        }
    }

    /// Another attempt of the same request, by somebody else.
    pub(crate) fn rival(&self) -> Self {
        Self {
            owner: Owner::random(),
            grant: None,
            ..self.clone()
        }
    }

    /// An attempt of another request under the same key.
    pub(crate) fn stranger(&self) -> Self {
        Self {
            fingerprint: fingerprint(b"{\"amount\":101}"),
            ..self.rival()
        }
    }

    pub(crate) fn with_lease(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }

    pub(crate) fn with_ttl(self, ttl: Duration) -> Self {
        Self { ttl, ..self }
    }

    pub(crate) fn key(&self) -> &StorageKey {
        &self.key.storage
    }

    /// The client's key.
    pub(crate) fn client_key(&self) -> &str {
        self.key.client.as_str()
    }

    pub(crate) fn audit(&self) -> Audit<'_> {
        Audit {
            namespace: "",
            operation: OPERATION,
            caller: &self.key.caller,
            key: &self.key.client,
        }
    }

    pub(crate) fn as_claim(&self) -> ClaimRequest<'_> {
        ClaimRequest {
            key: self.key(),
            owner: self.owner,
            fingerprint: &self.fingerprint,
            lease: self.lease,
            ttl: self.ttl,
            takeover: Takeover::Allowed,
            audit: self.audit(),
        }
    }

    pub(crate) fn as_lease(&self) -> LeaseRef<'_> {
        LeaseRef {
            key: self.key(),
            owner: self.owner,
            grant: self.grant,
            fingerprint: &self.fingerprint,
            lease: self.lease,
            audit: self.audit(),
        }
    }

    pub(crate) async fn try_claim(&self, store: &dyn Store) -> Result<Claim, StoreError> {
        store.claim(&self.as_claim()).await
    }

    pub(crate) async fn claim(&self, store: &dyn Store) -> Claim {
        self.try_claim(store).await.expect("the store answers")
    }

    /// Claims, and keeps the grant.
    pub(crate) async fn acquire(&mut self, store: &dyn Store) -> Grant {
        let Claim::Acquired { grant } = self.claim(store).await else {
            panic!("the key is not acquired");
        };
        self.grant = Some(grant);
        grant
    }

    pub(crate) async fn complete(&self, store: &dyn Store, record: &Record) -> Completion {
        let completion = store.complete(&self.as_lease(), record, self.ttl).await;
        completion.expect("the store answers")
    }

    pub(crate) async fn release(&self, store: &dyn Store, how: Release) -> Released {
        let released = store.release(&self.as_lease(), how).await;
        released.expect("the store answers")
    }

    pub(crate) async fn renew(&self, store: &dyn Store) -> Renewal {
        let renewals = store.renew(&[self.as_lease()]).await;
        renewals.expect("the store answers")[0]
    }
}

fn fingerprint(body: &[u8]) -> Fingerprint {
    Fingerprint::of(&RequestHead::new("POST", "/payments"), body)
}

pub(crate) fn paid() -> Record {
    Record::new(201, "{\"paid\":100}").with_header("content-type", "application/json")
}

/// A record that takes so many bytes.
pub(crate) fn record_of(bytes: usize) -> Record {
    let record = |body| Record::new(201, "x".repeat(body));
    let head = record(0).encode().expect("it can be written").len();
    record(bytes - head)
}

#[track_caller]
pub(crate) fn completed(claim: Claim) -> Record {
    match claim {
        Claim::Completed { record } => *record,
        other => panic!("expected a completed key, got {other:?}"),
    }
}

#[track_caller]
pub(crate) fn in_progress(claim: Claim) -> (Grant, Duration) {
    match claim {
        Claim::InProgress { grant, left } => (grant, left),
        other => panic!("expected an attempt in progress, got {other:?}"),
    }
}
