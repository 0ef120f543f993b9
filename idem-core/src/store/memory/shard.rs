//! One part of a memory store: its rows, and the order in which they expire.
//!
//! Invariant: every row is in `due` under its own expiry, and is counted in the room with its own
//! size. [`Shard::change`], [`Shard::insert`] and [`Shard::remove`] see to it, and nothing else
//! touches the two. No code of others runs in here, so that no step can end half-way.

use std::{collections::BTreeSet, mem, sync::Arc, time::Duration};

use bytes::Bytes;
use foldhash::HashMap;
use tokio::time::Instant;

use super::{
    clock::Moment,
    room::{NoRoom, Room},
    row::{Found, Row},
    waiters::Waiters,
};
use crate::{
    key::StorageKey,
    store::{Claim, ClaimRequest, Completion, Fence, Grant, LeaseRef},
};

/// How many expired rows a new one clears away: more than one, so that they become fewer.
const CLEARED_BY_CLAIM: usize = 2;

/// The rows whose keys share some bits.
#[derive(Debug)]
pub(super) struct Shard {
    rows: HashMap<StorageKey, Box<Row>>,
    due: BTreeSet<(Instant, StorageKey)>,
    /// The largest fence that was granted here, to rows that are gone as well.
    fence: u64,
    room: Arc<Room>,
    /// Those whose wait is over. They are woken after the lock is given up.
    woken: Vec<Waiters>,
}

impl Shard {
    pub(super) fn new(room: Arc<Room>) -> Self {
        Self {
            rows: HashMap::default(),
            due: BTreeSet::new(),
            fence: 0,
            room,
            woken: Vec::new(),
        }
    }

    /// Claims, and makes a row where there is none.
    pub(super) fn claim(&mut self, claim: &ClaimRequest<'_>, now: Moment) -> Result<Found, NoRoom> {
        let fence = self.next_fence(now);
        if let Some(found) = self.change(claim.key, now, |row| row.claim(claim, fence, now)) {
            return Ok(found);
        }
        self.remove(claim.key);
        self.drop_expired(now, CLEARED_BY_CLAIM);
        let grant = Grant { fence, attempt: 1 };
        let row = Row::claimed(claim, grant, now);
        self.room.admit(row.size())?;
        self.insert(*claim.key, row);
        Ok(Found::Claim(Claim::Acquired { grant }))
    }

    /// Completes, and makes a row where there is none: past the bounds if need be, since the
    /// effect happened, and only this answer keeps it from happening again.
    pub(super) fn complete(
        &mut self,
        lease: &LeaseRef<'_>,
        response: &Bytes,
        ttl: Duration,
        now: Moment,
    ) -> Completion {
        let complete = |row: &mut Row| row.complete(lease.owner, response, ttl, now);
        if let Some(completion) = self.change(lease.key, now, complete) {
            return completion;
        }
        self.remove(lease.key);
        let grant = lease.grant.unwrap_or_else(|| Grant {
            fence: self.next_fence(now),
            attempt: 1,
        });
        self.fence = self.fence.max(grant.fence.get());
        let row = Row::restored(lease, grant, response, ttl, now);
        self.room.admit_anyway(row.size());
        self.insert(*lease.key, row);
        Completion::Restored
    }

    /// Lets `change` have the row of this key, if there is a live one, and settles what follows
    /// from it.
    pub(super) fn change<T>(
        &mut self,
        key: &StorageKey,
        now: Moment,
        change: impl FnOnce(&mut Row) -> T,
    ) -> Option<T> {
        let row = self.rows.get_mut(key).filter(|row| row.is_live(now))?;
        let (expires_at, size, running) = (row.expires_at(), row.size(), row.running());
        let answer = change(row);
        self.room.resize(size, row.size());
        if row.expires_at() != expires_at {
            self.due.remove(&(expires_at, *key));
            self.due.insert((row.expires_at(), *key));
        }
        if row.running() != running {
            self.woken.extend(row.take_waiters());
        }
        if !row.is_live(now) {
            self.remove(key);
        }
        Some(answer)
    }

    /// Drops at most `limit` expired rows and says how many it found.
    pub(super) fn drop_expired(&mut self, now: Moment, limit: usize) -> usize {
        let mut dropped = 0;
        while dropped < limit
            && let Some(&(expires_at, key)) = self.due.first()
            && expires_at <= now.instant
        {
            self.remove(&key);
            dropped += 1;
        }
        dropped
    }

    /// Takes those out whose wait is over, to be woken.
    pub(super) fn take_woken(&mut self) -> Vec<Waiters> {
        mem::take(&mut self.woken)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.due.is_empty() && self.woken.is_empty()
    }

    /// The row was admitted.
    fn insert(&mut self, key: StorageKey, row: Row) {
        self.due.insert((row.expires_at(), key));
        self.rows.insert(key, Box::new(row));
    }

    fn remove(&mut self, key: &StorageKey) {
        if let Some(mut row) = self.rows.remove(key) {
            self.due.remove(&(row.expires_at(), *key));
            self.room.leave(row.size());
            self.woken.extend(row.take_waiters());
        }
    }

    /// The clock, as far as it is ahead of the fences that were granted before: so they grow over
    /// the end of a record too, and from one process to the next.
    fn next_fence(&mut self, now: Moment) -> Fence {
        self.fence = now.micros().max(self.fence.saturating_add(1));
        Fence::new(self.fence)
    }
}
