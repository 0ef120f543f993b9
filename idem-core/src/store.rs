//! The contract of a store, on one page.
//!
//! Each call is one atomic step on the store's own clock, and answers with facts: what is there,
//! never what to do about it. Times are [`Duration`]s from end to end. No clock of the
//! application takes part in a comparison.
//!
//! A store must hold to this, and `conformance` tests it:
//!
//! * Of any number of concurrent claims of one key exactly one is [`Claim::Acquired`].
//! * A claim that is sent again with the same owner token is acquired again: the same attempt, whose
//!   lease counts from then.
//! * Renewing, completing and releasing compare the owner token and change nothing if it is not
//!   theirs. They do not look at the lease: an owner that nobody replaced is still the owner.
//! * A fingerprint that differs is a [`Claim::Mismatch`], whatever the state.
//! * Nothing that has not expired is ever dropped. An unfinished record lives for the longer of
//!   its lease and its `ttl`, a completed one for `ttl` from its completion.
//! * Fences grow while a record lives.

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
#[cfg(feature = "memory")]
mod memory;

use std::{fmt, sync::Arc, time::Duration, time::SystemTime};

use async_trait::async_trait;
use tokio::time::Instant;

#[cfg(feature = "memory")]
pub use self::memory::{MemoryStore, MemoryStoreOptions};
use crate::{
    error::StoreError,
    fingerprint::Fingerprint,
    key::{IdempotencyKey, StorageKey},
    record::{Record, Unreadable},
    scope::Caller,
};

/// Where records live.
///
/// # Cancel safety
/// A call that is dropped may still take effect, now or later; it must never damage a connection
/// that others use.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Claims the key for this owner, or says what is there.
    ///
    /// # Errors
    /// [`StoreError::Full`] if a new record has no room. After any other error the claim may exist.
    async fn claim(&self, claim: &ClaimRequest<'_>) -> Result<Claim, StoreError>;

    /// Extends leases: each lasts for [`LeaseRef::lease`] from now, unless it lasts longer already.
    /// A record that would expire before its lease is kept until then.
    ///
    /// Answers in the order of `leases`.
    async fn renew(&self, leases: &[LeaseRef<'_>]) -> Result<Vec<Renewal>, StoreError>;

    /// Stores the outcome, for `ttl` from now. A record that vanished is restored.
    async fn complete(
        &self,
        lease: &LeaseRef<'_>,
        record: &Record,
        ttl: Duration,
    ) -> Result<Completion, StoreError>;

    /// Gives the claim up without an outcome.
    async fn release(&self, lease: &LeaseRef<'_>, how: Release) -> Result<Released, StoreError>;

    /// Looks a key up, for support staff. What has expired is not there, and of a record that cannot
    /// be read there is only what lies outside of it.
    async fn inspect(&self, key: &StorageKey) -> Result<Option<Summary>, StoreError>;

    /// Carries out an operator's decision about the record whose fence is still `expected`. A live
    /// owner is fenced by it: its later calls change nothing. Only [`Resolve::Forget`] leaves nothing
    /// to fence it with: if it completes after all, its record is restored.
    async fn resolve(
        &self,
        key: &StorageKey,
        expected: Fence,
        how: Resolve,
    ) -> Result<Resolved, StoreError>;

    /// Waits until the record may have left its state in progress, at the latest until `until`.
    ///
    /// It may return early, and holds no connection. The caller claims again to learn what happened.
    ///
    /// # Cancel safety
    /// Cancel safe: a dropped wait leaves nothing behind.
    async fn changed(&self, key: &StorageKey, until: Instant) -> Result<(), StoreError>;

    /// Drops at most `limit` expired records and says how many it found.
    async fn purge(&self, limit: u32) -> Result<u64, StoreError>;

    /// Another handle on the same records, with a connection of its own: the lease keeper renews
    /// through it, so that a connection which is busy elsewhere cannot cost a lease.
    async fn reopen(&self) -> Result<Arc<dyn Store>, StoreError>;
}

/// The token of one attempt: 16 random bytes by which a store tells its owner from any other.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner([u8; 16]);

impl Owner {
    /// A token that nobody else has.
    pub fn random() -> Self {
        Self(rand::random())
    }

    /// Wraps the bytes that a store kept.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The 16 bytes.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Owner(…)")
    }
}

/// A number that grows with each new claim of a record. A downstream that remembers the largest
/// one it saw can refuse an owner that was replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fence(u64);

impl Fence {
    /// Wraps a number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a claim is granted: the attempt's place in the life of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// Larger than that of every earlier attempt.
    pub fence: Fence,
    /// 1 for the first attempt.
    pub attempt: u32,
}

/// What an attempt asks a store for.
#[derive(Debug, Clone, Copy)]
pub struct ClaimRequest<'a> {
    /// The record.
    pub key: &'a StorageKey,
    /// Who asks. The same token again is the same attempt, whose earlier reply was lost.
    pub owner: Owner,
    /// What the key stands for.
    pub fingerprint: &'a Fingerprint,
    /// How long the claim lives unrenewed.
    pub lease: Duration,
    /// How long an unfinished record lives, if that is longer than the lease.
    pub ttl: Duration,
    /// What to do about a lapsed lease.
    pub takeover: Takeover,
    /// What an audit can read of it later.
    pub audit: Audit<'a>,
}

/// Whether a claim may replace an owner whose lease ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takeover {
    /// The claim is acquired, with a larger fence.
    Allowed,
    /// The claim is answered with [`Claim::Lapsed`].
    Refused,
}

