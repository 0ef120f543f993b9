//! An attempt: running the handler under its claim, and settling what came of it.
//!
//! Invariant: from the first poll of the handler to the end of its completion one boxed future
//! holds all of it, and goes on in a task of its own when it is dropped. Before that poll a
//! dropped attempt takes its claim back, and only then.

use std::{
    any::Any,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, OnceLock},
};

use futures_util::{FutureExt, future::LocalBoxFuture};
use tracing::{Instrument, Span};

use super::{
    Answer, Engine,
    claim::{left_unfinished, spawn},
    settling::Ended,
    unsettled::Held,
};
use crate::{
    attempt::Attempt,
    decide::{Ending, settle},
    lease::{Detach, Detached, Lease, Ticket},
    live::{Attendance, Phase},
    observe::EventKind,
    policy::Outcome,
    record::Record,
};

/// A claim whose handler is to run.
///
/// Dropped before the handler has started, it takes the claim back.
#[derive(Debug)]
pub struct Claimed {
    pub(super) engine: Engine,
    pub(super) lease: Lease,
    attempt: Option<Attempt>,
    /// Set once an outcome could not be stored at once; boxed, since that is rare.
    pub(super) unsettled: OnceLock<Box<Held>>,
    undo: bool,
    _attendance: Attendance,
}

impl Claimed {
    pub(super) fn new(
        engine: Engine,
        lease: Lease,
        attempt: Option<Attempt>,
        attendance: Attendance,
    ) -> Self {
        Self {
            engine,
            lease,
            attempt,
            unsettled: OnceLock::new(),
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
                let rest = engine.detached(&ticket, execution);
                spawn(&ticket, rest.instrument(span));
            },
        )
        .await
    }

    /// Runs a handler that stays on its thread, as [`run`](Self::run) does. `spawn` starts a task on that
    /// thread; where it cannot it panics, and the lease lapses.
    ///
    /// # Errors
    /// The handler's panic, after the claim was released. The caller resumes it.
    ///
    /// # Cancel safety
    /// Once polled, it goes on in a task of its own when it is dropped.
    pub async fn run_local<R, F>(
        self,
        handler: F,
        spawn: fn(LocalBoxFuture<'static, ()>),
    ) -> Result<Reply<R>, Panic>
    where
        R: 'static,
        F: Future<Output = Ran<R>> + 'static,
    {
        let engine = self.engine.clone();
        let ticket = Arc::clone(self.lease.ticket());
        let span = Span::current();
        Detach::new(
            Box::pin(self.execute(handler)),
            move |Detached(execution)| {
                let rest = engine.detached(&ticket, execution);
                let rest = rest.instrument(span).boxed_local();
                if catch_unwind(AssertUnwindSafe(|| spawn(rest))).is_err() {
                    let error = "no task can be started on this thread";
                    left_unfinished(&ticket, &error);
                }
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
        let ttl = self.lease.ticket().policy.ttl;
        match ended {
            Ok(Ran {
                mut record,
                outcome,
                response,
            }) => {
                if let Some(reference) = self.attempt.as_ref().and_then(Attempt::named) {
                    record.reference = Some(reference);
                }
                let status = record.status;
                let settlement = settle(Ending::Answered { status, outcome });
                let ended = Ended::of(settlement, Some(record), ttl);
                Ok(match self.settle(ended, Some(status), settlement).await {
                    Some(answer) => Reply::Other(answer),
                    None => Reply::Own(response),
                })
            }
            Err(panic) => {
                let settlement = settle(Ending::Panicked);
                self.settle(Ended::of(settlement, None, ttl), None, settlement)
                    .await;
                Err(panic)
            }
        }
    }

    pub(super) fn tell(&self, kind: EventKind<'_>) {
        self.engine.tell(self.lease.ticket(), kind);
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        if self.undo {
            let ticket = Arc::clone(self.lease.ticket());
            self.engine.take_back(ticket, Some(self.lease.grant()));
        }
    }
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
    /// What is left of an execution that has lost its client.
    fn detached<R, F>(
        &self,
        ticket: &Arc<Ticket>,
        execution: F,
    ) -> impl Future<Output = ()> + use<R, F>
    where
        F: Future<Output = Result<Reply<R>, Panic>>,
    {
        self.tell(ticket, EventKind::Detached);
        let live = Arc::clone(&self.0.live);
        let ticket = Arc::clone(ticket);
        async move {
            tokio::select! {
                // What is left of it at the end of a shutdown lapses with its lease.
                () = live.reached(Phase::Aborting) => {}
                ended = execution => if ended.is_err() {
                    let (operation, record) = (ticket.operation(), ticket.id);
                    tracing::error!(%operation, %record, "handler panicked after its client had left");
                }
            }
        }
    }
}
