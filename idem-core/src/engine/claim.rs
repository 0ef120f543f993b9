//! Calls of the store before the handler: sending the claim, and taking it back.
//!
//! Invariant: a claim is sent with one owner value until there is an answer, so that one whose reply
//! was lost is recognised as ours. One that nobody waits for any more is taken back.

use std::{fmt::Display, future::Future, sync::Arc, time::Duration};

use backon::{BackoffBuilder, ExponentialBuilder};
use tokio::{
    runtime::Handle,
    time::{Instant, sleep, timeout_at},
};
use tracing::Instrument;

use super::Engine;
use crate::{
    error::StoreError,
    lease::{Detach, Detached, Ticket, later},
    live::Attendance,
    observe::EventKind,
    policy::OnLapse,
    store::{Claim, Grant, Release, Released, ask},
};

/// How often a claim is sent before the request is refused.
const CLAIM_TRIES: u32 = 3;
/// How many claims are taken back at once: a store that has just come back has better to do.
pub(super) const UNDONE_AT_ONCE: usize = 16;
/// How many may wait for it. In a longer outage the leases of the others lapse.
pub(super) const UNDONE_LATER: usize = 10_000;
/// For how long a claim is taken back that would otherwise stay for somebody to decide about.
const UNDONE_FOR: Duration = Duration::from_mins(10);

impl Engine {
    /// Sends the claim. If the request is dropped meanwhile, the claim ends in a task of its own
    /// and is taken back.
    pub(super) async fn claim(&self, ticket: &Arc<Ticket>) -> Result<Claim, StoreError> {
        let claim = Box::pin(self.clone().send_claim(Arc::clone(ticket)));
        let (engine, ticket) = (self.clone(), Arc::clone(ticket));
        Detach::new(claim, move |Detached(claim)| {
            let attendance = engine.0.live.attend();
            spawn(&Arc::clone(&ticket), async move {
                // A failed claim has sent its own `Undo`.
                if let Ok(Claim::Acquired { grant }) = claim.await {
                    engine.undo(&ticket, Some(grant), attendance).await;
                }
            });
        })
        .await
    }

    /// Sends the claim with one owner value until there is an answer, so that a claim whose reply
    /// was lost is recognised as ours.
    async fn send_claim(self, ticket: Arc<Ticket>) -> Result<Claim, StoreError> {
        let limit = self.0.settings.store_timeout / CLAIM_TRIES;
        let mut pauses = None;
        loop {
            let error = match ask(limit, self.0.store.claim(&ticket.claim())).await {
                Ok(claim) => return Ok(claim),
                Err(error @ StoreError::Full { .. }) => {
                    // This try stored nothing. An earlier one may have.
                    if pauses.is_some() {
                        self.take_back(ticket, None);
                    }
                    return Err(error);
                }
                Err(error) => error,
            };
            let pauses = pauses.get_or_insert_with(|| backoff(CLAIM_TRIES as usize - 1));
            let Some(pause) = pauses.next() else {
                // It may still land, and would block its key though nothing runs.
                self.take_back(ticket, None);
                return Err(error);
            };
            sleep(pause).await;
        }
    }

    /// Takes back a claim whose handler has not started; until the store has answered, or for as long
    /// as the claim can block its key. A shutdown waits for the first try.
    async fn undo(&self, ticket: &Ticket, grant: Option<Grant>, attendance: Attendance) {
        let blocks = match ticket.policy.on_lapse {
            OnLapse::Takeover => ticket.policy.lease,
            // What lapsed without having run would be told as unknown, until somebody decides.
            OnLapse::Unknown => ticket.policy.lease.max(UNDONE_FOR),
        };
        let give_up = later(Instant::now(), blocks);
        let lease = ticket.lease(grant);
        let mut attendance = Some(attendance);
        let (mut after_an_error, mut after_nothing) = (backoff(usize::MAX), not_yet());
        let error = loop {
            if self.0.undoing.available_permits() == 0 {
                // A shutdown does not wait for a queue.
                drop(attendance.take());
            }
            let Ok(turn) = timeout_at(give_up, self.0.undoing.acquire()).await else {
                break StoreError::TimedOut { limit: blocks };
            };
            let undo = self.0.store.release(&lease, Release::Undo);
            let answer = ask(self.0.settings.store_timeout, undo).await;
            drop(turn);
            drop(attendance.take());
            let pause = match &answer {
                // It may have overtaken a claim that was given up and still lands.
                Ok(Released::Gone) if grant.is_none() => after_nothing.next(),
                Ok(Released::Done | Released::Ended | Released::Superseded | Released::Gone) => {
                    return;
                }
                Err(_) => after_an_error.next(),
            };
            let pause = pause.unwrap_or(blocks);
            if later(Instant::now(), pause) >= give_up {
                match answer {
                    // What lands now has lapsed.
                    Ok(_) => return,
                    Err(error) => break error,
                }
            }
            sleep(pause).await;
        };
        self.tell(ticket, EventKind::ReleaseFailed { error: &error });
    }

    /// Takes back a claim in a task of its own, unless very many wait for that already.
    pub(super) fn take_back(&self, ticket: Arc<Ticket>, grant: Option<Grant>) {
        let Ok(place) = Arc::clone(&self.0.undone_later).try_acquire_owned() else {
            let limit = self.0.settings.store_timeout;
            let error = &StoreError::TimedOut { limit };
            self.tell(&ticket, EventKind::ReleaseFailed { error });
            return;
        };
        let engine = self.clone();
        let attendance = self.0.live.attend();
        spawn(&Arc::clone(&ticket), async move {
            engine.undo(&ticket, grant, attendance).await;
            drop(place);
        });
    }
}

/// Runs `task` apart from any request, in the span that is current, unless there is no runtime to
/// run it on.
pub(super) fn spawn(ticket: &Ticket, task: impl Future<Output = ()> + Send + 'static) {
    match Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn(task.in_current_span())),
        Err(error) => left_unfinished(ticket, &error),
    }
}

/// Tells that nothing can go on without its request.
pub(super) fn left_unfinished(ticket: &Ticket, error: &dyn Display) {
    let operation = ticket.operation();
    tracing::error!(%operation, record = %ticket.id, %error, "left unfinished, its lease will lapse");
}

/// Pauses before a claim that is not there is taken back once more, for as long as it may be on its way.
fn not_yet() -> impl Iterator<Item = Duration> {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(250))
        .with_max_delay(Duration::from_secs(5))
        .without_max_times()
        .build()
}

/// Pauses between tries, growing and jittered.
pub(super) fn backoff(times: usize) -> impl Iterator<Item = Duration> {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(25))
        .with_max_delay(Duration::from_secs(5))
        .with_max_times(times)
        .with_jitter()
        .build()
}
