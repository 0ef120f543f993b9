//! The protocol as plain as it can be written: what a store must answer.
//!
//! Deliberately not here: shards, bytes, eviction, waiting, and how a fence is chosen. The model
//! learns a fence from the store and only asks that it grows.

use std::time::Duration;

use tokio::time::Instant;

use super::attempt::{Attempt, NAMESPACE, OPERATION};
use crate::{
    fingerprint::Fingerprint,
    record::Record,
    store::{
        Claim, Completion, Fence, Grant, Owner, Release, Released, Renewal, Resolve, Resolved,
        State, Summary, Takeover,
    },
};

/// The record of one key; `None` where there is none.
#[derive(Debug, Default)]
pub(super) struct Model(Option<Row>);

#[derive(Debug)]
struct Row {
    owner: Owner,
    fingerprint: Fingerprint,
    grant: Grant,
    state: State,
    lease_until: Instant,
    expires_at: Instant,
    record: Option<Record>,
}

impl Model {
    /// Drops the record if it has expired.
    pub(super) fn reach(&mut self, now: Instant) {
        if self.0.as_ref().is_some_and(|row| row.expires_at <= now) {
            self.0 = None;
        }
    }

    pub(super) fn is_live(&self) -> bool {
        self.0.is_some()
    }

    /// The next moment after which something is different.
    pub(super) fn edges(&self) -> Vec<Instant> {
        let of = |row: &Row| match row.state {
            State::InProgress => vec![row.lease_until, row.expires_at],
            State::Completed | State::Released | State::Unknown => vec![row.expires_at],
        };
        self.0.as_ref().map(of).unwrap_or_default()
    }

    pub(super) fn claim(&mut self, attempt: &Attempt, fence: Option<Fence>, now: Instant) -> Claim {
        let lease_until = now + attempt.lease;
        let number = match &mut self.0 {
            None => 1,
            Some(row) if row.fingerprint != attempt.fingerprint => {
                return Claim::Mismatch { state: row.state };
            }
            Some(row) => {
                let grant = row.grant;
                match row.state {
                    State::Completed => {
                        let record = row.record.clone().expect("a completed row has a record");
                        return Claim::Completed {
                            record: Box::new(record),
                        };
                    }
                    State::Unknown => return Claim::Unknown { grant },
                    State::InProgress if row.owner == attempt.owner => {
                        row.lease_until = row.lease_until.max(lease_until);
                        row.expires_at = row.expires_at.max(lease_until);
                        return Claim::Acquired { grant };
                    }
                    State::InProgress if row.lease_until > now => {
                        let left = row.lease_until - now;
                        return Claim::InProgress { grant, left };
                    }
                    State::InProgress if attempt.takeover == Takeover::Refused => {
                        return Claim::Lapsed { grant };
                    }
                    State::InProgress | State::Released => {
                        if let Some(fence) = fence {
                            assert!(fence > grant.fence, "{fence} after {}", grant.fence);
                        }
                        grant.attempt + 1
                    }
                }
            }
        };
        let grant = Grant {
            fence: fence.unwrap_or(Fence::new(0)),
            attempt: number,
        };
        self.0 = Some(Row {
            owner: attempt.owner,
            fingerprint: attempt.fingerprint,
            grant,
            state: State::InProgress,
            lease_until,
            expires_at: now + attempt.lease.max(attempt.ttl),
            record: None,
        });
        Claim::Acquired { grant }
    }

    pub(super) fn renew(&mut self, attempt: &Attempt, now: Instant) -> Renewal {
        match &mut self.0 {
            None => Renewal::Gone,
            Some(row) if row.owner != attempt.owner => Renewal::Superseded,
            Some(row) if row.state != State::InProgress => Renewal::Ended,
            Some(row) => {
                row.lease_until = row.lease_until.max(now + attempt.lease);
                row.expires_at = row.expires_at.max(row.lease_until);
                Renewal::Renewed {
                    left: row.lease_until - now,
                }
            }
        }
    }