/// What a record says of itself to those who read the store. A store keeps neither the key nor
/// the caller in clear unless the application asks for it.
#[derive(Debug, Clone, Copy)]
pub struct Audit<'a> {
    /// The engine's namespace.
    pub namespace: &'a str,
    /// The operation.
    pub operation: &'a str,
    /// Whose key it is.
    pub caller: &'a Caller,
    /// The client's key.
    pub key: &'a IdempotencyKey,
}

/// An attempt that holds, or may hold, a record.
#[derive(Debug, Clone, Copy)]
pub struct LeaseRef<'a> {
    /// The record.
    pub key: &'a StorageKey,
    /// Whose it is.
    pub owner: Owner,
    /// What the claim granted; `None` if its reply was lost.
    pub grant: Option<Grant>,
    /// What the key stands for, to restore a record that vanished.
    pub fingerprint: &'a Fingerprint,
    /// How long a renewal lasts.
    pub lease: Duration,
    /// To restore a record that vanished.
    pub audit: Audit<'a>,
}

/// What a claim found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Claim {
    /// The record is ours: it was new, released or lapsed, or it was ours already.
    Acquired {
        /// Our place in the life of the key.
        grant: Grant,
    },
    /// An equal request runs.
    InProgress {
        /// The attempt that runs.
        grant: Grant,
        /// How long its lease lasts.
        left: Duration,
    },
    /// An equal request is done.
    Completed {
        /// Its outcome.
        record: Box<Record>,
    },
    /// The key stands for another request.
    Mismatch {
        /// What is there.
        state: State,
    },
    /// The owner's lease ran out, and takeover was refused.
    Lapsed {
        /// The attempt that did not end.
        grant: Grant,
    },
    /// Somebody said that the outcome is not known.
    Unknown {
        /// The attempt that did not end well.
        grant: Grant,
    },
    /// There is a record that this build cannot read. It was not touched.
    Unreadable(Unreadable),
}

/// The state of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// An attempt holds it, with a live or a lapsed lease.
    InProgress,
    /// Its outcome is stored.
    Completed,
    /// Its last attempt ended without an outcome; it stays bound to its fingerprint.
    Released,
    /// Nobody knows its outcome.
    Unknown,
}

/// What became of a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Renewal {
    /// The lease lasts this long.
    Renewed {
        /// From now.
        left: Duration,
    },
    /// Another owner has the record.
    Superseded,
    /// The record is ours and no longer in progress.
    Ended,
    /// There is no record.
    Gone,
}

/// What became of a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Completion {
    /// Stored.
    Stored,
    /// The record had vanished; stored in a new one.
    Restored,
    /// We had completed it before: the reply was lost.
    Already,
    /// We had released it before. Nothing changed.
    Released,
    /// Another owner has the record. Nothing changed.
    Superseded,
}

/// How a claim is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// The effect may have happened: the next equal request runs, the key stays bound.
    Bound,
    /// Nothing happened: the record goes, in every store.
    Forget,
    /// The handler never started: as `Forget` for a first attempt, otherwise as `Bound`, since an
    /// earlier attempt may have had an effect.
    Undo,
    /// Nobody knows what happened; kept so long, and nothing runs until somebody decides.
    Unknown {
        /// How long, from now.
        keep: Duration,
    },
}

/// What became of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Released {
    /// Given up.
    Done,
    /// The record is ours and no longer in progress. Nothing changed.
    Ended,
    /// Another owner has the record. Nothing changed.
    Superseded,
    /// There is no record.
    Gone,
}

/// What support staff can learn of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Its state.
    pub state: State,
    /// The last attempt.
    pub grant: Grant,
    /// The engine's namespace.
    pub namespace: String,
    /// The operation.
    pub operation: String,
    /// The ends of a long key.
    pub key_hint: Option<String>,
    /// When it was claimed first.
    pub created: SystemTime,
    /// When its outcome was stored.
    pub completed: Option<SystemTime>,
    /// How long the lease of an attempt that runs lasts; zero if it lapsed.
    pub lease_left: Option<Duration>,
    /// How long the record lives.
    pub expires_in: Duration,
    /// The stored status.
    pub status: Option<u16>,
    /// What the handler called the thing that it made.
    pub reference: Option<String>,
}

/// What an operator decided about a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolve {
    /// This is the outcome; kept so long from now.
    Complete {
        /// The outcome.
        record: Record,
        /// How long, from now.
        ttl: Duration,
    },
    /// The next equal request may run.
    Release,
    /// The key is free for any request.
    Forget,
}

/// What became of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Resolved {
    /// Carried out.
    Done,
    /// The record has another fence now: somebody else was faster. Nothing changed.
    Stale {
        /// Its fence.
        fence: Fence,
    },
    /// There is no record.
    Gone,
}
