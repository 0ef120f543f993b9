//! One record of a memory store, and what each call makes of it.
//!
//! Pure: a function of the row, the call and the time. A row that is not live is absent; it is
//! never asked. Forgetting is expiring at once.

use std::{
    mem,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use tokio::time::Instant;

use super::{
    clock::Moment,
    waiters::{Wait, Waiters},
};
use crate::{
    fingerprint::Fingerprint,
    key::StorageKey,
    store::{
        Audit, Claim, ClaimRequest, Completion, Fence, Grant, LeaseRef, Owner, Release, Released,
        Renewal, Resolved, State, Summary, Takeover,
    },
};

/// What a row costs apart from its texts and its response: itself, and its places in the map and
/// in the order of expiry, both of which keep some room to grow.
pub(super) const OVERHEAD: usize = size_of::<Row>()
    + 2 * size_of::<(StorageKey, Box<Row>)>()
    + 2 * size_of::<(Instant, StorageKey)>();

/// One record.
#[derive(Debug)]
pub(super) struct Row {
    owner: Owner,
    grant: Grant,
    fingerprint: Fingerprint,
    phase: Phase,
    expires_at: Instant,
    namespace: Box<str>,
    operation: Box<str>,
    key_hint: Option<String>,
    created: SystemTime,
    waiters: Waiters,
}

/// What happens to a record.
#[derive(Debug)]
enum Phase {
    InProgress { lease_until: Instant },
    Completed { response: Bytes, at: SystemTime },
    Released,
    Unknown,
}

impl Phase {
    fn completed(response: &Bytes) -> Self {
        Self::Completed {
            response: response.clone(),
            at: SystemTime::now(),
        }
    }
}

/// What a claim found: an answer, or the bytes of one that is read outside of the lock.
pub(super) enum Found {
    Claim(Claim),
    Response(Bytes),
}

/// An operator's decision, its response already in bytes.
pub(super) enum Decision {
    Complete { response: Bytes, ttl: Duration },
    Release,
    Forget,
}

impl Row {
    /// The record of a first attempt.
    pub(super) fn claimed(claim: &ClaimRequest<'_>, grant: Grant, now: Moment) -> Self {
        let phase = Phase::InProgress {
            lease_until: now.after(claim.lease),
        };
        let life = claim.ttl.max(claim.lease);
        Self::new(
            claim.owner,
            grant,
            claim.fingerprint,
            phase,
            now.after(life),
            &claim.audit,
        )
    }

    /// The record of an attempt that ended after its record had vanished.
    pub(super) fn restored(
        lease: &LeaseRef<'_>,
        grant: Grant,
        response: &Bytes,
        ttl: Duration,
        now: Moment,
    ) -> Self {
        let phase = Phase::completed(response);
        Self::new(
            lease.owner,
            grant,
            lease.fingerprint,
            phase,
            now.after(ttl),
            &lease.audit,
        )
    }

    fn new(
        owner: Owner,
        grant: Grant,
        fingerprint: &Fingerprint,
        phase: Phase,
        expires_at: Instant,
        audit: &Audit<'_>,
    ) -> Self {
        Self {
            owner,
            grant,
            fingerprint: *fingerprint,
            phase,
            expires_at,
            namespace: audit.namespace.into(),
            operation: audit.operation.into(),
            key_hint: audit.key.hint(),
            created: SystemTime::now(),
            waiters: Waiters::default(),
        }
    }

    pub(super) fn is_live(&self, now: Moment) -> bool {
        self.expires_at > now.instant
    }

    pub(super) fn expires_at(&self) -> Instant {
        self.expires_at
    }

    /// What it is counted for, in bytes.
    pub(super) fn size(&self) -> usize {
        let hint = self.key_hint.as_ref().map_or(0, String::len);
        let response = self.response().map_or(0, Bytes::len);
        OVERHEAD + self.namespace.len() + self.operation.len() + hint + response
    }

    /// The attempt that holds it, with a live or a lapsed lease.
    pub(super) fn running(&self) -> Option<Grant> {
        match self.phase {
            Phase::InProgress { .. } => Some(self.grant),
            Phase::Completed { .. } | Phase::Released | Phase::Unknown => None,
        }
    }

    pub(super) fn response(&self) -> Option<&Bytes> {
        match &self.phase {
            Phase::Completed { response, .. } => Some(response),
            Phase::InProgress { .. } | Phase::Released | Phase::Unknown => None,
        }
    }

    /// Replaces the bytes of its response by others, whatever they are.
    #[cfg(any(test, feature = "conformance"))]
    pub(super) fn swap_response(&mut self, bytes: Bytes) -> Option<Bytes> {
        match &mut self.phase {
            Phase::Completed { response, .. } => Some(mem::replace(response, bytes)),
            Phase::InProgress { .. } | Phase::Released | Phase::Unknown => None,
        }
    }

    fn state(&self) -> State {
        match self.phase {
            Phase::InProgress { .. } => State::InProgress,
            Phase::Completed { .. } => State::Completed,
            Phase::Released => State::Released,
            Phase::Unknown => State::Unknown,
        }
    }

    /// A mismatch comes before all else, so that a client's mistake is never taken for a race;
    /// then the owner, so that an attempt whose reply was lost does not meet itself.
    pub(super) fn claim(&mut self, claim: &ClaimRequest<'_>, fence: Fence, now: Moment) -> Found {
        let grant = self.grant;
        if self.fingerprint != *claim.fingerprint {
            return Found::Claim(Claim::Mismatch {
                state: self.state(),
            });
        }
        match &self.phase {
            Phase::InProgress { .. } if self.owner == claim.owner => {
                self.extend(claim.lease, now);
                Found::Claim(Claim::Acquired { grant })
            }
            Phase::InProgress { lease_until } if *lease_until > now.instant => {
                let left = now.until(*lease_until);
                Found::Claim(Claim::InProgress { grant, left })
            }
            Phase::InProgress { .. } if claim.takeover == Takeover::Refused => {
                Found::Claim(Claim::Lapsed { grant })
            }
            Phase::InProgress { .. } | Phase::Released => {
                self.grant = Grant {
                    // A decision may have raised it past the number at hand.
                    fence: fence.max(grant.fence.next()),
                    attempt: grant.attempt.saturating_add(1),
                };
                self.owner = claim.owner;
                self.phase = Phase::InProgress {
                    lease_until: now.after(claim.lease),
                };
                self.expires_at = now.after(claim.ttl.max(claim.lease));
                Found::Claim(Claim::Acquired { grant: self.grant })
            }
            Phase::Completed { response, .. } => Found::Response(response.clone()),
            Phase::Unknown => Found::Claim(Claim::Unknown { grant }),
        }
    }

    pub(super) fn renew(&mut self, lease: &LeaseRef<'_>, now: Moment) -> Renewal {
        if self.owner != lease.owner {
            return Renewal::Superseded;
        }
        self.extend(lease.lease, now)
            .map_or(Renewal::Ended, |left| Renewal::Renewed { left })
    }

    /// Makes a lease last at least so long from now, and the record at least as long as its lease.
    fn extend(&mut self, lease: Duration, now: Moment) -> Option<Duration> {
        let Phase::InProgress { lease_until } = &mut self.phase else {
            return None;
        };
        *lease_until = now.after(lease).max(*lease_until);
        self.expires_at = self.expires_at.max(*lease_until);
        Some(now.until(*lease_until))
    }

    /// The lease is not looked at: an owner that nobody replaced is still the owner.
    pub(super) fn complete(
        &mut self,
        owner: Owner,
        response: &Bytes,
        ttl: Duration,
        now: Moment,
    ) -> Completion {
        if self.owner != owner {
            return Completion::Superseded;
        }
        match self.phase {
            Phase::Completed { .. } => Completion::Already,
            Phase::Released => Completion::Released,
            Phase::InProgress { .. } | Phase::Unknown => {
                self.keep(response, ttl, now);
                Completion::Stored
            }
        }
    }

    fn keep(&mut self, response: &Bytes, ttl: Duration, now: Moment) {
        self.phase = Phase::completed(response);
        self.expires_at = now.after(ttl);
    }

    pub(super) fn release(&mut self, owner: Owner, how: Release, now: Moment) -> Released {
        if self.owner != owner {
            return Released::Superseded;
        }
        if self.running().is_none() {
            return Released::Ended;
        }
        match how {
            Release::Forget => self.expires_at = now.instant,
            Release::Undo if self.grant.attempt == 1 => self.expires_at = now.instant,
            Release::Bound | Release::Undo => self.phase = Phase::Released,
            Release::Unknown { keep } => {
                self.phase = Phase::Unknown;
                self.expires_at = now.after(keep);
            }
        }
        Released::Done
    }

    /// The new owner is nobody: it fences whoever still runs. The new fence tells a second operator,
    /// who saw the same record, that somebody was faster.
    pub(super) fn resolve(&mut self, expected: Fence, how: Decision, now: Moment) -> Resolved {
        let fence = self.grant.fence;
        if fence != expected {
            return Resolved::Stale { fence };
        }
        self.grant.fence = fence.next();
        self.owner = Owner::random();
        match how {
            Decision::Complete { response, ttl } => self.keep(&response, ttl, now),
            Decision::Release => self.phase = Phase::Released,
            Decision::Forget => self.expires_at = now.instant,
        }
        Resolved::Done
    }

    /// What there is to know, except for what only the response tells.
    pub(super) fn summary(&self, now: Moment) -> Summary {
        Summary {
            state: self.state(),
            grant: self.grant,
            namespace: self.namespace.to_string(),
            operation: self.operation.to_string(),
            key_hint: self.key_hint.clone(),
            created: self.created,
            completed: match self.phase {
                Phase::Completed { at, .. } => Some(at),
                Phase::InProgress { .. } | Phase::Released | Phase::Unknown => None,
            },
            lease_left: match self.phase {
                Phase::InProgress { lease_until } => Some(now.until(lease_until)),
                Phase::Completed { .. } | Phase::Released | Phase::Unknown => None,
            },
            expires_in: now.until(self.expires_at),
            status: None,
            reference: None,
        }
    }

    /// Joins those who wait for the end of the attempt, and says how long its lease lasts; `None`
    /// if there is no attempt.
    pub(super) fn wait(&mut self, now: Moment) -> Option<(Wait, Duration)> {
        match self.phase {
            Phase::InProgress { lease_until } => {
                Some((self.waiters.join(), now.until(lease_until)))
            }
            Phase::Completed { .. } | Phase::Released | Phase::Unknown => None,
        }
    }

    /// Takes those who wait out, if there are any, to be woken.
    pub(super) fn take_waiters(&mut self) -> Option<Waiters> {
        (!self.waiters.is_empty()).then(|| mem::take(&mut self.waiters))
    }
}
