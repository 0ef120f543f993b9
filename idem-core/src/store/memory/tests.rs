//! What only the embedded store promises: its bounds, its clock, and what it leaves behind.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc,
    task::{Context, Wake, Waker},
    thread,
};

use futures_util::FutureExt;
use tokio::{
    runtime::Builder,
    time::{advance, timeout},
};

use super::*;
use crate::{
    record::RecordBody,
    store::{
        Grant, State,
        conformance::attempt::{Attempt, LONG, completed, in_progress, record},
    },
};

const SECOND: Duration = Duration::from_secs(1);

/// A store with these bounds, as itself and as what the attempts call.
fn bounded(options: MemoryStoreOptions) -> (MemoryStore, Arc<dyn Store>) {
    let store = MemoryStore::with_options(options);
    (store.clone(), Arc::new(store))
}

fn with_max_records(max_records: usize) -> (MemoryStore, Arc<dyn Store>) {
    bounded(MemoryStoreOptions::default().with_max_records(max_records))
}

async fn is_refused(store: &Arc<dyn Store>, attempt: &Attempt) -> bool {
    match store.claim(&attempt.as_claim()).await {
        Err(StoreError::Full { store }) => store == NAME,
        Ok(Claim::Acquired { .. }) => false,
        other => panic!("expected a new key, got {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_store_refuses_new_keys_and_drops_nothing() {
    let (memory, store) = with_max_records(10);
    let mut slow = Attempt::fresh();
    let granted = slow.acquire(&store).await;
    let mut done = Attempt::fresh();
    done.acquire(&store).await;
    let _ = done.complete(&store, &record(1)).await;

    let mut refused = 0;
    for _ in 0..50 {
        refused += usize::from(is_refused(&store, &Attempt::fresh()).await);
    }
    assert_eq!((memory.len(), refused), (10, 42));
    assert_eq!(in_progress(slow.rival().claim(&store).await).0, granted);
    assert_eq!(completed(done.rival().claim(&store).await), record(1));
    assert_eq!(slow.complete(&store, &record(2)).await, Completion::Stored);
    assert_eq!(completed(slow.rival().claim(&store).await), record(2));
}

#[tokio::test(start_paused = true)]
async fn a_full_store_lets_known_keys_go_on() {
    let (memory, store) = with_max_records(2);
    let mut lapsed = Attempt::fresh().with_lease(SECOND);
    lapsed.acquire(&store).await;
    let mut released = Attempt::fresh();
    released.acquire(&store).await;
    let _ = released.release(&store, Release::Bound).await;
    advance(2 * SECOND).await;

    assert!(is_refused(&store, &Attempt::fresh()).await);
    assert_eq!(lapsed.rival().acquire(&store).await.attempt, 2);
    assert_eq!(released.rival().acquire(&store).await.attempt, 2);
    assert_eq!(memory.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_bound_in_bytes_is_one_too() {
    let (memory, store) = bounded(MemoryStoreOptions::default().with_max_bytes(10 * row::OVERHEAD));
    while !is_refused(&store, &Attempt::fresh()).await {}
    assert_eq!(memory.len(), 9);
    assert!(memory.bytes() <= 10 * row::OVERHEAD);
}

#[tokio::test(start_paused = true)]
async fn what_has_expired_makes_room_in_every_shard() {
    let (memory, store) = with_max_records(1_000);
    for _ in 0..1_000 {
        let mut attempt = Attempt::fresh();
        attempt.acquire(&store).await;
        let _ = attempt.complete_for(&store, &record(1), SECOND).await;
    }
    assert!(is_refused(&store, &Attempt::fresh()).await);
    advance(SECOND).await;
    for _ in 0..1_000 {
        Attempt::fresh().acquire(&store).await;
    }
    assert_eq!(memory.len(), 1_000);
    assert!(is_refused(&store, &Attempt::fresh()).await);
}

#[tokio::test(start_paused = true)]
async fn a_response_that_finds_no_room_is_kept_without_its_body() {
    const MAX: usize = 100_000;
    let (memory, store) = bounded(MemoryStoreOptions::default().with_max_bytes(MAX));
    let large = Record {
        reference: Some("payment_7".into()),
        ..Record::new(201, vec![b'x'; MAX])
            .with_header("location", "/payments/7")
            .with_header("x-large", vec![b'x'; MAX])
    };
    let (mut first, mut second) = (Attempt::fresh(), Attempt::fresh());
    first.acquire(&store).await;
    second.acquire(&store).await;
    let completion = first.complete(&store, &large).await;
    assert_eq!(completion, Completion::Stored);

    let kept = completed(first.rival().claim(&store).await);
    assert_eq!((kept.status, &kept.body), (201, &RecordBody::NotKept));
    assert_eq!(kept.header("location"), large.header("location"));
    assert_eq!(kept.header("x-large"), None);
    assert_eq!(kept.reference, large.reference);
    assert!(memory.bytes() <= MAX);

    // There is room for others.
    let completion = second.complete(&store, &record(1)).await;
    assert_eq!(completion, Completion::Stored);
    assert_eq!(completed(second.rival().claim(&store).await), record(1));
}

#[tokio::test(start_paused = true)]
async fn a_completion_is_kept_even_if_there_is_no_room_at_all() {
    let bytes = row::OVERHEAD + 100;
    let (memory, store) = bounded(MemoryStoreOptions::default().with_max_bytes(bytes));
    let mut first = Attempt::fresh();
    first.acquire(&store).await;
    let location = format!("/payments/{}", "7".repeat(200));
    let whole = Record::new(201, "").with_header("location", location);
    let completion = first.complete(&store, &whole).await;
    assert_eq!(completion, Completion::Stored);
    let kept = completed(first.rival().claim(&store).await);
    assert_eq!(kept, whole.without_body());
    assert!(memory.bytes() > bytes);
}

#[tokio::test(start_paused = true)]
async fn what_has_expired_makes_room_for_a_body() {
    const MAX: usize = 1_000_000;
    let (memory, store) = bounded(MemoryStoreOptions::default().with_max_bytes(MAX));
    let mut first = Attempt::fresh();
    first.acquire(&store).await;
    while memory.bytes() < MAX - 10_000 {
        let mut attempt = Attempt::fresh();
        attempt.acquire(&store).await;
        let body = Record::new(200, vec![b'x'; 4_000]);
        let _ = attempt.complete_for(&store, &body, SECOND).await;
    }
    advance(SECOND).await;
    let large = Record::new(200, vec![b'x'; MAX - 10_000]);
    let completion = first.complete(&store, &large).await;
    assert_eq!(completion, Completion::Stored);
    assert_eq!(completed(first.rival().claim(&store).await), large);
    assert!(memory.bytes() <= MAX);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_no_layout_fits_is_kept_without_its_body() {
    let (_, store) = with_max_records(1);
    let mut first = Attempt::fresh();
    first.acquire(&store).await;
    let endless = Record {
        reference: Some("x".repeat(70_000)),
        ..record(1)
    };
    let completion = first.complete(&store, &endless).await;
    assert_eq!(completion, Completion::Stored);
    let kept = completed(first.rival().claim(&store).await);
    assert_eq!((kept.status, kept.reference), (201, None));
    assert_eq!(kept.body, RecordBody::NotKept);
}

#[tokio::test(start_paused = true)]
async fn a_vanished_record_is_restored_into_a_full_store() {
    let (memory, store) = with_max_records(1);
    let mut first = Attempt::fresh().with_lease(SECOND).with_ttl(SECOND);
    first.acquire(&store).await;
    advance(SECOND).await;
    let mut second = Attempt::fresh();
    let granted = second.acquire(&store).await;

    let completion = first.complete(&store, &record(1)).await;
    assert_eq!(completion, Completion::Restored);
    assert_eq!(memory.len(), 2);
    assert_eq!(in_progress(second.rival().claim(&store).await).0, granted);
    assert_eq!(completed(first.rival().claim(&store).await), record(1));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_keys_that_expired() {
    let (memory, store) = with_max_records(100_000);
    for number in 0..10_000_u32 {
        let mut attempt = Attempt::fresh().with_lease(SECOND).with_ttl(SECOND);
        attempt.acquire(&store).await;
        match number % 4 {
            0 => drop(attempt.complete_for(&store, &record(1), SECOND).await),
            1 => drop(attempt.release(&store, Release::Bound).await),
            2 => drop(attempt.release(&store, Release::Forget).await),
            _ => {}
        }
    }
    assert_eq!(memory.len(), 7_500);
    assert_eq!(memory.purge(u32::MAX).await.expect("it answers"), 0);
    advance(SECOND).await;
    assert_eq!(memory.purge(1_000).await.expect("it answers"), 1_000);
    assert_eq!(memory.len(), 6_500);
    assert_eq!(memory.purge(u32::MAX).await.expect("it answers"), 6_500);
    assert_eq!((memory.len(), memory.bytes()), (0, 0));
    for shard in &memory.0.shards {
        assert!(lock(shard).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn new_keys_clear_old_ones_away_without_a_purge() {
    let (memory, store) = with_max_records(100_000);
    for _ in 0..200 {
        for _ in 0..50 {
            let mut attempt = Attempt::fresh();
            attempt.acquire(&store).await;
            let _ = attempt.complete_for(&store, &record(1), SECOND).await;
        }
        advance(SECOND).await;
    }
    assert!(memory.len() < 500, "{}", memory.len());
}

#[tokio::test(start_paused = true)]
async fn a_key_that_expired_among_many_is_counted_once() {
    let (memory, store) = with_max_records(100_000);
    let mut attempts = Vec::new();
    for _ in 0..1_000 {
        let mut attempt = Attempt::fresh().with_lease(SECOND).with_ttl(SECOND);
        attempt.acquire(&store).await;
        attempts.push(attempt);
    }
    advance(SECOND).await;
    // The last one is not the first to be cleared away, wherever it is.
    let again = attempts.pop().expect("there are many");
    again.rival().acquire(&store).await;
    advance(SECOND).await;
    let _ = memory.purge(u32::MAX).await;
    assert_eq!((memory.len(), memory.bytes()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_purge_finds_what_expired_in_every_shard() {
    let (memory, store) = with_max_records(100_000);
    for _ in 0..1_000 {
        let mut attempt = Attempt::fresh();
        attempt.acquire(&store).await;
        let _ = attempt.complete_for(&store, &record(1), SECOND).await;
    }
    advance(SECOND).await;
    for _ in 0..1_000 {
        assert_eq!(memory.purge(1).await.expect("it answers"), 1);
    }
    assert!(memory.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_when_the_lease_lapses() {
    let (memory, store) = with_max_records(1);
    let mut first = Attempt::fresh().with_lease(SECOND);
    first.acquire(&store).await;
    let start = Instant::now();
    let waiting = memory.changed(first.key(), start + LONG);
    waiting.await.expect("it answers");
    assert!(start.elapsed() < 2 * SECOND, "{:?}", start.elapsed());
    // A lapsed attempt is nothing to wait for.
    let waiting = memory.changed(first.key(), start + LONG).now_or_never();
    assert!(waiting.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_wait_under_way_is_woken_by_each_end() {
    let (memory, store) = with_max_records(10);
    let ends: [fn(Attempt, Arc<dyn Store>); 3] = [
        |first, store| {
            let _ = first.complete(&store, &record(1)).now_or_never();
        },
        |first, store| {
            let _ = first.release(&store, Release::Forget).now_or_never();
        },
        |first, store| {
            let fence = first.grant.expect("it is granted").fence;
            let _ = store
                .resolve(first.key(), fence, Resolve::Release)
                .now_or_never();
        },
    ];
    for end in ends {
        let mut first = Attempt::fresh();
        first.acquire(&store).await;
        let key = *first.key();
        let mut waiting = memory.changed(&key, Instant::now() + LONG);
        assert!((&mut waiting).now_or_never().is_none());
        end(first, Arc::clone(&store));
        assert!((&mut waiting).now_or_never().is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_waits_that_were_dropped() {
    let (memory, store) = with_max_records(1);
    let mut first = Attempt::fresh();
    first.acquire(&store).await;
    let waiters = || memory.0.change(first.key(), |row, _| row.take_waiters());
    for _ in 0..100 {
        let mut waiting = memory.changed(first.key(), Instant::now() + LONG);
        assert!((&mut waiting).now_or_never().is_none());
    }
    assert!(waiters().expect("a record").is_none());

    let mut waiting = memory.changed(first.key(), Instant::now() + LONG);
    assert!((&mut waiting).now_or_never().is_none());
    assert!(waiters().expect("a record").is_some());
}

#[test]
fn a_store_keeps_the_time_of_the_runtime_it_was_made_in() {
    let paused = || {
        let mut runtime = Builder::new_current_thread();
        runtime
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime")
    };
    let (home, elsewhere) = (paused(), paused());
    let (_, store) = home.block_on(async { with_max_records(1) });
    let mut first = Attempt::fresh().with_lease(SECOND);
    let granted = elsewhere.block_on(first.acquire(&store));

    elsewhere.block_on(advance(LONG / 2));
    let claim = elsewhere.block_on(first.rival().claim(&store));
    assert_eq!(in_progress(claim), (granted, SECOND));
    home.block_on(advance(SECOND));
    let claim = elsewhere.block_on(first.rival().acquire(&store));
    assert_eq!(claim.attempt, 2);
}

#[test]
fn a_store_outlives_its_runtime() {
    let home = Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let (_, store) = home.block_on(async { with_max_records(1) });
    drop(home);
    let elsewhere = Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    elsewhere.block_on(async {
        let mut first = Attempt::fresh();
        first.acquire(&store).await;
        let waiting = store.changed(first.key(), Instant::now() + SECOND / 100);
        timeout(LONG, waiting)
            .await
            .expect("it ends")
            .expect("it answers");
        let _ = first.complete(&store, &record(1)).await;
        assert_eq!(completed(first.rival().claim(&store).await), record(1));
    });
}

#[tokio::test]
async fn no_duration_is_too_long() {
    let (_, store) = with_max_records(1);
    let mut first = Attempt::fresh()
        .with_lease(Duration::MAX)
        .with_ttl(Duration::MAX);
    first.acquire(&store).await;
    let _ = first.renew(&store).await;
    let waiting = store.changed(first.key(), Instant::now() + SECOND / 100);
    waiting.await.expect("it answers");
    let keep = Duration::MAX;
    let _ = first.release(&store, Release::Unknown { keep }).await;
    let completion = first.complete_for(&store, &record(1), Duration::MAX).await;
    assert_eq!(completion, Completion::Stored);
    assert_eq!(completed(first.rival().claim(&store).await), record(1));
}

#[tokio::test(start_paused = true)]
async fn a_fence_grows_even_over_a_forgotten_record() {
    let (_, store) = with_max_records(1);
    let mut attempt = Attempt::fresh();
    let mut last = attempt.acquire(&store).await;
    for _ in 0..10 {
        let _ = attempt.release(&store, Release::Forget).await;
        let grant = attempt.acquire(&store).await;
        assert!(grant.fence > last.fence, "{grant:?} after {last:?}");
        last = grant;
    }
}

#[tokio::test(start_paused = true)]
async fn a_restored_fence_is_not_passed_again() {
    let (_, store) = with_max_records(1);
    let mut first = Attempt::fresh();
    let early = first.acquire(&store).await;
    let _ = first.release(&store, Release::Forget).await;
    let fence = Fence::new(early.fence.get() + 1_000_000);
    first.grant = Some(Grant { fence, ..early });
    let completion = first.complete_for(&store, &record(1), SECOND).await;
    assert_eq!(completion, Completion::Restored);
    let resolved = store.resolve(first.key(), fence, Resolve::Release).await;
    assert_eq!(resolved.expect("it answers"), Resolved::Done);
    assert!(first.rival().acquire(&store).await.fence > fence);
}

#[tokio::test]
async fn a_thread_that_panics_in_a_step_does_not_take_the_store_along() {
    let (memory, store) = with_max_records(1);
    let mut first = Attempt::fresh();
    let granted = first.acquire(&store).await;
    let panics = || memory.0.step(first.key(), |_, _| panic!("on purpose"));
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    assert_eq!(in_progress(first.rival().claim(&store).await).0, granted);
}

#[tokio::test]
async fn a_waker_may_call_the_store() {
    let (memory, store) = with_max_records(1);
    let ends: [fn(Attempt, Arc<dyn Store>); 2] = [
        |first, store| {
            let _ = first.release(&store, Release::Forget).now_or_never();
        },
        |first, store| {
            let _ = first.complete(&store, &record(1)).now_or_never();
        },
    ];
    for end in ends {
        let mut first = Attempt::fresh();
        first.acquire(&store).await;
        let key = *first.key();
        let (woken, was_woken) = mpsc::channel();
        let waker = Waker::from(Arc::new(CallsTheStore(memory.clone(), key, woken)));
        let mut waiting = memory.changed(&key, Instant::now() + LONG);
        let polled = waiting.poll_unpin(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());

        let store = Arc::clone(&store);
        let ending = thread::spawn(move || end(first, store));
        let found = was_woken.recv_timeout(10 * SECOND).expect("no deadlock");
        assert!(found.is_none_or(|summary| summary.state == State::Completed));
        ending.join().expect("it ends");
    }
}

/// Wakes as an executor might that runs the task at once.
struct CallsTheStore(MemoryStore, StorageKey, mpsc::Sender<Option<Summary>>);

impl Wake for CallsTheStore {
    fn wake(self: Arc<Self>) {
        let found = self.0.inspect(&self.1).now_or_never();
        let found = found.expect("it does not wait").expect("it answers");
        let _ = self.2.send(found);
    }
}

#[tokio::test]
async fn debug_shows_numbers_only() {
    let (memory, store) = with_max_records(7);
    let mut first = Attempt::fresh();
    first.acquire(&store).await;
    let _ = first.complete(&store, &record(1)).await;
    let shown = format!("{memory:?}");
    assert!(shown.contains("max_records: 7"), "{shown}");
    assert!(!shown.contains("payment"), "{shown}");
}
