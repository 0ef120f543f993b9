//! Waiting for an attempt that runs, instead of refusing at once.
//!
//! Invariant: a request that waits has no claim and no store connection. Dropped, it leaves nothing
//! behind.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep_until, timeout_at};

use super::{Engine, claim::backoff};
use crate::{
    decide::Patience,
    lease::{Ticket, later},
    live::{Live, Phase, Waiter, WaiterLimits},
    store::Claim,
};

/// The longest pause between two looks at a record.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// A request that may wait for another one: until when, and its place.
pub(super) struct Queue {
    until: Option<Instant>,
    place: Option<Waiter>,
    pauses: Option<Box<dyn Iterator<Item = Duration> + Send>>,
}

impl Queue {
    pub(super) fn new(wait: Option<Duration>) -> Self {
        Self {
            until: wait.map(|wait| later(Instant::now(), wait)),
            place: None,
            pauses: None,
        }
    }

    /// Takes a place at the first claim that finds another attempt.
    pub(super) fn patience(
        &mut self,
        live: &Arc<Live>,
        ticket: &Ticket,
        claim: &Claim,
        limits: WaiterLimits,
    ) -> Patience {
        let in_time = self.until.is_some_and(|until| Instant::now() < until);
        if !in_time || !matches!(claim, Claim::InProgress { .. }) {
            return Patience::Exhausted;
        }
        if self.place.is_none() {
            self.place = live.wait(ticket.id, limits);
        }
        if self.place.is_some() {
            Patience::Waits
        } else {
            Patience::Exhausted
        }
    }

    /// Waits until the record may have changed.
    ///
    /// A store may say so too early, and of those who are woken only one gets the record. So each
    /// round begins with a pause that is longer than the one before; the first has none, and none
    /// is longer than the request waits.
    pub(super) async fn wait(&mut self, engine: &Engine, ticket: &Ticket, left: Duration) {
        let now = Instant::now();
        let lapse = later(now, left);
        let until = self.until.map_or(lapse, |until| until.min(lapse));
        let pause = self.pauses.as_mut().and_then(Iterator::next);
        if self.pauses.is_none() {
            self.pauses = Some(Box::new(backoff(usize::MAX)));
        }
        let pause_ends = pause.map(|pause| {
            let end = now + pause.min(LONGEST_PAUSE);
            self.until.map_or(end, |until| until.min(end))
        });
        let changed = async {
            if let Some(end) = pause_ends {
                sleep_until(end).await;
            }
            // A store that does not return in time is left there.
            timeout_at(until, engine.0.store.changed(&ticket.id, until))
                .await
                .unwrap_or(Ok(()))
        };
        tokio::select! {
            () = engine.0.live.reached(Phase::Draining) => {}
            changed = changed => if let Err(error) = changed {
                let operation = ticket.operation();
                tracing::warn!(%operation, record = %ticket.id, %error, "cannot watch a record");
            }
        }
    }
}
