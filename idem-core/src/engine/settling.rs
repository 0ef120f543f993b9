//! What becomes of an attempt that has ended: its outcome is stored, or its claim given up.
//!
//! Invariant: the effect is done, so nothing here may be lost quietly. A call that fails is repeated
//! for a while before the answer is sent, and in a task of its own after that, under a lease that is
//! renewed until the end.

use std::{future::Future, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};

use super::{
    Answer, Claimed,
    claim::{backoff, spawn},
};
use crate::{
    decide::{Action, Patience, Settlement, decide},
    error::StoreError,
    lease::later,
    observe::EventKind,
    policy::UNKNOWN_KEPT,
    record::Record,
    rejection::Rejection,
    store::{Claim, Completion, Grant, Release, Released, ask},
};

/// How long a response is held back while what came of its attempt cannot be stored.
const BEFORE_THE_ANSWER: Duration = Duration::from_secs(2);
/// How long it is tried after that.
const AFTER_THE_ANSWER: Duration = Duration::from_mins(10);
/// How often a late owner looks for the outcome of its successor before it gives its own.
const CONVERGENCES: u32 = 3;

/// What is to be stored.
pub(super) enum Ended {
    /// An outcome.
    With(Record),
    /// None: the claim is given up so.
    Without(Release),
}

impl Ended {
    /// What a settlement means to the store. `record` is the answer, if there is one.
    pub(super) fn of(settlement: Settlement, record: Option<Record>, ttl: Duration) -> Self {
        match (settlement, record) {
            (Settlement::Complete, Some(record)) => Self::With(record),
            (Settlement::Complete, None) | (Settlement::Release, _) => {
                Self::Without(Release::Bound)
            }
            (Settlement::Forget, _) => Self::Without(Release::Forget),
            (Settlement::Unknown, _) => Self::Without(Release::Unknown {
                keep: UNKNOWN_KEPT.max(ttl),
            }),
        }
    }
}

impl Claimed {
    /// Stores what came of the attempt, and says so. Gives the answer that counts if it is not ours.
    pub(super) async fn settle(
        mut self,
        ended: Ended,
        status: Option<u16>,
        settlement: Settlement,
    ) -> Option<Answer> {
        let attempt = self.lease.grant().attempt;
        let stored = self.store(&ended, BEFORE_THE_ANSWER).await;
        self.tell(EventKind::Executed {
            status,
            attempt,
            settlement,
            stored: stored.is_ok(),
        });
        if let Ok(answer) = stored {
            return answer;
        }
        // The client gets its answer; the record follows.
        let (ticket, answered) = (Arc::clone(self.lease.ticket()), Instant::now());
        spawn(&ticket, async move {
            match self.store(&ended, AFTER_THE_ANSWER).await {
                Ok(_) => {
                    // From here on the store answers for it.
                    drop(self.unsettled.take());
                    self.tell(EventKind::StoredLate {
                        after: answered.elapsed(),
                    });
                }
                Err(error) => self.tell(EventKind::CompletionLost { error: &error }),
            }
        });
        None
    }

    async fn store(
        &mut self,
        ended: &Ended,
        budget: Duration,
    ) -> Result<Option<Answer>, StoreError> {
        match ended {
            Ended::With(record) => self.complete(record, budget).await,
            Ended::Without(how) => self.give_up(*how, budget).await.map(|()| None),
        }
    }

    async fn complete(
        &mut self,
        record: &Record,
        budget: Duration,
    ) -> Result<Option<Answer>, StoreError> {
        for _ in 0..CONVERGENCES {
            let completion = || self.send_completion(record);
            match self.persist(budget, Meanwhile::Hold, completion).await? {
                Completion::Stored | Completion::Restored | Completion::Already => return Ok(None),
                Completion::Superseded | Completion::Released => {
                    self.tell_lost();
                    match self.converge(budget).await {
                        Converged::Ours => {}
                        Converged::Theirs(answer) => return Ok(Some(answer)),
                        Converged::Nowhere => return Ok(None),
                    }
                }
            }
        }
        // Others claim it again and again; one of them will answer the next request.
        Ok(None)
    }

    /// From now on this engine runs nothing else under the key, until the outcome is stored or lost.
    fn hold_outcome(&self) {
        let unsettled = &self.engine.0.unsettled;
        self.unsettled
            .get_or_init(|| Box::new(unsettled.hold(self.lease.ticket(), self.lease.grant())));
    }

