//! The contract of a store, on one page.
//!
//! Each call is one atomic step on the store's own clock, and answers with facts: what is there,
//! never what to do about it. Times are [`Duration`]s from end to end. No clock of the
//! application takes part in a comparison.
//!
//! A store must hold to this, and `conformance` tests it:
//!
//! * Of any number of concurrent claims of one key exactly one is [`Claim::Acquired`].
//! * A claim that is sent again with the same owner value is acquired again: the same attempt, whose
//!   lease counts from then.
//! * Renewing, completing and releasing compare the owner value and change nothing if it is not
//!   theirs. They do not look at the lease: an owner that nobody replaced is still the owner.
//! * A fingerprint that differs is a [`Claim::Mismatch`], whatever the state.
//! * Nothing that has not expired is ever dropped. An unfinished record lives for the longer of
//!   its lease and its `ttl`, a completed one for `ttl` from its completion.
//! * Fences grow while a record lives.
//! * `Debug` of a store shows no credentials: that of an engine shows its store.

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
#[cfg(feature = "memory")]
mod memory;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod watch;

use std::{fmt, panic::AssertUnwindSafe, sync::Arc, time::Duration, time::SystemTime};

use async_trait::async_trait;
use futures_util::FutureExt;
use tokio::time::{Instant, timeout};

#[cfg(feature = "memory")]
pub use self::memory::{MemoryStore, MemoryStoreOptions};
#[cfg(feature = "postgres")]
pub use self::postgres::{PostgresStore, PostgresStoreOptions};
#[cfg(feature = "redis")]
pub use self::redis::{RedisStore, RedisStoreOptions, WaitReplicas};
use crate::{
    error::StoreError,
    fingerprint::Fingerprint,
    key::{IdempotencyKey, StorageKey},
    record::{Record, Unreadable},
    scope::Caller,
};

