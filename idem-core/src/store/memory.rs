//! The embedded store: one process, bounded, and the reference model for the others.
//!
//! Records lie in shards, each under a lock of its own that is held for one step and never across
//! an `await`. A shard is told the time; only the [`Clock`] reads it.
//!
//! Invariant: nothing that has not expired is ever dropped. A record that made room for another
//! would be a second charge, so that a full store refuses new keys instead.

mod clock;
mod room;
mod row;
mod shard;
#[cfg(test)]
mod tests;
mod waiters;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::time::{Instant, timeout_at};

use self::{
    clock::{Clock, Moment},
    room::{NoRoom, Reserved, Room},
    row::{Decision, Found, Row},
    shard::Shard,
};
use crate::{
    error::StoreError,
    key::StorageKey,
    record::Record,
    store::{
        Claim, ClaimRequest, Completion, Fence, LeaseRef, Release, Released, Renewal, Resolve,
        Resolved, Store, Summary,
    },
};

/// What errors call this store.
const NAME: &str = "memory";
/// The number of locks.
const SHARDS: usize = 64;
/// How many records are dropped at most under one lock.
const DROPPED_AT_ONCE: usize = 64;

/// The embedded store: its records live in this process and end with it.
///
/// A clone is another handle on the same records. The time is that of the tokio runtime in which
/// the store was made, so that a test can pause it.
///
/// The store is bounded, and nothing that has not expired is ever dropped to make room:
///
/// * A new key is refused with [`StoreError::Full`] when there is no room and nothing has expired.
///   Keys that are known go on.
/// * A response that finds no room is stored without its body: a retry is told so, and the handler
///   does not run again.
/// * A record that vanished before its attempt ended is restored even if there is no room.
///
/// # Examples
/// ```
/// use idem_core::{MemoryStore, MemoryStoreOptions};
///
/// let store = MemoryStore::new();
/// assert!(store.is_empty());
///
/// let options = MemoryStoreOptions::default().with_max_records(1_000);
/// let small = MemoryStore::with_options(options);
/// assert_eq!((small.len(), small.bytes()), (0, 0));
/// ```
#[derive(Clone)]
pub struct MemoryStore(Arc<Shared>);

/// What all handles share.
struct Shared {
    shards: Box<[Mutex<Shard>]>,
    room: Arc<Room>,
    clock: Clock,
}

/// How much a [`MemoryStore`] may hold.
///
/// # Examples
/// ```
/// use idem_core::MemoryStoreOptions;
///
/// let options = MemoryStoreOptions::default().with_max_bytes(64 * 1024 * 1024);
/// assert_eq!(options.max_records, 100_000);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStoreOptions {
    /// The most records; 100 000 by default.
    pub max_records: usize,
    /// The most bytes, with what the store itself needs for a record; 256 MiB by default.
    pub max_bytes: usize,
}

impl MemoryStoreOptions {
    /// Sets the most records.
    #[must_use]
    pub fn with_max_records(self, max_records: usize) -> Self {
        Self {
            max_records,
            ..self
        }
    }

    /// Sets the most bytes.
    #[must_use]
    pub fn with_max_bytes(self, max_bytes: usize) -> Self {
        Self { max_bytes, ..self }
    }
}

impl Default for MemoryStoreOptions {
    fn default() -> Self {
        Self {
            max_records: 100_000,
            max_bytes: 256 * 1024 * 1024,
        }
    }
}

impl MemoryStore {
    /// An empty store with the default bounds: 100 000 records, 256 MiB.
    pub fn new() -> Self {
        Self::with_options(MemoryStoreOptions::default())
    }

    /// An empty store with these bounds.
    pub fn with_options(options: MemoryStoreOptions) -> Self {
        let room = Arc::new(Room::new(options));
        let shard = || Mutex::new(Shard::new(Arc::clone(&room)));
        Self(Arc::new(Shared {
            shards: (0..SHARDS).map(|_| shard()).collect(),
            room,
            clock: Clock::of_this_runtime(),
        }))
    }

    /// How many records it holds, with those that have expired and were not dropped yet.
    pub fn len(&self) -> usize {
        self.0.room.records()
    }

    /// Whether it holds nothing, not even what has expired.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many bytes it holds, with what the store itself needs for a record.
    pub fn bytes(&self) -> usize {
        self.0.room.bytes()
    }

