//! An attempt: running the handler under its claim, and settling what came of it.
//!
//! Invariant: from the first poll of the handler to the end of its completion one boxed future
//! holds all of it, and goes on in a task of its own when it is dropped. Before that poll a
//! dropped attempt takes its claim back, and only then.

use std::{any::Any, future::Future, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use tokio::time::{Instant, sleep};
use tracing::{Instrument, Span};

use super::{
    Answer, Engine,
    claim::{backoff, spawn},
};
use crate::{
    decide::{Action, Ending, Patience, Settlement, decide, settle},
    error::StoreError,
    lease::{Detach, Detached, Lease, Ticket},
    live::{Attendance, Phase},
    observe::EventKind,
    policy::Outcome,
    record::Record,
    store::{Claim, Completion, Release, Released},
};

/// How long a response is held back while its record cannot be stored.
const INLINE_COMPLETION: Duration = Duration::from_secs(2);
/// How long a completion is tried after its response was sent.
const BACKGROUND_COMPLETION: Duration = Duration::from_mins(10);
/// How long an unknown outcome is kept, if its `ttl` is shorter: somebody must have time to decide.
const UNKNOWN_KEPT: Duration = Duration::from_hours(168);
/// How often a late owner looks for the outcome of its successor before it gives its own.
const CONVERGENCES: u32 = 3;

/// A claim whose handler is to run.
///
/// Dropped before the handler has started, it takes the claim back.
#[derive(Debug)]
pub struct Claimed {
    engine: Engine,
    lease: Lease,
    undo: bool,
    _attendance: Attendance,
}

impl Claimed {
    pub(super) fn new(engine: Engine, lease: Lease, attendance: Attendance) -> Self {
        Self {
            engine,
            lease,
            undo: true,
            _attendance: attendance,
        }
    }

    /// Runs the handler, settles what came of it, and says what to send.
    ///
    /// # Errors
    /// The handler's panic, after the claim was released. The caller resumes it.
    ///
    /// # Cancel safety
    /// Once polled, it goes on in a task of its own when it is dropped.
    pub async fn run<R, F>(self, handler: F) -> Result<Reply<R>, Panic>
    where
        R: Send + 'static,
        F: Future<Output = Ran<R>> + Send + 'static,
    {
        let engine = self.engine.clone();
        let ticket = Arc::clone(self.lease.ticket());
        let span = Span::current();
        Detach::new(
            Box::pin(self.execute(handler)),
            move |Detached(execution)| {
                engine.detach(&ticket, execution, span);
            },
        )
        .await
    }

    async fn execute<R, F>(mut self, handler: F) -> Result<Reply<R>, Panic>
    where
        F: Future<Output = Ran<R>>,
    {
        // From here on the handler may have had an effect.
        self.undo = false;
        let ended = AssertUnwindSafe(handler).catch_unwind().await;
        // A drop from here to the end goes on in a task: the effect is done, the record is not.
        self.lease.settling();
        match ended {
            Ok(Ran {
                record,
                outcome,
                response,
            }) => Ok(match self.finish(record, outcome).await {
                Some(answer) => Reply::Other(answer),
                None => Reply::Own(response),
            }),
            Err(panic) => {
                let settlement = settle(Ending::Panicked);
                self.give_up(settlement).await;
                self.executed(None, settlement);
                Err(panic)
            }
        }
    }

    /// Settles an attempt whose handler answered. Gives the answer that counts if it is not ours.
    async fn finish(self, record: Record, outcome: Option<Outcome>) -> Option<Answer> {
        let status = record.status;
        let settlement = settle(Ending::Answered { status, outcome });
        self.executed(Some(status), settlement);
        match settlement {
            Settlement::Complete => self.complete(record).await,
            Settlement::Release | Settlement::Forget | Settlement::Unknown => {
                self.give_up(settlement).await;
                None
            }
        }
    }

    fn executed(&self, status: Option<u16>, settlement: Settlement) {
        let attempt = self.lease.grant().attempt;
        self.tell(EventKind::Executed {
            status,
            attempt,
            settlement,
        });
    }

    async fn complete(self, record: Record) -> Option<Answer> {
        for _ in 0..CONVERGENCES {
            let completion = self.persist(INLINE_COMPLETION, || self.send_completion(&record));
            match completion.await {
                Ok(Completion::Stored | Completion::Restored | Completion::Already) => return None,
                Ok(Completion::Superseded | Completion::Released) => {
                    self.tell_lost();
                    match self.converge().await {
                        Converged::Ours => {}
                        Converged::Theirs(answer) => return Some(answer),
                        Converged::Nowhere => return None,
                    }
                }
                Err(_) => {
                    // The client gets its answer; the record follows, under a lease that is renewed.
                    let ticket = Arc::clone(self.lease.ticket());
                    spawn(&ticket, self.complete_later(record));
                    return None;
                }
            }
        }
        None
    }

    async fn complete_later(self, record: Record) {
        let completion = self.persist(BACKGROUND_COMPLETION, || self.send_completion(&record));
        match completion.await {
            Ok(Completion::Stored | Completion::Restored | Completion::Already) => {}
            Ok(Completion::Superseded | Completion::Released) => self.tell_lost(),
            Err(error) => self.tell(EventKind::CompletionLost { error: &error }),
        }
    }

    async fn send_completion(&self, record: &Record) -> Result<Completion, StoreError> {
        let ticket = self.lease.ticket();
        let lease = ticket.lease(Some(self.lease.grant()));
        self.engine
            .0
            .store
            .complete(&lease, record, ticket.policy.ttl)
            .await
    }

    /// Repeats a call that is safe to repeat until it is answered, for at most `budget`.
    async fn persist<T, C>(&self, budget: Duration, call: impl Fn() -> C) -> Result<T, StoreError>
    where
        C: Future<Output = Result<T, StoreError>>,
    {
        let give_up = Instant::now() + budget;
        let mut pauses = None;
        loop {
            let error = match self
                .engine
                .call(self.engine.0.settings.store_timeout, call())
                .await
            {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let pauses = pauses.get_or_insert_with(|| backoff(usize::MAX));
            let pause = pauses.next().unwrap_or(budget);
            if Instant::now() + pause >= give_up {
                return Err(error);
            }
            self.tell(EventKind::CompletionRetried { error: &error });
            sleep(pause).await;
        }
    }

    /// Finds the answer that counts, for an owner that was replaced.
    ///
    /// Every observer of a key is to get one answer. If the successor left none, or its lease ran
    /// out too, ours is the only one there is, and the record is ours again.
    async fn converge(&self) -> Converged {
        let limit = self.engine.0.settings.store_timeout;
        let ticket = self.lease.ticket();
        let claim = ticket.claim();
        match self
            .engine
            .call(limit, self.engine.0.store.claim(&claim))
            .await
        {
            Ok(Claim::Acquired { .. }) => Converged::Ours,
            // The key was forgotten and stands for another request now.
            Ok(Claim::Mismatch { .. }) => Converged::Nowhere,
            Ok(claim) => match decide(claim, Patience::Exhausted) {
                Action::Replay(record) => Converged::Theirs(Answer::Replay(record)),
                Action::Reject(rejection) => Converged::Theirs(Answer::Rejection(rejection)),
                Action::Execute(_) => Converged::Ours,
                Action::Wait { .. } => Converged::Nowhere,
            },
            Err(error) => {
                self.tell(EventKind::CompletionLost { error: &error });
                Converged::Nowhere
            }
        }
    }

    /// Gives the claim up without an outcome.
    async fn give_up(&self, settlement: Settlement) {
        let ticket = self.lease.ticket();
        let how = match settlement {
            // `complete` stores outcomes; a claim that comes here has none.
            Settlement::Complete | Settlement::Release => Release::Bound,
            Settlement::Forget => Release::Forget,
            Settlement::Unknown => Release::Unknown {
                keep: UNKNOWN_KEPT.max(ticket.policy.ttl),
            },
        };
        let lease = ticket.lease(Some(self.lease.grant()));
        let release = || self.engine.0.store.release(&lease, how);
        match self
            .persist(self.engine.0.settings.store_timeout, release)
            .await
        {
            Ok(Released::Done | Released::Ended) => {}
            // Forgotten before: the reply was lost.
            Ok(Released::Gone) if how == Release::Forget => {}
            Ok(Released::Superseded | Released::Gone) => self.tell_lost(),
            Err(error) => self.tell(EventKind::ReleaseFailed { error: &error }),
        }
    }

    fn tell_lost(&self) {
        if self.lease.lose() {
            self.tell(EventKind::LeaseLost);
        }
    }

    fn tell(&self, kind: EventKind<'_>) {
        self.engine.tell(self.lease.ticket(), kind);
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        if self.undo {
            let engine = self.engine.clone();
            let ticket = Arc::clone(self.lease.ticket());
            let grant = self.lease.grant();
            spawn(&Arc::clone(&ticket), async move {
                engine.undo(&ticket, Some(grant)).await;
            });
        }
    }
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

/// What a handler gave, seen by the engine: what to store, and what to send.
#[derive(Debug)]
pub struct Ran<R> {
    /// What to store, made by [`Engine::record`].
    pub record: Record,
    /// What the handler said about its own answer.
    pub outcome: Option<Outcome>,
    /// The framework's response.
    pub response: R,
}

/// What to send.
#[derive(Debug)]
#[must_use]
pub enum Reply<R> {
    /// The handler's response.
    Own(R),
    /// Another answer: the handler ran longer than its lease, and its successor's answer counts.
    Other(Answer),
}

/// What a handler's panic carried.
pub type Panic = Box<dyn Any + Send>;

impl Engine {
    /// Lets an execution go on without its client.
    fn detach<R: Send + 'static>(
        &self,
        ticket: &Ticket,
        execution: impl Future<Output = Result<Reply<R>, Panic>> + Send + 'static,
        span: Span,
    ) {
        self.tell(ticket, EventKind::Detached);
        let live = Arc::clone(&self.0.live);
        let operation = ticket.operation.clone();
        let record = ticket.id;
        let task = async move {
            tokio::select! {
                // What is left of it at the end of a shutdown lapses with its lease.
                () = live.reached(Phase::Aborting) => {}
                ended = execution => if ended.is_err() {
                    tracing::error!(%operation, %record, "handler panicked after its client had left");
                }
            }
        };
        spawn(ticket, task.instrument(span));
    }
}
