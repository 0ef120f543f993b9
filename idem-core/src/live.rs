//! What an engine has in flight: attempts that a shutdown waits for, and requests that wait.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Notify, watch},
    time::timeout,
};

use crate::key::StorageKey;

/// The attempts of an engine, and how far its shutdown has come.
#[derive(Debug)]
pub(crate) struct Live {
    attempts: AtomicUsize,
    idle: Notify,
    phase: watch::Sender<Phase>,
    waiters: Mutex<HashMap<StorageKey, usize>>,
    waiting: AtomicUsize,
}

/// How far a shutdown has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Requests are taken.
    Open,
    /// New keyed requests are refused; those that wait leave.
    Draining,
    /// Detached attempts end where they are.
    Aborting,
}

/// What a drain achieved.
///
/// # Examples
/// ```
/// use idem_core::Drained;
///
/// // As `idem.drain(limit).await` gives it.
/// let drained = Drained { finished: 3, left: 0 };
/// assert_eq!(drained.left, 0, "nothing has to lapse");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Drained {
    /// Attempts that ended in time.
    pub finished: usize,
    /// Attempts that still ran. Those whose client is gone were ended: their leases lapse, and an
    /// equal request then runs again. The others end as their server lets them.
    pub left: usize,
}

impl Live {
    pub(crate) fn new() -> Self {
        Self {
            attempts: AtomicUsize::new(0),
            idle: Notify::new(),
            phase: watch::Sender::new(Phase::Open),
            waiters: Mutex::default(),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Counts an attempt in; `None` once a shutdown has begun.
    ///
    /// Counted before the phase is read again, so that a drain which begins now sees either.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Attendance> {
        if !self.is_open() {
            return None;
        }
        let attendance = self.attend();
        self.is_open().then_some(attendance)
    }

    /// Counts in what a shutdown must wait for, even if it has begun.
    pub(crate) fn attend(self: &Arc<Self>) -> Attendance {
        self.attempts.fetch_add(1, Ordering::SeqCst);
        Attendance(Arc::clone(self))
    }

    fn is_open(&self) -> bool {
        *self.phase.borrow() == Phase::Open
    }

    /// Waits until the shutdown has come as far as `phase`.
    pub(crate) async fn reached(&self, phase: Phase) {
        // The sender lives in `self`, so the channel cannot close while we wait.
        let _ = self.phase.subscribe().wait_for(|now| *now >= phase).await;
    }

    /// Refuses new attempts, waits for the live ones, and aborts what is detached after `limit`.
    pub(crate) async fn drain(&self, limit: Duration) -> Drained {
        self.phase.send_if_modified(|phase| {
            let begins = *phase == Phase::Open;
            *phase = (*phase).max(Phase::Draining);
            begins
        });
        let before = self.attempts.load(Ordering::SeqCst);
        // Cancel safe: a dropped drain leaves the engine draining.
        let _ = timeout(limit, self.wait_until_idle()).await;
        let left = self.attempts.load(Ordering::SeqCst);
        self.phase.send_replace(Phase::Aborting);
        Drained {
            finished: before.saturating_sub(left),
            left,
        }
    }

    async fn wait_until_idle(&self) {
        loop {
            let mut idle = std::pin::pin!(self.idle.notified());
            idle.as_mut().enable();
            if self.attempts.load(Ordering::SeqCst) == 0 {
                return;
            }
            idle.await;
        }
    }

    /// Takes a place among those who wait for `key`; `None` if there is none left.
    pub(crate) fn wait(self: &Arc<Self>, key: StorageKey, limits: WaiterLimits) -> Option<Waiter> {
        let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        let here = waiters.entry(key).or_default();
        if *here >= limits.per_key || self.waiting.load(Ordering::Relaxed) >= limits.total {
            if *here == 0 {
                waiters.remove(&key);
            }
            return None;
        }
        *here += 1;
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Some(Waiter {
            live: Arc::clone(self),
            key,
        })
    }
}

/// An attempt that a drain waits for.
#[derive(Debug)]
pub(crate) struct Attendance(Arc<Live>);

impl Drop for Attendance {
    fn drop(&mut self) {
        if self.0.attempts.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.idle.notify_waiters();
        }
    }
}

/// How many requests may wait for others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaiterLimits {
    pub(crate) per_key: usize,
    pub(crate) total: usize,
}

/// The place of a request that waits; given back when dropped.
#[derive(Debug)]
pub(crate) struct Waiter {
    live: Arc<Live>,
    key: StorageKey,
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut waiters = self
            .live
            .waiters
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(here) = waiters.get_mut(&self.key) {
            *here -= 1;
            if *here == 0 {
                waiters.remove(&self.key);
            }
        }
        self.live.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: StorageKey = StorageKey::from_bytes([7; 32]);
    const LIMITS: WaiterLimits = WaiterLimits {
        per_key: 2,
        total: 3,
    };

    #[test]
    fn waiters_are_bounded_for_a_key_and_in_all_and_leave_nothing_behind() {
        let live = Arc::new(Live::new());
        let other = StorageKey::from_bytes([8; 32]);
        let first = live.wait(KEY, LIMITS).expect("a place");
        let second = live.wait(KEY, LIMITS).expect("a place");
        assert!(live.wait(KEY, LIMITS).is_none());
        let third = live.wait(other, LIMITS).expect("a place");
        assert!(live.wait(StorageKey::from_bytes([9; 32]), LIMITS).is_none());
        drop(first);
        assert!(live.wait(KEY, LIMITS).is_some());
        drop((second, third));
        assert!(live.waiters.lock().expect("not poisoned").is_empty());
        assert_eq!(live.waiting.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_drain_waits_for_attempts_and_takes_no_new_ones() {
        let live = Arc::new(Live::new());
        let attempt = live.enter().expect("open");
        let stuck = live.enter().expect("open");
        let draining = tokio::spawn({
            let live = Arc::clone(&live);
            async move { live.drain(Duration::from_secs(5)).await }
        });
        live.reached(Phase::Draining).await;
        assert!(live.enter().is_none());
        drop(attempt);
        live.reached(Phase::Aborting).await;
        assert_eq!(
            draining.await.expect("no panic"),
            Drained {
                finished: 1,
                left: 1
            }
        );
        drop(stuck);
        assert_eq!(
            live.drain(Duration::ZERO).await,
            Drained {
                finished: 0,
                left: 0
            }
        );
    }
}
