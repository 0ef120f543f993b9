//! The store under a scenario: any of ours, watched, and made to stall or fail where the scenario
//! says so.

use std::{fmt, io, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use idem_core::{
    MemoryStore, MemoryStoreOptions, PostgresStore, PostgresStoreOptions, Record, RedisStore,
    RedisStoreOptions, StorageKey, Store, StoreError,
    store::{
        Claim, ClaimRequest, Completion, Fence, LeaseRef, Release, Released, Renewal, Resolve,
        Resolved, Summary,
    },
};
use idem_services::{Postgres, Redis};
use tokio::{sync::watch, time::Instant};

use crate::{
    clock::Clock,
    in_time,
    world::{Setup, Time},
};

/// How long a store on the same machine may take when many scenarios run at once. The engine has a limit
/// of its own, and that is the one that scenarios are about.
const PATIENCE: Duration = Duration::from_secs(10);

const ANSWERS: &str = "the store answers";

/// A store, and what goes on between it and the engines that share it.
#[derive(Clone)]
pub struct TestStore {
    shared: Arc<Shared>,
    /// The handle of a lease keeper, with a connection of its own.
    reopened: Option<Arc<dyn Store>>,
}

struct Shared {
    backend: Backend,
    traffic: [watch::Sender<Traffic>; 5],
}

/// The store itself, and the way to turn its time.
#[derive(Debug)]
pub(crate) enum Backend {
    /// The embedded one, with its clock unless it goes by the real one.
    Memory(MemoryStore, Option<Clock>),
    /// One over Redis, with a prefix of its own.
    Redis(RedisStore),
    /// One over Postgres, with a table of its own.
    Postgres(PostgresStore),
    /// One that the scenario has opened, by the real time.
    Opened(Arc<dyn Store>),
}

impl Backend {
    /// The embedded store.
    pub(crate) fn memory(setup: &Setup) -> Self {
        let mut options = MemoryStoreOptions::default();
        if let Some(records) = setup.max_records {
            options = options.with_max_records(records);
        }
        if let Some(bytes) = setup.max_bytes {
            options = options.with_max_bytes(bytes);
        }
        let make = move || MemoryStore::with_options(options);
        match setup.time {
            Time::Real => Self::Memory(make(), None),
            Time::Turned => {
                let (clock, store) = Clock::with(make);
                Self::Memory(store, Some(clock))
            }
        }
    }

    /// A store over the Redis that all scenarios share.
    pub(crate) async fn redis() -> Self {
        let redis = Redis::shared().await;
        let options = RedisStoreOptions::default()
            .with_prefix(format!("idem:{:016x}:", rand::random::<u64>()))
            .with_timeout(PATIENCE);
        let store = RedisStore::connect_with(&redis.url(), options).await;
        Self::Redis(store.expect("the store opens"))
    }

    /// A store over the Postgres that all scenarios share.
    pub(crate) async fn postgres() -> Self {
        let postgres = Postgres::shared().await;
        let options = PostgresStoreOptions::default()
            .with_table(format!("idem_{:016x}", rand::random::<u64>()))
            .with_migration()
            .with_keep_expired(Duration::ZERO)
            .with_max_connections(4)
            .with_timeout(PATIENCE)
            .with_lock_timeout(PATIENCE);
        let store = PostgresStore::connect_with(&postgres.url(), options).await;
        Self::Postgres(store.expect("the store opens"))
    }
}

/// A call that a scenario watches, holds or lets fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreCall {
    /// Claiming a key.
    Claim,
    /// Renewing leases.
    Renew,
    /// Storing an outcome.
    Complete,
    /// Giving a claim up.
    Release,
    /// Waiting for another attempt.
    Wait,
}

/// The calls of one kind.
#[derive(Debug, Default)]
struct Traffic {
    under_way: usize,
    done: usize,
    held: bool,
    failing: usize,
}

impl TestStore {
    pub(crate) fn new(backend: Backend) -> Self {
        Self {
            shared: Arc::new(Shared {
                backend,
                traffic: std::array::from_fn(|_| watch::Sender::default()),
            }),
            reopened: None,
        }
    }

    /// The same store over a connection of its own, which lives where this is called.
    pub(crate) async fn again(&self) -> Result<Self, StoreError> {
        Ok(Self {
            shared: Arc::clone(&self.shared),
            reopened: Some(self.inner().reopen().await?),
        })
    }

    /// How many calls of this kind are on their way.
    pub fn under_way(&self, call: StoreCall) -> usize {
        self.traffic(call).borrow().under_way
    }

    /// Waits until so many calls of this kind are on their way, neither more nor fewer.
    ///
    /// # Panics
    /// If that does not come to be.
    pub async fn until_under_way(&self, call: StoreCall, calls: usize) {
        self.until(call, |traffic| traffic.under_way == calls).await;
    }

    /// How many calls of this kind the store has done.
    pub fn done(&self, call: StoreCall) -> usize {
        self.traffic(call).borrow().done
    }

    /// Waits until the store has done so many calls of this kind.
    ///
    /// # Panics
    /// If it never has.
    pub async fn until_done(&self, call: StoreCall, calls: usize) {
        self.until(call, |traffic| traffic.done >= calls).await;
    }

    async fn until(&self, call: StoreCall, wanted: impl Fn(&Traffic) -> bool) {
        let mut traffic = self.traffic(call).subscribe();
        let reached = traffic.wait_for(wanted);
        // The sender lives in `self`.
        let _ = in_time("the calls of the store", reached).await;
    }