    /// `restored` is the grant that a restored record turned out to have.
    pub(super) fn complete(
        &mut self,
        attempt: &Attempt,
        record: &Record,
        ttl: Duration,
        restored: Option<Grant>,
        now: Instant,
    ) -> Completion {
        match &mut self.0 {
            None => {
                let first = Grant {
                    fence: Fence::new(0),
                    attempt: 1,
                };
                self.0 = Some(Row {
                    owner: attempt.owner,
                    fingerprint: attempt.fingerprint,
                    grant: attempt.grant.or(restored).unwrap_or(first),
                    state: State::Completed,
                    lease_until: now,
                    expires_at: now + ttl,
                    record: Some(record.clone()),
                });
                Completion::Restored
            }
            Some(row) if row.owner != attempt.owner => Completion::Superseded,
            Some(row) => match row.state {
                State::Completed => Completion::Already,
                State::Released => Completion::Released,
                State::InProgress | State::Unknown => {
                    row.state = State::Completed;
                    row.record = Some(record.clone());
                    row.expires_at = now + ttl;
                    Completion::Stored
                }
            },
        }
    }

    pub(super) fn release(&mut self, attempt: &Attempt, how: Release, now: Instant) -> Released {
        match &mut self.0 {
            None => return Released::Gone,
            Some(row) if row.owner != attempt.owner => return Released::Superseded,
            Some(row) if row.state != State::InProgress => return Released::Ended,
            Some(row) => match how {
                Release::Bound => row.state = State::Released,
                Release::Undo if row.grant.attempt > 1 => row.state = State::Released,
                Release::Undo | Release::Forget => self.0 = None,
                Release::Unknown { keep } => {
                    row.state = State::Unknown;
                    row.expires_at = now + keep;
                }
            },
        }
        Released::Done
    }

    pub(super) fn resolve(&mut self, expected: Fence, how: &Resolve, now: Instant) -> Resolved {
        match &mut self.0 {
            None => return Resolved::Gone,
            Some(row) if row.grant.fence != expected => {
                return Resolved::Stale {
                    fence: row.grant.fence,
                };
            }
            Some(row) => {
                row.owner = Owner::random();
                row.grant.fence = row.grant.fence.next();
                match how {
                    Resolve::Complete { record, ttl } => {
                        row.state = State::Completed;
                        row.record = Some(record.clone());
                        row.expires_at = now + *ttl;
                    }
                    Resolve::Release => {
                        row.state = State::Released;
                        row.record = None;
                    }
                    Resolve::Forget => self.0 = None,
                }
            }
        }
        Resolved::Done
    }

    pub(super) fn fence(&self) -> Option<Fence> {
        self.0.as_ref().map(|row| row.grant.fence)
    }

    /// Asks that a summary tells the truth.
    pub(super) fn check(
        &self,
        summary: Option<&Summary>,
        hint: Option<&str>,
        now: Instant,
        tolerance: Duration,
    ) {
        let (Some(row), Some(summary)) = (&self.0, summary) else {
            assert_eq!(self.is_live(), summary.is_some(), "{summary:?}");
            return;
        };
        assert_eq!((summary.state, summary.grant), (row.state, row.grant));
        assert_eq!(summary.namespace, NAMESPACE);
        assert_eq!(summary.operation, OPERATION);
        assert_eq!(summary.key_hint.as_deref(), hint);
        let close = |left: Duration, until: Instant| {
            left.abs_diff(until.saturating_duration_since(now)) <= tolerance
        };
        assert!(
            close(summary.expires_in, row.expires_at),
            "{summary:?} {row:?}"
        );
        match (row.state, summary.lease_left) {
            (State::InProgress, Some(left)) => {
                assert!(close(left, row.lease_until), "{summary:?} {row:?}");
            }
            (_, left) => assert!(
                left.is_none() && row.state != State::InProgress,
                "{summary:?}"
            ),
        }
        let record = row.record.as_ref();
        assert_eq!(summary.completed.is_some(), row.state == State::Completed);
        assert_eq!(summary.status, record.map(|record| record.status));
        assert_eq!(
            summary.reference,
            record.and_then(|record| record.reference.clone())
        );
    }
}
