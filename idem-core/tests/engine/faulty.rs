//! A store that fails when it is told to.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use idem_core::{
    Caller, Fingerprint, IdempotencyKey, KeyRules, MemoryStore, Record, StorageKey, Store,
    StoreError,
    store::{
        Audit, Claim, ClaimRequest, Completion, Fence, LeaseRef, Owner, Release, Released, Renewal,
        Resolve, Resolved, Summary, Takeover,
    },
};
use tokio::{sync::watch, time::Instant};

/// A call of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Claim,
    Renew,
    Complete,
    Release(Release),
    Purge,
    Changed,
    Reopen,
}

/// What goes wrong with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It does not reach the store.
    Unreachable,
    /// It is done, and its reply is lost.
    ReplyLost,
    /// It is never answered and never done.
    Hangs,
    /// It waits until [`FaultyStore::let_pass`], and is then done.
    Delayed,
    /// It is done, and its reply waits until [`FaultyStore::let_pass`].
    ReplyDelayed,
    /// It is done, and its reply takes ten milliseconds.
    ReplySlow,
    /// The store panics.
    Panics,
    /// The store has no room.
    Full,
}

/// A memory store whose calls are recorded, and fail by a plan.
#[derive(Debug, Clone)]
pub(crate) struct FaultyStore {
    pub(crate) inner: MemoryStore,
    plan: Arc<Mutex<VecDeque<(Kind, Fault)>>>,
    calls: Arc<Mutex<Vec<Call>>>,
    passing: Arc<watch::Sender<bool>>,
    hanging: Arc<Hanging>,
    last_claim: Arc<Mutex<Option<(StorageKey, Owner, Fingerprint)>>>,
    /// Whether there is always more to purge, and each batch takes its time.
    pub(crate) endless_purge: Arc<AtomicBool>,
    /// How many renewals know nothing of any lease.
    pub(crate) unanswered: Arc<AtomicUsize>,
}

/// The calls that hang hold it.
#[derive(Debug, Default)]
struct Hanging(Arc<()>);

/// The kinds of calls that a plan can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Claim,
    Renew,
    Complete,
    Release,
    Changed,
    Reopen,
}

impl FaultyStore {
    pub(crate) fn new() -> Self {
        Self {
            inner: MemoryStore::new(),
            plan: Arc::default(),
            calls: Arc::default(),
            passing: Arc::new(watch::Sender::new(false)),
            hanging: Arc::default(),
            last_claim: Arc::default(),
            endless_purge: Arc::default(),
            unanswered: Arc::default(),
        }
    }

    /// The next calls of this kind go wrong so, one after the other.
    pub(crate) fn fail<const N: usize>(&self, kind: Kind, faults: [Fault; N]) {
        lock(&self.plan).extend(faults.map(|fault| (kind, fault)));
    }

    /// Lets what is delayed pass.
    pub(crate) fn let_pass(&self) {
        self.passing.send_replace(true);
    }

    /// Carries out the last claim, which its sender has given up.
    pub(crate) async fn land_last_claim(&self) {
        let claimed = *lock(&self.last_claim);
        let (id, owner, fingerprint) = claimed.expect("there was a claim");
        let key = IdempotencyKey::parse(b"late", &KeyRules::default());
        let audit = Audit {
            namespace: "",
            operation: "pay",
            caller: &Caller::Endpoint,
            key: &key.expect("a key"),
        };
        let late = ClaimRequest {
            key: &id,
            owner,
            fingerprint: &fingerprint,
            lease: Duration::from_secs(30),
            ttl: Duration::from_hours(24),
            takeover: Takeover::Allowed,
            audit,
        };
        let claimed = self.inner.claim(&late).await;
        assert!(matches!(claimed, Ok(Claim::Acquired { .. })), "{claimed:?}");
    }

    /// How many calls hang.
    pub(crate) fn hanging(&self) -> usize {
        Arc::strong_count(&self.hanging.0) - 1
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        lock(&self.calls).clone()
    }

    pub(crate) fn count(&self, call: Call) -> usize {
        self.calls().iter().filter(|made| **made == call).count()
    }

