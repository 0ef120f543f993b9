//! An attempt as the properties write it: what an engine would keep of it, and the calls it makes.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use crate::{
    fingerprint::Fingerprint,
    key::{IdempotencyKey, KeyRules, StorageKey},
    record::Record,
    request::RequestHead,
    scope::Caller,
    store::{
        Audit, Claim, ClaimRequest, Completion, Grant, LeaseRef, Owner, Release, Released, Renewal,
        Store, Takeover,
    },
};

/// A lease or a life that does not end during a test.
pub(in crate::store) const LONG: Duration = Duration::from_mins(10);

pub(in crate::store) const NAMESPACE: &str = "conformance";
pub(in crate::store) const OPERATION: &str = "POST /payments";

/// A key that no other test has.
#[derive(Debug)]
struct Key {
    storage: StorageKey,
    client: IdempotencyKey,
    caller: Caller,
}

impl Key {
    fn fresh() -> Self {
        let digits = format!("{:032x}", rand::random::<u128>());
        let client = IdempotencyKey::parse(digits.as_bytes(), &KeyRules::default())
            .expect("32 hexadecimal digits are a key");
        let caller = Caller::User("user_7".into());
        let storage = StorageKey::derive(NAMESPACE, &caller, OPERATION, &client);
        Self {
            storage,
            client,
            caller,
        }
    }
}

/// One attempt at a key.
#[derive(Debug, Clone)]
pub(in crate::store) struct Attempt {
    key: Arc<Key>,
    pub(in crate::store) owner: Owner,
    pub(in crate::store) fingerprint: Fingerprint,
    pub(in crate::store) lease: Duration,
    pub(in crate::store) ttl: Duration,
    pub(in crate::store) takeover: Takeover,
    /// What its claim was granted.
    pub(in crate::store) grant: Option<Grant>,
}

impl Attempt {
    /// The first attempt at a key of its own. Its lease and its record outlive the test.
    pub(in crate::store) fn fresh() -> Self {
        Self {
            key: Arc::new(Key::fresh()),
            owner: Owner::random(),
            fingerprint: request(b"{\"amount\":100}"),
            lease: LONG,
            ttl: LONG,
            takeover: Takeover::Allowed,
            grant: None,
        }
    }

    /// Another attempt of the same request, by somebody else.
    pub(in crate::store) fn rival(&self) -> Self {
        Self {
            owner: Owner::random(),
            grant: None,
            ..self.clone()
        }
    }

    /// An attempt of another request under the same key.
    pub(in crate::store) fn stranger(&self) -> Self {
        Self {
            fingerprint: request(b"{\"amount\":101}"),
            ..self.rival()
        }
    }

    pub(in crate::store) fn with_lease(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }

    pub(in crate::store) fn with_ttl(self, ttl: Duration) -> Self {
        Self { ttl, ..self }
    }

    pub(in crate::store) fn without_takeover(self) -> Self {
        Self {
            takeover: Takeover::Refused,
            ..self
        }
    }

    pub(in crate::store) fn key(&self) -> &StorageKey {
        &self.key.storage
    }

    pub(in crate::store) fn key_hint(&self) -> Option<String> {
        self.key.client.hint()
    }

    fn audit(&self) -> Audit<'_> {
        Audit {
            namespace: NAMESPACE,
            operation: OPERATION,
            caller: &self.key.caller,
            key: &self.key.client,
        }
    }

    pub(in crate::store) fn as_lease(&self) -> LeaseRef<'_> {
        LeaseRef {
            key: self.key(),
            owner: self.owner,
            grant: self.grant,
            fingerprint: &self.fingerprint,
            lease: self.lease,
            audit: self.audit(),
        }
    }

    pub(in crate::store) fn as_claim(&self) -> ClaimRequest<'_> {
        ClaimRequest {
            key: self.key(),
            owner: self.owner,
            fingerprint: &self.fingerprint,
            lease: self.lease,
            ttl: self.ttl,
            takeover: self.takeover,
            audit: self.audit(),
        }
    }

    pub(in crate::store) async fn claim(&self, store: &Arc<dyn Store>) -> Claim {
        let claim = store.claim(&self.as_claim()).await;
        claim.expect("the store answers")
    }

    /// Claims and keeps the grant; the test ends here if the key is not acquired.
    pub(in crate::store) async fn acquire(&mut self, store: &Arc<dyn Store>) -> Grant {
        let grant = acquired(self.claim(store).await);
        self.grant = Some(grant);
        grant
    }

    pub(in crate::store) async fn renew(&self, store: &Arc<dyn Store>) -> Renewal {
        let renewals = store.renew(&[self.as_lease()]).await;
        let [renewal] = renewals.expect("the store answers")[..] else {
            panic!("one lease, one answer");
        };
        renewal
    }

    pub(in crate::store) async fn complete(
        &self,
        store: &Arc<dyn Store>,
        record: &Record,
    ) -> Completion {
        self.complete_for(store, record, LONG).await
    }

    pub(in crate::store) async fn complete_for(
        &self,
        store: &Arc<dyn Store>,
        record: &Record,
        ttl: Duration,
    ) -> Completion {
        let completion = store.complete(&self.as_lease(), record, ttl).await;
        completion.expect("the store answers")
    }

    pub(in crate::store) async fn release(&self, store: &Arc<dyn Store>, how: Release) -> Released {
        let released = store.release(&self.as_lease(), how).await;
        released.expect("the store answers")
    }
}

fn request(body: &[u8]) -> Fingerprint {
    Fingerprint::of(&RequestHead::new("POST", "/payments"), body)
}

/// A record that is told from others by its number.
pub(in crate::store) fn record(number: u8) -> Record {
    Record {
        reference: Some(format!("payment_{number}")),
        ..Record::new(201, Bytes::from(format!("{{\"payment\":{number}}}")))
            .with_header("location", format!("/payments/{number}"))
    }
}

#[track_caller]
pub(in crate::store) fn acquired(claim: Claim) -> Grant {
    match claim {
        Claim::Acquired { grant } => grant,
        other => panic!("expected the key to be acquired, got {other:?}"),
    }
}

#[track_caller]
pub(in crate::store) fn in_progress(claim: Claim) -> (Grant, Duration) {
    match claim {
        Claim::InProgress { grant, left } => (grant, left),
        other => panic!("expected an attempt in progress, got {other:?}"),
    }
}

#[track_caller]
pub(in crate::store) fn completed(claim: Claim) -> Record {
    match claim {
        Claim::Completed { record } => *record,
        other => panic!("expected a completed key, got {other:?}"),
    }
}
