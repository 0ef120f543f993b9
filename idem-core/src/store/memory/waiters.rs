//! Those who wait for the end of an attempt.
//!
//! Nothing is allocated while nobody waits. Those who wait keep the gate alive; when the last of
//! them leaves, it is gone.

use std::sync::{Arc, Weak};

use tokio::sync::Semaphore;

/// The inner side of the gate. Dropping it opens the gate.
#[derive(Debug, Default)]
pub(super) struct Waiters(Weak<Semaphore>);

impl Waiters {
    /// Joins those who wait.
    pub(super) fn join(&mut self) -> Wait {
        let gate = self.0.upgrade().unwrap_or_else(|| {
            let gate = Arc::new(Semaphore::new(0));
            *self = Self(Arc::downgrade(&gate));
            gate
        });
        Wait(gate)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.strong_count() == 0
    }
}

impl Drop for Waiters {
    fn drop(&mut self) {
        if let Some(gate) = self.0.upgrade() {
            gate.close();
        }
    }
}

/// One who waits.
#[derive(Debug)]
pub(super) struct Wait(Arc<Semaphore>);

impl Wait {
    /// Ends when the gate is opened. A gate that was opened stays open, so that nothing is missed
    /// between joining and waiting.
    pub(super) async fn over(self) {
        let acquired = self.0.acquire().await;
        debug_assert!(acquired.is_err(), "the gate has no permits");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn a_wait_that_starts_after_the_end_is_over() {
        let mut waiters = Waiters::default();
        let (first, second) = (waiters.join(), waiters.join());
        assert_eq!(first.over().now_or_never(), None);
        drop(waiters);
        assert_eq!(second.over().now_or_never(), Some(()));
    }

    #[test]
    fn nothing_is_left_of_those_who_left() {
        let mut waiters = Waiters::default();
        assert!(waiters.is_empty());
        let (first, second) = (waiters.join(), waiters.join());
        drop(first);
        assert!(!waiters.is_empty());
        drop(second);
        assert!(waiters.is_empty());
    }
}
