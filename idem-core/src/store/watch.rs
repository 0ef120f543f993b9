//! Waiting for records of a store that tells nobody.
//!
//! Invariant: however many wait for a key, one of them looks at it, at growing pauses, and tells the
//! others. What ends through the same store is told at once, without a look.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use backon::{BackoffBuilder, ExponentialBuilder};
use tokio::{
    sync::{Notify, Semaphore},
    time::{Instant, sleep, timeout_at},
};

use crate::{error::StoreError, key::StorageKey};

/// The longest pause between two looks at a record.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Those who wait for records of one store.
#[derive(Debug, Default)]
pub(super) struct Watch(Mutex<HashMap<StorageKey, Crowd>>);

/// Those who wait for one record, counted under the lock of the map.
#[derive(Debug)]
struct Crowd {
    waiting: usize,
    watched: Arc<Watched>,
}

/// What those who wait for one record share.
#[derive(Debug)]
struct Watched {
    ended: Notify,
    /// The place of the one who looks.
    lookout: Semaphore,
}

impl Watch {
    /// Waits until `runs` says that the record is not in progress any more, until somebody tells, or
    /// until `until`.
    ///
    /// # Errors
    /// That of a look.
    ///
    /// # Cancel safety
    /// Cancel safe: another one who waits looks instead.
    pub(super) async fn wait<L>(
        &self,
        key: &StorageKey,
        until: Instant,
        runs: impl Fn() -> L,
    ) -> Result<(), StoreError>
    where
        L: Future<Output = Result<bool, StoreError>>,
    {
        let place = self.join(key);
        let watched = &place.watched;
        // From here on an end is not missed.
        let ended = watched.ended.notified();
        let look = async {
            // It is never closed; if it were, everybody might look.
            let _lookout = watched.lookout.acquire().await;
            let mut pauses = pauses();
            while runs().await? {
                sleep(pauses.next().unwrap_or(LONGEST_PAUSE)).await;
            }
            watched.ended.notify_waiters();
            Ok(())
        };
        let first = async {
            tokio::select! {
                // Who was told does not look, though the lookout's place is free by then.
                biased;
                () = ended => Ok(()),
                looked = look => looked,
            }
        };
        timeout_at(until, first).await.unwrap_or(Ok(()))
    }

    /// Tells those who wait for the record that it ended.
    pub(super) fn ended(&self, key: &StorageKey) {
        let watched = self.lock().get(key).map(|crowd| Arc::clone(&crowd.watched));
        if let Some(watched) = watched {
            watched.ended.notify_waiters();
        }
    }

    fn join(&self, key: &StorageKey) -> Place<'_> {
        let mut crowds = self.lock();
        let crowd = crowds.entry(*key).or_insert_with(|| Crowd {
            waiting: 0,
            watched: Arc::new(Watched {
                ended: Notify::new(),
                lookout: Semaphore::new(1),
            }),
        });
        crowd.waiting += 1;
        Place {
            watch: self,
            key: *key,
            watched: Arc::clone(&crowd.watched),
        }
    }

    /// The lock guards a map that every critical section leaves whole.
    fn lock(&self) -> MutexGuard<'_, HashMap<StorageKey, Crowd>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One who waits. The last one who leaves takes the record off the list.
struct Place<'a> {
    watch: &'a Watch,
    key: StorageKey,
    watched: Arc<Watched>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut crowds = self.watch.lock();
        if let Some(crowd) = crowds.get_mut(&self.key) {
            crowd.waiting -= 1;
            if crowd.waiting == 0 {
                crowds.remove(&self.key);
            }
        }
    }
}

/// 25 ms, growing to [`LONGEST_PAUSE`], jittered.
fn pauses() -> impl Iterator<Item = Duration> {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(25))
        .with_max_delay(LONGEST_PAUSE)
        .with_factor(1.6)
        .without_max_times()
        .with_jitter()
        .build()
        .map(|pause| pause.min(LONGEST_PAUSE))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;

    use super::*;

    const KEY: StorageKey = StorageKey::from_bytes([7; 32]);

    fn later(seconds: u64) -> Instant {
        Instant::now() + Duration::from_secs(seconds)
    }

    #[tokio::test(start_paused = true)]
    async fn one_of_many_looks_and_tells_the_others() {
        let (watch, looks) = (Watch::default(), AtomicUsize::new(0));
        let started = Instant::now();
        let runs = || async {
            looks.fetch_add(1, Ordering::Relaxed);
            Ok(started.elapsed() < Duration::from_secs(10))
        };
        let waiting = (0..200).map(|_| watch.wait(&KEY, later(60), runs));
        for outcome in join_all(waiting).await {
            outcome.expect("the store answers");
        }
        assert!(started.elapsed() < Duration::from_secs(11));
        let looks = looks.into_inner();
        // Two a second, and some more while the pauses grow.
        assert!((20..40).contains(&looks), "{looks} looks");
        assert!(watch.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_told_needs_no_look() {
        let watch = Watch::default();
        let started = Instant::now();
        let waiting = watch.wait(&KEY, later(60), || async { Ok(true) });
        let telling = async {
            sleep(Duration::from_millis(1)).await;
            watch.ended(&KEY);
        };
        tokio::join!(waiting, telling).0.expect("the store answers");
        assert_eq!(started.elapsed(), Duration::from_millis(1));
    }

    #[tokio::test(start_paused = true)]
    async fn another_one_looks_when_the_lookout_leaves() {
        let watch = Watch::default();
        let ends = later(5);
        let runs = || async { Ok(Instant::now() < ends) };
        let dropped = watch.wait(&KEY, later(1), runs);
        let kept = watch.wait(&KEY, later(60), runs);
        let (dropped, kept) = tokio::join!(dropped, kept);
        dropped.and(kept).expect("the store answers");
        assert!(Instant::now() < ends + Duration::from_secs(1));
        assert!(watch.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_when_the_caller_said() {
        let watch = Watch::default();
        let until = later(3);
        let waited = watch.wait(&KEY, until, || async { Ok(true) }).await;
        waited.expect("the store answers");
        assert_eq!(Instant::now(), until);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_wait_leaves_nothing_behind() {
        let watch = Watch::default();
        let waiting = watch.wait(&KEY, later(60), || async { Ok(true) });
        let dropped = tokio::time::timeout(Duration::from_secs(1), waiting).await;
        dropped.expect_err("it is dropped");
        assert!(watch.lock().is_empty());
    }

    /// Who leaves at the same moment as others takes its place along all the same.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn those_who_leave_at_once_leave_nothing_behind() {
        let watch = Arc::new(Watch::default());
        let mut waiting = tokio::task::JoinSet::new();
        for number in 0..2_000_u32 {
            let mut id = [0; 32];
            id[..4].copy_from_slice(&(number / 4).to_be_bytes());
            let watch = Arc::clone(&watch);
            waiting.spawn(async move {
                let key = StorageKey::from_bytes(id);
                let told = watch.wait(&key, later(60), || async { Ok(true) });
                let telling = async {
                    tokio::task::yield_now().await;
                    watch.ended(&key);
                };
                tokio::join!(told, telling).0
            });
        }
        for outcome in waiting.join_all().await {
            outcome.expect("the store answers");
        }
        assert!(watch.lock().is_empty(), "{}", watch.lock().len());
    }
}