    /// Holds the calls of this kind before they reach the store, from now on.
    pub fn hold(&self, call: StoreCall) {
        self.traffic(call)
            .send_modify(|traffic| traffic.held = true);
    }

    /// Lets those that were held go on.
    pub fn pass(&self, call: StoreCall) {
        self.traffic(call)
            .send_modify(|traffic| traffic.held = false);
    }

    /// Lets the next calls of this kind fail before they reach the store.
    pub fn fail(&self, call: StoreCall, times: usize) {
        self.traffic(call)
            .send_modify(|traffic| traffic.failing = times);
    }

    /// Puts other bytes in the place of a stored response; gives those that were there.
    pub async fn swap_response(&self, key: &StorageKey, bytes: Bytes) -> Option<Bytes> {
        match &self.shared.backend {
            Backend::Memory(store, _) => store.swap_response(key, bytes),
            Backend::Redis(store) => store.swap_response(key, bytes).await.expect(ANSWERS),
            Backend::Postgres(store) => store.swap_response(key, bytes).await.expect(ANSWERS),
            Backend::Opened(_) => None,
        }
    }

    /// Lets the time of the store pass.
    pub(crate) async fn advance(&self, by: Duration) {
        match &self.shared.backend {
            Backend::Memory(_, clock) => {
                let clock = clock.as_ref();
                clock.expect("a clock that can be turned").advance(by);
            }
            Backend::Redis(store) => store.advance(by).await.expect(ANSWERS),
            Backend::Postgres(store) => store.advance(by).await.expect(ANSWERS),
            Backend::Opened(_) => panic!("the time of this store is the real one"),
        }
    }

    /// How many records it holds, with those that have expired and were not dropped yet.
    pub(crate) async fn records(&self) -> usize {
        match &self.shared.backend {
            Backend::Memory(store, _) => store.len(),
            Backend::Redis(store) => store.records().await.expect(ANSWERS),
            Backend::Postgres(store) => store.records().await.expect(ANSWERS),
            Backend::Opened(_) => panic!("the records of this store are not counted"),
        }
    }

    fn traffic(&self, call: StoreCall) -> &watch::Sender<Traffic> {
        &self.shared.traffic[call as usize]
    }

    fn inner(&self) -> &dyn Store {
        if let Some(reopened) = &self.reopened {
            return reopened;
        }
        match &self.shared.backend {
            Backend::Memory(store, _) => store,
            Backend::Redis(store) => store,
            Backend::Postgres(store) => store,
            Backend::Opened(store) => store,
        }
    }

    async fn watched<T>(
        &self,
        kind: StoreCall,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let traffic = self.traffic(kind);
        let _here = UnderWay::begin(traffic);
        // The sender lives in `self`.
        let _ = traffic.subscribe().wait_for(|traffic| !traffic.held).await;
        let fails = traffic.send_if_modified(|traffic| {
            let fails = traffic.failing > 0;
            traffic.failing = traffic.failing.saturating_sub(1);
            fails
        });
        if fails {
            let cause = io::Error::other("the scenario says so");
            return Err(StoreError::unavailable("test", cause));
        }
        let answer = call.await;
        traffic.send_modify(|traffic| traffic.done += 1);
        answer
    }
}

/// A call on its way, also when it is dropped there.
struct UnderWay<'a>(&'a watch::Sender<Traffic>);

impl<'a> UnderWay<'a> {
    fn begin(traffic: &'a watch::Sender<Traffic>) -> Self {
        traffic.send_modify(|traffic| traffic.under_way += 1);
        Self(traffic)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|traffic| traffic.under_way -= 1);
    }
}

impl fmt::Debug for TestStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.backend.fmt(f)
    }
}

#[async_trait]
impl Store for TestStore {
    async fn claim(&self, claim: &ClaimRequest<'_>) -> Result<Claim, StoreError> {
        self.watched(StoreCall::Claim, self.inner().claim(claim))
            .await
    }

    async fn renew(&self, leases: &[LeaseRef<'_>]) -> Result<Vec<Renewal>, StoreError> {
        self.watched(StoreCall::Renew, self.inner().renew(leases))
            .await
    }

    async fn complete(
        &self,
        lease: &LeaseRef<'_>,
        record: &Record,
        ttl: Duration,
    ) -> Result<Completion, StoreError> {
        let call = self.inner().complete(lease, record, ttl);
        self.watched(StoreCall::Complete, call).await
    }

    async fn release(&self, lease: &LeaseRef<'_>, how: Release) -> Result<Released, StoreError> {
        self.watched(StoreCall::Release, self.inner().release(lease, how))
            .await
    }

    async fn inspect(&self, key: &StorageKey) -> Result<Option<Summary>, StoreError> {
        self.inner().inspect(key).await
    }

    async fn resolve(
        &self,
        key: &StorageKey,
        expected: Fence,
        how: Resolve,
    ) -> Result<Resolved, StoreError> {
        self.inner().resolve(key, expected, how).await
    }

    async fn changed(&self, key: &StorageKey, until: Instant) -> Result<(), StoreError> {
        self.watched(StoreCall::Wait, self.inner().changed(key, until))
            .await
    }

    async fn purge(&self, limit: u32) -> Result<u64, StoreError> {
        self.inner().purge(limit).await
    }

    async fn reopen(&self) -> Result<Arc<dyn Store>, StoreError> {
        Ok(Arc::new(self.again().await?))
    }
}
