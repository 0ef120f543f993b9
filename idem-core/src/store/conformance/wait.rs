//! Waiting for an attempt to end.
//!
//! A wait may end early, so that each of these asks for an upper bound only.

use std::{sync::Arc, time::Duration};

use tokio::{
    task::{self, JoinHandle},
    time::{Instant, timeout},
};

use crate::store::{
    Release, Resolve, Store,
    conformance::{
        Subject,
        attempt::{Attempt, LONG, in_progress, record},
    },
};

/// Whoever waits for an attempt is not kept until the end of the wait when it completes.
pub async fn a_completion_ends_a_wait(subject: &dyn Subject) {
    let store = subject.store().await;
    let mut first = Attempt::fresh();
    first.acquire(&store).await;
    let waiting = wait(&store, &first).await;
    let _ = first.complete(&store, &record(1)).await;
    ends_early(waiting).await;
}

/// Whoever waits for an attempt is not kept until the end of the wait when it is given up.
pub async fn a_release_ends_a_wait(subject: &dyn Subject) {
    let store = subject.store().await;
    for how in [
        Release::Bound,
        Release::Forget,
        Release::Undo,
        Release::Unknown { keep: LONG },
    ] {
        let mut first = Attempt::fresh();
        first.acquire(&store).await;
        let waiting = wait(&store, &first).await;
        let _ = first.release(&store, how).await;
        ends_early(waiting).await;
    }
}

/// Whoever waits for an attempt is not kept until the end of the wait when an operator decides.
pub async fn a_decision_ends_a_wait(subject: &dyn Subject) {
    let store = subject.store().await;
    for how in [Resolve::Release, Resolve::Forget] {
        let mut first = Attempt::fresh();
        let grant = first.acquire(&store).await;
        let waiting = wait(&store, &first).await;
        let resolved = store.resolve(first.key(), grant.fence, how).await;
        let _ = resolved.expect("the store answers");
        ends_early(waiting).await;
    }
}

/// All who wait for one attempt are told of its end.
pub async fn every_waiter_is_told(subject: &dyn Subject) {
    let store = subject.store().await;
    let mut first = Attempt::fresh();
    first.acquire(&store).await;
    let mut waiting = Vec::new();
    for _ in 0..16 {
        waiting.push(wait(&store, &first).await);
    }
    let _ = first.complete(&store, &record(1)).await;
    for waiter in waiting {
        ends_early(waiter).await;
    }
}

/// An attempt that ended between a claim and the wait for it is not missed.
pub async fn a_wait_for_what_ended_ends_at_once(subject: &dyn Subject) {
    let store = subject.store().await;
    let mut released = Attempt::fresh();
    released.acquire(&store).await;
    in_progress(released.rival().claim(&store).await);
    let _ = released.release(&store, Release::Bound).await;
    let mut done = Attempt::fresh();
    done.acquire(&store).await;
    in_progress(done.rival().claim(&store).await);
    let _ = done.complete(&store, &record(1)).await;

    for attempt in [released, done, Attempt::fresh()] {
        ends_early(wait(&store, &attempt).await).await;
    }
}

/// A wait for an attempt that runs on ends when the caller said.
pub async fn a_wait_ends_when_the_caller_said(subject: &dyn Subject) {
    let (store, unit) = (subject.store().await, subject.unit());
    let mut first = Attempt::fresh();
    let granted = first.acquire(&store).await;

    let waiting = store.changed(first.key(), Instant::now() + unit * 2);
    let ended = timeout(unit * 20, waiting).await;
    ended.expect("the wait ends").expect("the store answers");
    assert_eq!(in_progress(first.rival().claim(&store).await).0, granted);
}

/// A wait that is dropped disturbs neither the attempt nor those who still wait.
pub async fn a_dropped_wait_disturbs_nobody(subject: &dyn Subject) {
    let store = subject.store().await;
    let mut first = Attempt::fresh();
    let granted = first.acquire(&store).await;
    let (dropped, waiting) = (wait(&store, &first).await, wait(&store, &first).await);
    dropped.abort();
    let _ = dropped.await;

    assert_eq!(in_progress(first.rival().claim(&store).await).0, granted);
    let _ = first.complete(&store, &record(1)).await;
    ends_early(waiting).await;
}

/// How long the waits of these tests would last if nothing ended them.
const WAIT: Duration = Duration::from_secs(30);

/// Starts to wait.
async fn wait(store: &Arc<dyn Store>, attempt: &Attempt) -> JoinHandle<Duration> {
    let (store, key) = (Arc::clone(store), *attempt.key());
    let waiting = task::spawn(async move {
        let start = Instant::now();
        let ended = store.changed(&key, start + WAIT).await;
        ended.expect("the store answers");
        start.elapsed()
    });
    // Most often it is under way by then; whether it is or not, its end must not be missed.
    task::yield_now().await;
    waiting
}

async fn ends_early(waiting: JoinHandle<Duration>) {
    let took = waiting.await.expect("the wait ends");
    assert!(took < WAIT / 2, "the wait went on for {took:?}");
}