/// Where records live.
///
/// The engine gives each call a limit of its own ([`Builder::store_timeout`]) and repeats those that
/// may be repeated, so that a store need do neither. `Debug` is part of the contract because that of
/// an engine shows its store; it must not show credentials, such as those in the URL of a database.
///
/// [`Builder::store_timeout`]: crate::Builder::store_timeout
///
/// # Errors
/// [`StoreError::Unavailable`] if the store could not be reached, or failed: the effect of the call
/// is then not known. [`StoreError::TimedOut`] is the engine's.
///
/// # Cancel safety
/// A call that is dropped may still take effect, now or later; it must never damage a connection
/// that others use.
///
/// # Examples
/// The life of a key, from its claim to its replay:
/// ```
/// use std::time::Duration;
///
/// use idem_core::{
///     Caller, Fingerprint, IdempotencyKey, KeyRules, MemoryStore, Record, RequestHead, StorageKey,
///     Store,
///     store::{Audit, Claim, ClaimRequest, Completion, LeaseRef, Owner, Takeover},
/// };
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let key = IdempotencyKey::parse(b"order-17", &KeyRules::default())?;
/// let caller = Caller::User("ada".to_owned());
/// let id = StorageKey::derive("", &caller, "POST /payments", &key);
/// let fingerprint = Fingerprint::of(&RequestHead::new("POST", "/payments"), b"{}");
/// let audit = Audit { namespace: "", operation: "POST /payments", caller: &caller, key: &key };
/// let claim = ClaimRequest {
///     key: &id,
///     owner: Owner::random(),
///     fingerprint: &fingerprint,
///     lease: Duration::from_secs(30),
///     ttl: Duration::from_hours(24),
///     takeover: Takeover::Allowed,
///     audit,
/// };
/// let retry = ClaimRequest { owner: Owner::random(), ..claim };
///
/// let store = MemoryStore::new();
/// let Claim::Acquired { grant } = store.claim(&claim).await? else { panic!("the key is new") };
/// assert_eq!(grant.attempt, 1);
/// assert!(matches!(store.claim(&retry).await?, Claim::InProgress { .. }));
///
/// let lease = LeaseRef {
///     key: &id,
///     owner: claim.owner,
///     grant: Some(grant),
///     fingerprint: &fingerprint,
///     lease: claim.lease,
///     audit,
/// };
/// let paid = Record::new(201, "paid");
/// assert_eq!(store.complete(&lease, &paid, claim.ttl).await?, Completion::Stored);
/// // Sent again, because the reply was lost:
/// assert_eq!(store.complete(&lease, &paid, claim.ttl).await?, Completion::Already);
///
/// assert_eq!(store.claim(&retry).await?, Claim::Completed { record: Box::new(paid) });
/// # Ok(())
/// # }
/// ```
///
/// A store of one's own is tested by `store::conformance`. One that wraps another passes each call
/// on; this one refuses new claims for a test of what happens then:
/// ```
/// use std::{sync::Arc, time::Duration};
///
/// use async_trait::async_trait;
/// use idem_core::{
///     MemoryStore, Record, StorageKey, Store, StoreError,
///     store::{
///         Claim, ClaimRequest, Completion, Fence, LeaseRef, Release, Released, Renewal, Resolve,
///         Resolved, Summary,
///     },
/// };
/// use tokio::time::Instant;
///
/// #[derive(Debug)]
/// struct Down(MemoryStore);
///
/// #[async_trait]
/// impl Store for Down {
///     async fn claim(&self, _: &ClaimRequest<'_>) -> Result<Claim, StoreError> {
///         Err(StoreError::unavailable("down", std::io::Error::other("out of order")))
///     }
///
///     async fn renew(&self, leases: &[LeaseRef<'_>]) -> Result<Vec<Renewal>, StoreError> {
///         self.0.renew(leases).await
///     }
///
///     async fn complete(
///         &self,
///         lease: &LeaseRef<'_>,
///         record: &Record,
///         ttl: Duration,
///     ) -> Result<Completion, StoreError> {
///         self.0.complete(lease, record, ttl).await
///     }
///
///     async fn release(&self, lease: &LeaseRef<'_>, how: Release) -> Result<Released, StoreError> {
///         self.0.release(lease, how).await
///     }
///
///     async fn inspect(&self, key: &StorageKey) -> Result<Option<Summary>, StoreError> {
///         self.0.inspect(key).await
///     }
///
///     async fn resolve(
///         &self,
///         key: &StorageKey,
///         expected: Fence,
///         how: Resolve,
///     ) -> Result<Resolved, StoreError> {
///         self.0.resolve(key, expected, how).await
///     }
///
///     async fn changed(&self, key: &StorageKey, until: Instant) -> Result<(), StoreError> {
///         self.0.changed(key, until).await
///     }
///
///     async fn purge(&self, limit: u32) -> Result<u64, StoreError> {
///         self.0.purge(limit).await
///     }
///
///     async fn reopen(&self) -> Result<Arc<dyn Store>, StoreError> {
///         Ok(Arc::new(Self(self.0.clone())))
///     }
/// }
/// ```
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Claims the key for this owner, or says what is there.
    ///
    /// # Errors
    /// [`StoreError::Full`] if a new record has no room. After any other error the claim may exist:
    /// sent again with the same owner it is recognised, and [`Release::Undo`] takes it back.
    ///
    /// # Cancel safety
    /// Not cancel safe: a dropped claim may be acquired, and then blocks its key until it is taken
    /// back or its lease lapses.
    async fn claim(&self, claim: &ClaimRequest<'_>) -> Result<Claim, StoreError>;

    /// Extends leases: each lasts for [`LeaseRef::lease`] from now, unless it lasts longer already.
    /// A record that would expire before its lease is kept until then.
    ///
    /// Answers in the order of `leases`, one for each. Where only some are known, the others are
    /// [`Renewal::Unanswered`].
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if nothing is known: each lease may be extended or not. It is safe to renew again.
    ///
    /// # Cancel safety
    /// Cancel safe: what was extended lasts longer, and nothing else has changed.
    async fn renew(&self, leases: &[LeaseRef<'_>]) -> Result<Vec<Renewal>, StoreError>;

    /// Stores the outcome, for `ttl` from now. A record that vanished is restored.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: the outcome may be stored or not. It is safe to complete again: an
    /// outcome that is there already is [`Completion::Already`]. Never [`StoreError::Full`], since the
    /// work is done: a record that finds no room is stored without its body.
    ///
    /// # Cancel safety
    /// Not cancel safe: the outcome may be lost. An attempt is to complete again until it is answered.
    async fn complete(
        &self,
        lease: &LeaseRef<'_>,
        record: &Record,
        ttl: Duration,
    ) -> Result<Completion, StoreError>;

    /// Gives the claim up without an outcome.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: the claim may be given up or not. It is safe to release again: what
    /// was given up already is [`Released::Ended`], or [`Released::Gone`] where the record went too.
    ///
    /// # Cancel safety
    /// Not cancel safe: the claim may stay, and then blocks its key until its lease lapses.
    async fn release(&self, lease: &LeaseRef<'_>, how: Release) -> Result<Released, StoreError>;

    /// Looks a key up, for support staff. What has expired is not there, and of a record that cannot
    /// be read there is only what lies outside of it.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]; a look-up changes nothing.
    ///
    /// # Cancel safety
    /// Cancel safe.
    async fn inspect(&self, key: &StorageKey) -> Result<Option<Summary>, StoreError>;

    /// Carries out an operator's decision about the record whose fence is still `expected`, in
    /// whatever state it is. The fence grows by one, so that of two operators who saw the same record
    /// the second is told. A live owner is replaced, by nobody, so that its later calls change
    /// nothing. Only [`Resolve::Forget`] leaves nothing to compare it with: if it completes after
    /// all, its record is restored.
    ///
    /// The handler of a replaced owner still runs. When it answers after a [`Resolve::Release`], its
    /// engine claims the key again, as the next attempt, and stores its answer unless somebody else
    /// has the key or completed it. So after [`Resolve::Release`] and [`Resolve::Forget`] the answer
    /// of a late owner may be stored after all; after [`Resolve::Complete`] the operator's stands.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: the decision may be carried out or not. [`inspect`](Self::inspect)
    /// tells.
    ///
    /// # Cancel safety
    /// Not cancel safe: a dropped decision may be carried out.
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
    /// # Errors
    /// [`StoreError::Unavailable`] if the store cannot watch the record. The caller then asks again
    /// after a pause of its own.
    ///
    /// # Cancel safety
    /// Cancel safe: a dropped wait leaves nothing behind.
    async fn changed(&self, key: &StorageKey, until: Instant) -> Result<(), StoreError>;

    /// Drops at most `limit` expired records and says how many it found. Zero where the store
    /// expires them itself.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]; it is safe to purge again.
    ///
    /// # Cancel safety
    /// Cancel safe: only what has expired is gone.
    async fn purge(&self, limit: u32) -> Result<u64, StoreError>;

    /// Another handle on the same records, with a connection of its own: the lease keeper renews
    /// through it, so that a connection which is busy elsewhere cannot cost a lease.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if there is no connection to be had.
    ///
    /// # Cancel safety
    /// Cancel safe: a connection that was made is closed.
    async fn reopen(&self) -> Result<Arc<dyn Store>, StoreError>;
}

/// A store that was chosen when the program started is one like any other.
#[async_trait]
impl<S: Store + ?Sized> Store for Arc<S> {
    async fn claim(&self, claim: &ClaimRequest<'_>) -> Result<Claim, StoreError> {
        (**self).claim(claim).await
    }

    async fn renew(&self, leases: &[LeaseRef<'_>]) -> Result<Vec<Renewal>, StoreError> {
        (**self).renew(leases).await
    }

    async fn complete(
        &self,
        lease: &LeaseRef<'_>,
        record: &Record,
        ttl: Duration,
    ) -> Result<Completion, StoreError> {
        (**self).complete(lease, record, ttl).await
    }

    async fn release(&self, lease: &LeaseRef<'_>, how: Release) -> Result<Released, StoreError> {
        (**self).release(lease, how).await
    }

    async fn inspect(&self, key: &StorageKey) -> Result<Option<Summary>, StoreError> {
        (**self).inspect(key).await
    }

    async fn resolve(
        &self,
        key: &StorageKey,
        expected: Fence,
        how: Resolve,
    ) -> Result<Resolved, StoreError> {
        (**self).resolve(key, expected, how).await
    }

    async fn changed(&self, key: &StorageKey, until: Instant) -> Result<(), StoreError> {
        (**self).changed(key, until).await
    }

    async fn purge(&self, limit: u32) -> Result<u64, StoreError> {
        (**self).purge(limit).await
    }

    async fn reopen(&self) -> Result<Arc<dyn Store>, StoreError> {
        (**self).reopen().await
    }
}

/// Asks a store, for at most `limit`. One that panics has failed like any other: what its caller holds
/// must not be lost with it.
pub(crate) async fn ask<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    match timeout(limit, AssertUnwindSafe(call).catch_unwind()).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => Err(StoreError::Panicked),
        Err(_) => Err(StoreError::TimedOut { limit }),
    }
}

/// Who holds a record: 16 random bytes by which a store tells one attempt from any other. `Debug`
/// does not show them.
///
/// # Examples
/// ```
/// use idem_core::store::Owner;
///
/// let owner = Owner::random();
/// assert_ne!(owner, Owner::random());
/// assert_eq!(owner, Owner::from_bytes(*owner.as_bytes()));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner([u8; 16]);

impl Owner {
    /// An owner that nobody else is.
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

/// A number that grows with each new claim of a record, and with each decision of an operator. A
/// downstream that remembers the largest one it saw can refuse an owner that was replaced.
///
/// # Examples
/// ```
/// use idem_core::store::Fence;
///
/// let (first, second) = (Fence::new(7), Fence::new(8));
/// assert!(first < second);
/// assert_eq!((second.get(), second.to_string()), (8, "8".to_owned()));
/// ```
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

    /// The next larger one.
    #[cfg(any(feature = "memory", feature = "conformance", test))]
    pub(crate) const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a claim is granted: the attempt's place in the life of its key.
///
/// # Examples
/// ```
/// use idem_core::store::{Claim, Fence, Grant};
///
/// let grant = Grant { fence: Fence::new(12), attempt: 2 };
/// let claim = Claim::Acquired { grant };
/// assert!(matches!(claim, Claim::Acquired { grant } if grant.attempt > 1), "a takeover");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// Larger than that of every earlier attempt.
    pub fence: Fence,
    /// 1 for the first attempt.
    pub attempt: u32,
}

/// What an attempt asks a store for. The example of [`Store`] makes one.
#[derive(Debug, Clone, Copy)]
pub struct ClaimRequest<'a> {
    /// The record.
    pub key: &'a StorageKey,
    /// Who asks. The same owner again is the same attempt, whose earlier reply was lost.
    pub owner: Owner,
    /// What the key stands for.
    pub fingerprint: &'a Fingerprint,
    /// How long the claim lives unrenewed, from when the store carries it out. Longer than zero.
    pub lease: Duration,
    /// How long an unfinished record lives, if that is longer than the lease.
    pub ttl: Duration,
    /// What to do about a lapsed lease.
    pub takeover: Takeover,
    /// What an audit can read of it later.
    pub audit: Audit<'a>,
}

/// Whether a claim may replace an owner whose lease ran out. A handler says so by
/// [`OnLapse`](crate::OnLapse).
///
/// # Examples
/// ```
/// use idem_core::store::{Claim, ClaimRequest, Takeover};
#[doc = include_str!("store/running.md")]
///
/// // The owner of the key is gone, and its lease of 30 seconds runs out.
/// tokio::time::advance(claim.lease).await;
/// let refused = ClaimRequest { takeover: Takeover::Refused, ..retry };
/// assert_eq!(store.claim(&refused).await?, Claim::Lapsed { grant });
///
/// let Claim::Acquired { grant: next } = store.claim(&retry).await? else { panic!("allowed") };
/// assert_eq!(next.attempt, 2);
/// assert!(next.fence > grant.fence);
/// # Ok(())
/// # }
/// ```
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

/// An attempt that holds, or may hold, a record. The example of [`Store`] makes one.
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

/// What a claim found: a fact, of which [`decide`](crate::decide::decide) says what it means.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// use idem_core::{
///     decide::{Action, Patience, decide},
///     store::{Claim, Fence, Grant, State},
/// };
///
/// let grant = Grant { fence: Fence::new(1), attempt: 1 };
/// let action = |claim| decide(claim, Patience::Exhausted);
/// assert!(matches!(action(Claim::Acquired { grant }), Action::Execute(_)));
/// let running = Claim::InProgress { grant, left: Duration::from_secs(30) };
/// assert!(matches!(action(running), Action::Reject(busy) if busy.code() == "in-progress"));
/// let other = Claim::Mismatch { state: State::Completed };
/// assert!(matches!(action(other), Action::Reject(reused) if reused.code() == "key-reused"));
/// ```
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
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// use idem_core::store::{LeaseRef, Owner, Renewal};
#[doc = include_str!("store/running.md")]
///
/// // `lease` is held: the claim was acquired just now, for 30 seconds.
/// let longer = LeaseRef { lease: Duration::from_secs(90), ..lease };
/// let other = LeaseRef { owner: Owner::random(), ..lease };
/// let renewals = store.renew(&[longer, other]).await?;
/// assert_eq!(renewals[0], Renewal::Renewed { left: Duration::from_secs(90) });
/// assert_eq!(renewals[1], Renewal::Superseded);
/// # Ok(())
/// # }
/// ```
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
    /// Not known: the store could not tell in time. It is asked again.
    Unanswered,
}

