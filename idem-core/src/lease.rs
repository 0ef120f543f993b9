//! What an attempt holds: its ticket, and the lease that the keeper renews for it.
//!
//! Invariant: a [`Lease`] is renewed as long as the value lives and not a moment longer. Dropping
//! it releases nothing in the store: what ran is settled, or lapses.

mod detach;
mod keeper;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

pub(crate) use self::{
    detach::{Detach, Detached},
    keeper::{Keeper, KeeperOptions},
};
use crate::{
    fingerprint::Fingerprint,
    key::{IdempotencyKey, StorageKey},
    observe::{Name, Operation},
    policy::{Effective, OnLapse},
    scope::Caller,
    store::{Audit, ClaimRequest, Grant, LeaseRef, Owner, Takeover},
};

/// Everything that identifies one keyed request towards a store.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) id: StorageKey,
    pub(crate) owner: Owner,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) namespace: Arc<str>,
    pub(crate) operation: Name,
    pub(crate) caller: Caller,
    pub(crate) key: IdempotencyKey,
    pub(crate) policy: Effective,
}

impl Ticket {
    pub(crate) fn operation(&self) -> Operation<'_> {
        self.operation.shown()
    }

    pub(crate) fn claim(&self) -> ClaimRequest<'_> {
        let takeover = match self.policy.on_lapse {
            OnLapse::Takeover => Takeover::Allowed,
            OnLapse::Unknown => Takeover::Refused,
        };
        ClaimRequest {
            key: &self.id,
            owner: self.owner,
            fingerprint: &self.fingerprint,
            lease: self.policy.lease,
            ttl: self.policy.unfinished(),
            takeover,
            audit: self.audit(),
        }
    }

    pub(crate) fn lease(&self, grant: Option<Grant>) -> LeaseRef<'_> {
        LeaseRef {
            key: &self.id,
            owner: self.owner,
            grant,
            fingerprint: &self.fingerprint,
            lease: self.policy.lease,
            audit: self.audit(),
        }
    }

    fn audit(&self) -> Audit<'_> {
        Audit {
            namespace: &self.namespace,
            operation: self.operation.exact(),
            caller: &self.caller,
            key: &self.key,
        }
    }
}

/// A claim that is renewed until this value is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    held: Arc<Held>,
    keeper: Arc<Keeper>,
    id: u64,
}

/// What the keeper and the attempt share.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) ticket: Arc<Ticket>,
    pub(crate) grant: Grant,
    settling: AtomicBool,
    lost: AtomicBool,
}

impl Held {
    /// Whether the attempt has ended and its outcome is on the way: a record that is gone then is
    /// no lost lease.
    pub(crate) fn is_settling(&self) -> bool {
        self.settling.load(Ordering::Acquire)
    }

    /// Notes that the lease is lost; `false` if that is known already. The keeper and the attempt
    /// both find out, and one of them tells.
    pub(crate) fn lose(&self) -> bool {
        !self.lost.swap(true, Ordering::AcqRel)
    }
}

impl Lease {
    /// Has a claim renewed that was sent at `sent`.
    pub(crate) fn hold(
        keeper: Arc<Keeper>,
        ticket: Arc<Ticket>,
        grant: Grant,
        sent: Instant,
    ) -> Self {
        let held = Arc::new(Held {
            ticket,
            grant,
            settling: AtomicBool::new(false),
            lost: AtomicBool::new(false),
        });
        let id = keeper.hold(Arc::clone(&held), sent);
        Self { held, keeper, id }
    }

    pub(crate) fn ticket(&self) -> &Arc<Ticket> {
        &self.held.ticket
    }

    pub(crate) fn grant(&self) -> Grant {
        self.held.grant
    }

    /// Notes that the lease is lost; `false` if that is known already.
    pub(crate) fn lose(&self) -> bool {
        self.held.lose()
    }

    /// Says that the handler has ended. The lease is renewed until its outcome is stored.
    pub(crate) fn settling(&self) {
        self.held.settling.store(true, Ordering::Release);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.keeper.let_go(self.id);
    }
}

/// When to renew a lease for the first time, and how often after that.
pub(crate) fn renewal_interval(lease: Duration) -> Duration {
    (lease / 3).max(Duration::from_millis(1))
}

/// `from` and `by`, or as far away as makes no difference.
pub(crate) fn later(from: Instant, by: Duration) -> Instant {
    const FAR: Duration = Duration::from_hours(24 * 365 * 30);
    from.checked_add(by).unwrap_or_else(|| from + FAR)
}
