//! An attempt at a key, as an engine makes it.

use std::time::Duration;

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
pub(crate) const NAMESPACE: &str = "shop";
pub(crate) const OPERATION: &str = "POST /payments";

#[derive(Debug, Clone)]
pub(crate) struct Attempt {
    pub(crate) key: IdempotencyKey,
    pub(crate) caller: Caller,
    pub(crate) id: StorageKey,
    pub(crate) owner: Owner,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) lease: Duration,
    pub(crate) ttl: Duration,
    pub(crate) takeover: Takeover,
    pub(crate) grant: Option<Grant>,
}

impl Attempt {
    /// The first attempt at a key of its own.
    pub(crate) fn fresh() -> Self {
        Self::at(&format!("{:032x}", rand::random::<u128>()))
    }

    /// The first attempt at this key.
    pub(crate) fn at(key: &str) -> Self {
        let key = IdempotencyKey::parse(key.as_bytes(), &KeyRules::default()).expect("a key");
        let caller = Caller::User("ada@example.com".into());
        Self {
            id: StorageKey::derive(NAMESPACE, &caller, OPERATION, &key),
            key,
            caller,
            owner: Owner::random(),
            fingerprint: Fingerprint::of(&RequestHead::new("POST", "/payments"), b"{}"),
            lease: LONG,
            ttl: LONG,
            takeover: Takeover::Allowed,
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
        let fingerprint = Fingerprint::of(&RequestHead::new("POST", "/payments"), b"[]");
        Self {
            fingerprint,
            ..self.rival()
        }
    }

    fn audit(&self) -> Audit<'_> {
        Audit {
            namespace: NAMESPACE,
            operation: OPERATION,
            caller: &self.caller,
            key: &self.key,
        }
    }

    pub(crate) fn as_claim(&self) -> ClaimRequest<'_> {
        ClaimRequest {
            key: &self.id,
            owner: self.owner,
            fingerprint: &self.fingerprint,
            lease: self.lease,
            ttl: self.ttl,
            takeover: self.takeover,
            audit: self.audit(),
        }
    }

    pub(crate) fn as_lease(&self) -> LeaseRef<'_> {
        LeaseRef {
            key: &self.id,
            owner: self.owner,
            grant: self.grant,
            fingerprint: &self.fingerprint,
            lease: self.lease,
            audit: self.audit(),
        }
    }

    pub(crate) async fn claim(&self, store: &dyn Store) -> Result<Claim, StoreError> {
        store.claim(&self.as_claim()).await
    }

    /// Claims and keeps the grant.
    pub(crate) async fn acquire(&mut self, store: &dyn Store) -> Grant {
        match self.claim(store).await.expect("the store answers") {
            Claim::Acquired { grant } => {
                self.grant = Some(grant);
                grant
            }
            other => panic!("expected the key to be acquired, got {other:?}"),
        }
    }

    pub(crate) async fn complete(
        &self,
        store: &dyn Store,
        record: &Record,
    ) -> Result<Completion, StoreError> {
        store.complete(&self.as_lease(), record, self.ttl).await
    }

    pub(crate) async fn release(
        &self,
        store: &dyn Store,
        how: Release,
    ) -> Result<Released, StoreError> {
        store.release(&self.as_lease(), how).await
    }

    pub(crate) async fn renew(&self, store: &dyn Store) -> Result<Renewal, StoreError> {
        let renewals = store.renew(&[self.as_lease()]).await?;
        Ok(renewals[0])
    }
}

/// A record that is told from others by its text.
pub(crate) fn record(text: impl Into<String>) -> Record {
    let text = text.into();
    Record {
        reference: Some(text.clone()),
        ..Record::new(201, text).with_header("location", "/payments/7")
    }
}

/// A claim that found this record.
pub(crate) fn completed(record: &Record) -> Claim {
    Claim::Completed {
        record: Box::new(record.clone()),
    }
}

/// An error with all of its causes.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