/// What became of a completion.
///
/// # Examples
/// ```
/// use idem_core::{Record, store::{Completion, LeaseRef, Owner}};
#[doc = include_str!("store/running.md")]
///
/// // `lease` is held.
/// let other = LeaseRef { owner: Owner::random(), ..lease };
/// let paid = Record::new(201, "paid");
/// assert_eq!(store.complete(&other, &paid, claim.ttl).await?, Completion::Superseded);
/// assert_eq!(store.complete(&lease, &paid, claim.ttl).await?, Completion::Stored);
/// assert_eq!(store.complete(&lease, &paid, claim.ttl).await?, Completion::Already);
/// # Ok(())
/// # }
/// ```
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
///
/// # Examples
/// ```
/// use idem_core::store::{Claim, Release, Released};
#[doc = include_str!("store/running.md")]
///
/// // `lease` is held, and its handler panicked.
/// assert_eq!(store.release(&lease, Release::Bound).await?, Released::Done);
/// assert_eq!(store.release(&lease, Release::Bound).await?, Released::Ended);
///
/// // The next equal request is the second attempt.
/// let Claim::Acquired { grant } = store.claim(&retry).await? else { panic!("nobody has it") };
/// assert_eq!(grant.attempt, 2);
/// # Ok(())
/// # }
/// ```
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

