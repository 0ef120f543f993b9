//! Any sequence of calls, each answer compared with that of the model.

use std::{fmt, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{Subject, attempt::Attempt, model::Model};
use crate::{
    error::StoreError,
    record::Record,
    store::{Claim, Completion, Fence, Release, Renewal, Resolve, Store, Summary, Takeover},
};

/// One step of a [`Sequence`].
///
/// `key` counts to [`Sequence::KEYS`] and `attempt` to [`Sequence::ATTEMPTS`]; larger numbers
/// start again at zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Lets time pass.
    Pass {
        /// How much.
        time: Duration,
    },
    /// Calls [`Store::claim`].
    Claim {
        /// Who claims.
        attempt: usize,
        /// For how long.
        lease: Duration,
        /// The life of the record.
        ttl: Duration,
        /// Whether a lapsed owner is replaced.
        takeover: Takeover,
    },
    /// Calls [`Store::renew`].
    Renew {
        /// Who renews.
        attempts: Vec<usize>,
        /// For how long.
        lease: Duration,
    },
    /// Calls [`Store::complete`].
    Complete {
        /// Who completes.
        attempt: usize,
        /// The outcome.
        record: Record,
        /// Its life.
        ttl: Duration,
    },
    /// Calls [`Store::release`].
    Release {
        /// Who releases.
        attempt: usize,
        /// In what way.
        how: Release,
    },
    /// Calls [`Store::resolve`] with the fence that the record has.
    Resolve {
        /// The key.
        key: usize,
        /// The decision.
        how: Resolve,
    },
    /// Calls [`Store::resolve`] with another fence.
    ResolveStale {
        /// The key.
        key: usize,
        /// The decision.
        how: Resolve,
    },
    /// Calls [`Store::purge`].
    Purge {
        /// How many at most.
        limit: u32,
    },
}

/// A store and the model of one, side by side: a few attempts at a few fresh keys.
///
/// Each key has four attempts, the last of which is another request. An attempt has an owner value
/// of its own and may claim again and again.
pub struct Sequence<'a> {
    subject: &'a dyn Subject,
    store: Arc<dyn Store>,
    attempts: Vec<Attempt>,
    models: Vec<Model>,
    max_records: usize,
}

impl<'a> Sequence<'a> {
    /// How many keys there are.
    pub const KEYS: usize = 3;
    /// How many attempts there are.
    pub const ATTEMPTS: usize = 4 * Self::KEYS;

    /// Starts with fresh keys.
    pub async fn start(subject: &'a dyn Subject) -> Self {
        Self::start_bounded(subject, usize::MAX).await
    }

    /// Starts with fresh keys, and an empty store that has room for so many records.
    pub async fn start_bounded(subject: &'a dyn Subject, max_records: usize) -> Self {
        let firsts: Vec<_> = (0..Self::KEYS).map(|_| Attempt::fresh()).collect();
        let attempts = (0..Self::ATTEMPTS).map(|number| {
            let first = &firsts[number % Self::KEYS];
            match number / Self::KEYS {
                0 => first.clone(),
                1 | 2 => first.rival(),
                _ => first.stranger(),
            }
        });
        Self {
            subject,
            store: subject.store().await,
            attempts: attempts.collect(),
            models: firsts.iter().map(|_| Model::default()).collect(),
            max_records,
        }
    }

    /// How many records are alive.
    pub fn live(&self) -> usize {
        self.models.iter().filter(|model| model.is_live()).count()
    }

    /// Carries a step out, and panics unless the store answers as the model does and has the
    /// records that the model has.
    pub async fn step(&mut self, operation: &Operation) {
        let now = self.clear_of_edges().await;
        match operation {
            Operation::Pass { time } => self.subject.advance(*time).await,
            Operation::Claim {
                attempt,
                lease,
                ttl,
                takeover,
            } => {
                let number = attempt % Self::ATTEMPTS;
                let attempt = &mut self.attempts[number];
                (attempt.lease, attempt.ttl, attempt.takeover) = (*lease, *ttl, *takeover);
                self.claim(number, now).await;
            }
            Operation::Renew { attempts, lease } => self.renew(attempts, *lease, now).await,
            Operation::Complete {
                attempt,
                record,
                ttl,
            } => self.complete(*attempt, record, *ttl, now).await,
            Operation::Release { attempt, how } => self.release(*attempt, *how, now).await,
            Operation::Resolve { key, how } => {
                let fence = self.models[key % Self::KEYS].fence();
                self.resolve(*key, fence.unwrap_or(NO_FENCE), how, now)
                    .await;
            }
            Operation::ResolveStale { key, how } => {
                let fence = self.models[key % Self::KEYS].fence();
                let stale = fence.map_or(NO_FENCE, |fence| Fence::new(fence.get() + 1));
                self.resolve(*key, stale, how, now).await;
            }
            Operation::Purge { limit } => {
                let purged = self.store.purge(*limit).await.expect("the store answers");
                assert!(purged <= u64::from(*limit), "{purged} of {limit}");
            }
        }
        self.compare_records().await;
    }