    async fn run<T>(
        &self,
        call: Call,
        kind: Option<Kind>,
        done: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        lock(&self.calls).push(call);
        let fault = {
            let mut plan = lock(&self.plan);
            let next = plan.iter().position(|(planned, _)| Some(*planned) == kind);
            next.and_then(|at| plan.remove(at)).map(|(_, fault)| fault)
        };
        let down = || StoreError::unavailable("faulty", std::io::Error::other("on purpose"));
        match fault {
            None => done.await,
            Some(Fault::Unreachable) => Err(down()),
            Some(Fault::ReplyLost) => {
                done.await?;
                Err(down())
            }
            Some(Fault::Hangs) => {
                let _hangs = Arc::clone(&self.hanging.0);
                std::future::pending().await
            }
            Some(Fault::Delayed) => {
                let _ = self.passing.subscribe().wait_for(|passing| *passing).await;
                done.await
            }
            Some(Fault::ReplyDelayed) => {
                let reply = done.await;
                let _ = self.passing.subscribe().wait_for(|passing| *passing).await;
                reply
            }
            Some(Fault::ReplySlow) => {
                let reply = done.await;
                tokio::time::sleep(Duration::from_millis(10)).await;
                reply
            }
            Some(Fault::Panics) => panic!("on purpose"),
            Some(Fault::Full) => Err(StoreError::Full { store: "faulty" }),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl Store for FaultyStore {
    async fn claim(&self, claim: &ClaimRequest<'_>) -> Result<Claim, StoreError> {
        *lock(&self.last_claim) = Some((*claim.key, claim.owner, *claim.fingerprint));
        self.run(Call::Claim, Some(Kind::Claim), self.inner.claim(claim))
            .await
    }

    async fn renew(&self, leases: &[LeaseRef<'_>]) -> Result<Vec<Renewal>, StoreError> {
        let countdown = |left: usize| left.checked_sub(1);
        let order = Ordering::SeqCst;
        if self
            .unanswered
            .fetch_update(order, order, countdown)
            .is_ok()
        {
            lock(&self.calls).push(Call::Renew);
            return Ok(vec![Renewal::Unanswered; leases.len()]);
        }
        self.run(Call::Renew, Some(Kind::Renew), self.inner.renew(leases))
            .await
    }

    async fn complete(
        &self,
        lease: &LeaseRef<'_>,
        record: &Record,
        ttl: Duration,
    ) -> Result<Completion, StoreError> {
        let done = self.inner.complete(lease, record, ttl);
        self.run(Call::Complete, Some(Kind::Complete), done).await
    }

    async fn release(&self, lease: &LeaseRef<'_>, how: Release) -> Result<Released, StoreError> {
        let done = self.inner.release(lease, how);
        self.run(Call::Release(how), Some(Kind::Release), done)
            .await
    }

    async fn inspect(&self, key: &StorageKey) -> Result<Option<Summary>, StoreError> {
        self.inner.inspect(key).await
    }

    async fn resolve(
        &self,
        key: &StorageKey,
        expected: Fence,
        how: Resolve,
    ) -> Result<Resolved, StoreError> {
        self.inner.resolve(key, expected, how).await
    }

    async fn changed(&self, key: &StorageKey, until: Instant) -> Result<(), StoreError> {
        let done = self.inner.changed(key, until);
        self.run(Call::Changed, Some(Kind::Changed), done).await
    }

    async fn purge(&self, limit: u32) -> Result<u64, StoreError> {
        if self.endless_purge.load(Ordering::SeqCst) {
            lock(&self.calls).push(Call::Purge);
            tokio::time::sleep(Duration::from_millis(900)).await;
            return Ok(u64::from(limit));
        }
        self.run(Call::Purge, None, self.inner.purge(limit)).await
    }

    async fn reopen(&self) -> Result<Arc<dyn Store>, StoreError> {
        let reopened: Arc<dyn Store> = Arc::new(self.clone());
        self.run(Call::Reopen, Some(Kind::Reopen), async { Ok(reopened) })
            .await
    }
}