    /// Puts other bytes in the place of a stored response, for tests of what happens then; answers
    /// with the bytes that were there.
    #[cfg(any(test, feature = "conformance"))]
    #[doc(hidden)]
    pub fn swap_response(&self, key: &StorageKey, bytes: Bytes) -> Option<Bytes> {
        self.0.step(key, |shard, now| {
            shard.change(key, now, |row| row.swap_response(bytes))?
        })
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("room", &self.0.room)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn claim(&self, claim: &ClaimRequest<'_>) -> Result<Claim, StoreError> {
        let found = self
            .0
            .with_room(|| self.0.step(claim.key, |shard, now| shard.claim(claim, now)))
            .map_err(|NoRoom| StoreError::Full { store: NAME })?;
        Ok(match found {
            Found::Claim(claim) => claim,
            Found::Response(bytes) => match Record::decode(bytes) {
                Ok(record) => Claim::Completed {
                    record: Box::new(record),
                },
                Err(unreadable) => Claim::Unreadable(unreadable),
            },
        })
    }

    async fn renew(&self, leases: &[LeaseRef<'_>]) -> Result<Vec<Renewal>, StoreError> {
        let renew = |lease: &LeaseRef<'_>| {
            self.0
                .change(lease.key, |row, now| row.renew(lease, now))
                .unwrap_or(Renewal::Gone)
        };
        Ok(leases.iter().map(renew).collect())
    }

    async fn complete(
        &self,
        lease: &LeaseRef<'_>,
        record: &Record,
        ttl: Duration,
    ) -> Result<Completion, StoreError> {
        let (response, _reserved) = self.0.fit(record)?;
        let completion = self.0.step(lease.key, |shard, now| {
            shard.complete(lease, &response, ttl, now)
        });
        if completion == Completion::Restored {
            // It was let in; what has expired, here or in another shard, makes way for it now.
            let _ = self.0.with_room(|| self.0.room.suffices());
        }
        Ok(completion)
    }

    async fn release(&self, lease: &LeaseRef<'_>, how: Release) -> Result<Released, StoreError> {
        Ok(self
            .0
            .change(lease.key, |row, now| row.release(lease.owner, how, now))
            .unwrap_or(Released::Gone))
    }

    async fn inspect(&self, key: &StorageKey) -> Result<Option<Summary>, StoreError> {
        let found = self
            .0
            .change(key, |row, now| (row.summary(now), row.response().cloned()));
        Ok(found.map(|(summary, response)| {
            // The rest of a record that cannot be read is still worth knowing.
            match response.map(Record::decode) {
                Some(Ok(record)) => Summary {
                    status: Some(record.status),
                    reference: record.reference,
                    ..summary
                },
                Some(Err(_)) | None => summary,
            }
        }))
    }

    async fn resolve(
        &self,
        key: &StorageKey,
        expected: Fence,
        how: Resolve,
    ) -> Result<Resolved, StoreError> {
        let (decision, _reserved) = match how {
            Resolve::Complete { record, ttl } => {
                let (response, reserved) = self.0.fit(&record)?;
                (Decision::Complete { response, ttl }, Some(reserved))
            }
            Resolve::Release => (Decision::Release, None),
            Resolve::Forget => (Decision::Forget, None),
        };
        Ok(self
            .0
            .change(key, |row, now| row.resolve(expected, decision, now))
            .unwrap_or(Resolved::Gone))
    }

    async fn changed(&self, key: &StorageKey, until: Instant) -> Result<(), StoreError> {
        if let Some((wait, left)) = self.0.change(key, Row::wait).flatten() {
            // A lease that lapses wakes nobody. `left` is of our clock and `until` of the caller's,
            // which differ where one of the two is paused; a duration means the same on both.
            let lapse = Instant::now().checked_add(left).unwrap_or(until);
            // Over or not, the caller claims again.
            let _ = timeout_at(until.min(lapse), wait.over()).await;
        }
        Ok(())
    }

    async fn purge(&self, limit: u32) -> Result<u64, StoreError> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut purged = 0;
        loop {
            let dropped = self.0.drop_expired(limit - purged);
            purged += dropped;
            if dropped == 0 || purged == limit {
                break Ok(purged as u64);
            }
        }
    }

    async fn reopen(&self) -> Result<Arc<dyn Store>, StoreError> {
        Ok(Arc::new(self.clone()))
    }
}

impl Shared {
    /// Carries one step out, at one moment, under the lock of the key's shard.
    fn step<T>(&self, key: &StorageKey, step: impl FnOnce(&mut Shard, Moment) -> T) -> T {
        let shard = usize::from(key.as_bytes()[0]) % SHARDS;
        self.locked(&self.shards[shard], step)
    }

    /// The step that changes one live row, if there is one.
    fn change<T>(&self, key: &StorageKey, change: impl FnOnce(&mut Row, Moment) -> T) -> Option<T> {
        self.step(key, |shard, now| {
            shard.change(key, now, |row| change(row, now))
        })
    }

    /// The clock is read under the lock, so that the steps of a shard are in the order of time.
    fn locked<T>(&self, shard: &Mutex<Shard>, step: impl FnOnce(&mut Shard, Moment) -> T) -> T {
        let (answer, woken) = {
            let mut shard = lock(shard);
            let now = self.clock.now();
            (step(&mut shard, now), shard.take_woken())
        };
        // Wakers are code of others: they run without the lock.
        drop(woken);
        answer
    }

    /// Tries again as long as there is no room and something expired can make some.
    fn with_room<T>(&self, mut attempt: impl FnMut() -> Result<T, NoRoom>) -> Result<T, NoRoom> {
        loop {
            match attempt() {
                Err(NoRoom) if self.drop_expired(DROPPED_AT_ONCE) > 0 => {}
                answer => return answer,
            }
        }
    }

    /// Drops at most `limit` expired records, few under each lock, and says how many it found.
    fn drop_expired(&self, limit: usize) -> usize {
        let mut dropped = 0;
        for shard in &self.shards {
            if dropped == limit {
                break;
            }
            let at_once = DROPPED_AT_ONCE.min(limit - dropped);
            dropped += self.locked(shard, |shard, now| shard.drop_expired(now, at_once));
        }
        dropped
    }

    /// The bytes of a record, with room for them. One that finds none is stored without its body:
    /// that its key is completed comes before the bound.
    fn fit(&self, record: &Record) -> Result<(Bytes, Reserved<'_>), StoreError> {
        if let Ok(whole) = record.encode()
            && let Ok(reserved) = self.with_room(|| self.room.reserve(whole.len()))
        {
            return Ok((whole, reserved));
        }
        let remnant = record
            .remnant()
            .encode()
            .map_err(|too_large| StoreError::unavailable(NAME, too_large))?;
        let reserved = self.room.reserve_anyway(remnant.len());
        Ok((remnant, reserved))
    }
}

/// A step runs no code of others and leaves nothing half-way, so that a panic of the thread that
/// held the lock says nothing about the rows.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