    async fn claim(&mut self, number: usize, now: Instant) {
        let full = self.live() >= self.max_records;
        let (model, attempt) = (
            &mut self.models[number % Self::KEYS],
            &mut self.attempts[number],
        );
        let claimed = self.store.claim(&attempt.as_claim()).await;
        if full && !model.is_live() {
            assert!(
                matches!(claimed, Err(StoreError::Full { .. })),
                "{claimed:?}"
            );
            return;
        }
        let claim = claimed.expect("the store answers");
        let fence = match claim {
            Claim::Acquired { grant } => Some(grant.fence),
            Claim::InProgress { .. }
            | Claim::Completed { .. }
            | Claim::Mismatch { .. }
            | Claim::Lapsed { .. }
            | Claim::Unknown { .. }
            | Claim::Unreadable(_) => None,
        };
        let expected = model.claim(attempt, fence, now);
        let tolerance = self.subject.tolerance();
        match (&claim, &expected) {
            (
                Claim::InProgress { grant, left },
                Claim::InProgress {
                    grant: expected_grant,
                    left: expected_left,
                },
            ) => {
                assert_eq!(grant, expected_grant);
                assert!(
                    left.abs_diff(*expected_left) <= tolerance,
                    "{claim:?} {expected:?}"
                );
            }
            _ => assert_eq!(claim, expected),
        }
        if let Claim::Acquired { grant } = claim {
            attempt.grant = Some(grant);
        }
    }

    async fn renew(&mut self, numbers: &[usize], lease: Duration, now: Instant) {
        let numbers: Vec<_> = numbers
            .iter()
            .map(|number| number % Self::ATTEMPTS)
            .collect();
        for &number in &numbers {
            self.attempts[number].lease = lease;
        }
        let leases: Vec<_> = numbers
            .iter()
            .map(|&number| self.attempts[number].as_lease())
            .collect();
        let renewals = self.store.renew(&leases).await.expect("the store answers");
        assert_eq!(renewals.len(), numbers.len());
        for (number, renewal) in numbers.into_iter().zip(renewals) {
            let model = &mut self.models[number % Self::KEYS];
            let expected = model.renew(&self.attempts[number], now);
            match (renewal, expected) {
                (Renewal::Renewed { left }, Renewal::Renewed { left: expected }) => assert!(
                    left.abs_diff(expected) <= self.subject.tolerance(),
                    "{left:?} {expected:?}"
                ),
                _ => assert_eq!(renewal, expected),
            }
        }
    }

    async fn complete(&mut self, number: usize, record: &Record, ttl: Duration, now: Instant) {
        let attempt = &self.attempts[number % Self::ATTEMPTS];
        let completion = attempt.complete_for(&self.store, record, ttl).await;
        let restored = match completion {
            Completion::Restored => self.summary(attempt).await.map(|found| found.grant),
            Completion::Stored
            | Completion::Already
            | Completion::Released
            | Completion::Superseded => None,
        };
        let model = &mut self.models[number % Self::KEYS];
        let expected = model.complete(attempt, record, ttl, restored, now);
        assert_eq!(completion, expected);
    }

    async fn release(&mut self, number: usize, how: Release, now: Instant) {
        let attempt = &self.attempts[number % Self::ATTEMPTS];
        let released = attempt.release(&self.store, how).await;
        let expected = self.models[number % Self::KEYS].release(attempt, how, now);
        assert_eq!(released, expected);
    }

    async fn resolve(&mut self, key: usize, fence: Fence, how: &Resolve, now: Instant) {
        let key = key % Self::KEYS;
        let resolved = self
            .store
            .resolve(self.attempts[key].key(), fence, how.clone())
            .await
            .expect("the store answers");
        assert_eq!(resolved, self.models[key].resolve(fence, how, now));
    }

    /// The time, at which no lease and no record is about to end or has just ended: there the
    /// store's clock and ours would disagree.
    async fn clear_of_edges(&mut self) -> Instant {
        let tolerance = self.subject.tolerance();
        loop {
            let now = self.subject.now();
            let is_near = |edge: Instant| edge.max(now) - edge.min(now) < tolerance;
            if !self.models.iter().flat_map(Model::edges).any(is_near) {
                for model in &mut self.models {
                    model.reach(now);
                }
                return now;
            }
            self.subject.advance(tolerance).await;
        }
    }

    async fn compare_records(&mut self) {
        let now = self.clear_of_edges().await;
        for (model, attempt) in self.models.iter().zip(&self.attempts) {
            let summary = self.summary(attempt).await;
            let hint = attempt.key_hint();
            model.check(
                summary.as_ref(),
                hint.as_deref(),
                now,
                self.subject.tolerance(),
            );
        }
    }

    async fn summary(&self, attempt: &Attempt) -> Option<Summary> {
        let found = self.store.inspect(attempt.key()).await;
        found.expect("the store answers")
    }
}

impl fmt::Debug for Sequence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sequence")
            .field("store", &self.store)
            .field("models", &self.models)
            .finish_non_exhaustive()
    }
}

/// A fence that no store grants.
const NO_FENCE: Fence = Fence::new(0);