    async fn send_completion(&self, record: &Record) -> Result<Completion, StoreError> {
        let ticket = self.lease.ticket();
        let lease = ticket.lease(Some(self.lease.grant()));
        let ttl = ticket.policy.ttl;
        self.engine.0.store.complete(&lease, record, ttl).await
    }

    /// Finds the answer that counts, for an owner that was replaced.
    ///
    /// Every observer of a key is to get one answer. If the successor left none, or its lease ran
    /// out too, ours is the only one there is, and the record is ours again.
    async fn converge(&mut self, budget: Duration) -> Converged {
        let sent = Instant::now();
        let again = || self.send_claim_again();
        let claim = self.persist(budget, Meanwhile::Lapse, again).await;
        match claim {
            Ok(Claim::Acquired { grant }) => {
                self.hold_again(grant, sent);
                Converged::Ours
            }
            // The key was forgotten and stands for another request now.
            Ok(Claim::Mismatch { .. }) => Converged::Nowhere,
            Ok(claim) => match decide(claim, Patience::Exhausted) {
                Action::Replay(record) => Converged::Theirs(Answer::Replay(record)),
                Action::Reject(rejection) => Converged::Theirs(Answer::Rejection(rejection)),
                // Only what is acquired is executed, and nobody waits whose patience is exhausted.
                Action::Execute(_) | Action::Wait { .. } => Converged::Nowhere,
            },
            // There is an answer that is not ours, and it cannot be read now.
            Err(_) => Converged::Theirs(Answer::Rejection(Rejection::StoreUnavailable)),
        }
    }

    async fn send_claim_again(&self) -> Result<Claim, StoreError> {
        let claim = self.lease.ticket().claim();
        self.engine.0.store.claim(&claim).await
    }

    /// Has the record renewed that is ours again.
    fn hold_again(&mut self, grant: Grant, sent: Instant) {
        self.lease = self
            .engine
            .hold(Arc::clone(self.lease.ticket()), grant, sent);
        self.lease.settling();
    }

    /// Gives the claim up without an outcome.
    async fn give_up(&self, how: Release, budget: Duration) -> Result<(), StoreError> {
        let lease = self.lease.ticket().lease(Some(self.lease.grant()));
        let release = || self.engine.0.store.release(&lease, how);
        let meanwhile = match how {
            // That nobody knows is an outcome too.
            Release::Unknown { .. } => Meanwhile::Hold,
            Release::Bound | Release::Forget | Release::Undo => Meanwhile::Lapse,
        };
        match self.persist(budget, meanwhile, release).await? {
            Released::Done | Released::Ended => {}
            // Forgotten before: the reply was lost.
            Released::Gone if how == Release::Forget => {}
            Released::Superseded | Released::Gone => self.tell_lost(),
        }
        Ok(())
    }

    /// Repeats a call that is safe to repeat until it is answered, for at most `budget`.
    async fn persist<T, C>(
        &self,
        budget: Duration,
        meanwhile: Meanwhile,
        call: impl Fn() -> C,
    ) -> Result<T, StoreError>
    where
        C: Future<Output = Result<T, StoreError>>,
    {
        let give_up = later(Instant::now(), budget);
        let mut pauses = None;
        loop {
            let limit = self.engine.0.settings.store_timeout.min(budget);
            let error = match ask(limit, call()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            match meanwhile {
                Meanwhile::Hold => self.hold_outcome(),
                Meanwhile::Lapse => {}
            }
            let pauses = pauses.get_or_insert_with(|| backoff(usize::MAX));
            let pause = pauses.next().unwrap_or(budget);
            if later(Instant::now(), pause) >= give_up {
                return Err(error);
            }
            self.tell(EventKind::CompletionRetried { error: &error });
            sleep(pause).await;
        }
    }

    fn tell_lost(&self) {
        if self.lease.lose() {
            self.tell(EventKind::LeaseLost);
        }
    }
}

/// What becomes of a key while what came of its attempt cannot be stored.
#[derive(Debug, Clone, Copy)]
enum Meanwhile {
    /// Nothing else runs under it in this process, even if the lease lapses.
    Hold,
    /// Its lease may lapse.
    Lapse,
}

/// Where the answer that counts is.
enum Converged {
    /// We may store ours.
    Ours,
    /// Here.
    Theirs(Answer),
    /// There is none: ours goes to our client and nobody else.
    Nowhere,
}