/// What became of a release. The example of [`Release`] shows two.
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

/// What support staff can learn of a record. The example of [`Resolve`] reads one.
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
    /// The ends of a long key; see [`IdempotencyKey::hint`].
    pub key_hint: Option<String>,
    /// When it was claimed first, on the store's clock; over Redis, on that of who claimed it.
    pub created: SystemTime,
    /// When its outcome was stored, on the store's clock.
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
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// use idem_core::{Record, store::{Claim, Release, Resolve, Resolved, State}};
#[doc = include_str!("store/running.md")]
///
/// // `lease` was held by an attempt that could not say whether the card was charged.
/// let keep = Duration::from_hours(168);
/// let _ = store.release(&lease, Release::Unknown { keep }).await?;
///
/// // Support staff look the payment up elsewhere, and decide.
/// let summary = store.inspect(&id).await?.expect("it is kept");
/// assert_eq!((summary.state, summary.status), (State::Unknown, None));
/// let record = Record::new(201, "paid");
/// let decision = Resolve::Complete { record: record.clone(), ttl: Duration::from_hours(24) };
/// let resolved = store.resolve(&id, summary.grant.fence, decision).await?;
/// assert_eq!(resolved, Resolved::Done);
///
/// // The client's retry gets that answer.
/// assert_eq!(store.claim(&retry).await?, Claim::Completed { record: Box::new(record) });
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolve {
    /// This is the outcome; kept so long from now.
    Complete {
        /// The outcome.
        record: Record,
        /// How long, from now.
        ttl: Duration,
    },
    /// The next equal request may run. The answer of an owner that still runs may be stored.
    Release,
    /// The key is free for any request. The answer of an owner that still runs may be stored.
    Forget,
}

/// What became of a decision. The example of [`Resolve`] makes one.
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
