//! How long records live.

use std::time::Duration;

use crate::store::{
    Claim, Completion, Release, Resolve, Resolved, State,
    conformance::{
        Subject,
        attempt::{Attempt, LONG, completed, in_progress, record},
    },
};

/// An expired key is new: any request may have it, as a first attempt.
pub async fn an_expired_key_is_new(subject: &dyn Subject) {
    let (store, unit) = (subject.store().await, subject.unit());
    let mut first = Attempt::fresh();
    first.acquire(&store).await;
    let _ = first.complete_for(&store, &record(1), unit).await;
    subject.advance(unit * 2).await;

    let summary = store.inspect(first.key()).await.expect("the store answers");
    assert_eq!(summary, None);
    let mut second = first.stranger();
    assert_eq!(second.acquire(&store).await.attempt, 1);
    let completion = second.complete(&store, &record(2)).await;
    assert_eq!(completion, Completion::Stored);
    assert_eq!(completed(second.rival().claim(&store).await), record(2));
}

/// The `ttl` of a completed record counts from its completion, however long the handler took.
pub async fn the_ttl_counts_from_completion(subject: &dyn Subject) {
    let (store, unit) = (subject.store().await, subject.unit());
    let mut first = Attempt::fresh().with_ttl(unit * 10).with_lease(unit * 10);
    first.acquire(&store).await;
    subject.advance(unit * 8).await;
    let _ = first.complete_for(&store, &record(1), unit * 10).await;

    subject.advance(unit * 9).await;
    assert_eq!(completed(first.rival().claim(&store).await), record(1));
    subject.advance(unit * 2).await;
    assert_eq!(first.rival().acquire(&store).await.attempt, 1);
}

/// A completed record lives for its own `ttl`, even if the claim would have lived longer.
pub async fn a_completed_record_does_not_outlive_its_ttl(subject: &dyn Subject) {
    let (store, unit) = (subject.store().await, subject.unit());
    let mut first = Attempt::fresh().with_ttl(LONG).with_lease(LONG);
    first.acquire(&store).await;
    let _ = first.complete_for(&store, &record(1), unit * 10).await;

    subject.advance(unit * 9).await;
    assert_eq!(completed(first.rival().claim(&store).await), record(1));
    subject.advance(unit * 2).await;
    assert_eq!(first.rival().acquire(&store).await.attempt, 1);
}

/// A replay does not make a record live longer.
pub async fn a_replay_does_not_extend_the_ttl(subject: &dyn Subject) {
    let (store, unit) = (subject.store().await, subject.unit());
    let mut first = Attempt::fresh();
    first.acquire(&store).await;
    let _ = first.complete_for(&store, &record(1), unit * 10).await;

    for _ in 0..3 {
        subject.advance(unit * 3).await;
        assert_eq!(completed(first.rival().claim(&store).await), record(1));
    }
    subject.advance(unit * 2).await;
    assert_eq!(first.rival().acquire(&store).await.attempt, 1);
}

/// A record lives for its lease at least, even if its `ttl` is shorter.
pub async fn a_short_ttl_does_not_cut_a_lease(subject: &dyn Subject) {
    let (store, unit) = (subject.store().await, subject.unit());
    let mut first = Attempt::fresh().with_lease(unit * 10).with_ttl(unit);
    let granted = first.acquire(&store).await;

    subject.advance(unit * 9).await;
    assert_eq!(in_progress(first.rival().claim(&store).await).0, granted);
    subject.advance(unit * 2).await;
    assert_eq!(first.stranger().acquire(&store).await.attempt, 1);
}

/// A record lives for its `ttl` at least, even if its lease is shorter: the key stays bound.
pub async fn a_lapsed_record_lives_for_its_ttl(subject: &dyn Subject) {
    let (store, unit) = (subject.store().await, subject.unit());
    let mut first = Attempt::fresh().with_lease(unit).with_ttl(unit * 10);
    let grant = first.acquire(&store).await;

    subject.advance(unit * 9).await;
    let claim = first.stranger().claim(&store).await;
    let state = State::InProgress;
    assert_eq!(claim, Claim::Mismatch { state });
    let claim = first.rival().without_takeover().claim(&store).await;
    assert_eq!(claim, Claim::Lapsed { grant });
    subject.advance(unit * 2).await;
    assert_eq!(first.stranger().acquire(&store).await.attempt, 1);
}

/// A takeover gives the record a new life.
pub async fn a_takeover_starts_the_ttl_anew(subject: &dyn Subject) {
    let (store, unit) = (subject.store().await, subject.unit());
    let mut first = Attempt::fresh().with_lease(unit).with_ttl(unit * 10);
    first.acquire(&store).await;
    subject.advance(unit * 8).await;
    let mut second = first.rival();
    second.acquire(&store).await;

    subject.advance(unit * 8).await;
    assert_eq!(second.rival().acquire(&store).await.attempt, 3);
}

/// A released record stays bound for as long as it would have lived.
pub async fn a_released_record_keeps_its_life(subject: &dyn Subject) {
    let (store, unit) = (subject.store().await, subject.unit());
    let mut first = Attempt::fresh().with_lease(unit).with_ttl(unit * 10);
    first.acquire(&store).await;
    subject.advance(unit * 4).await;
    let _ = first.release(&store, Release::Bound).await;

    subject.advance(unit * 5).await;
    let claim = first.stranger().claim(&store).await;
    let state = State::Released;
    assert_eq!(claim, Claim::Mismatch { state });
    subject.advance(unit * 2).await;
    assert_eq!(first.stranger().acquire(&store).await.attempt, 1);
}

/// That an outcome is unknown is kept for as long as the release said, longer or shorter than the
/// claim would have lived.
pub async fn an_unknown_record_is_kept_as_long_as_it_says(subject: &dyn Subject) {
    let (store, unit) = (subject.store().await, subject.unit());
    for ttl in [unit * 2, LONG] {
        let mut first = Attempt::fresh().with_lease(unit * 2).with_ttl(ttl);
        let grant = first.acquire(&store).await;
        let keep = unit * 10;
        let _ = first.release(&store, Release::Unknown { keep }).await;

        subject.advance(unit * 9).await;
        assert_eq!(first.rival().claim(&store).await, Claim::Unknown { grant });
        subject.advance(unit * 2).await;
        assert_eq!(first.rival().acquire(&store).await.attempt, 1);
    }
}

/// An operator's record lives for the `ttl` that the operator gave it.
pub async fn a_resolved_record_lives_for_its_ttl(subject: &dyn Subject) {
    let (store, unit) = (subject.store().await, subject.unit());
    let mut first = Attempt::fresh();
    let grant = first.acquire(&store).await;
    let _ = first.release(&store, Release::Unknown { keep: LONG }).await;
    let resolve = Resolve::Complete {
        record: record(1),
        ttl: unit * 10,
    };
    let resolved = store.resolve(first.key(), grant.fence, resolve).await;
    assert_eq!(resolved.expect("the store answers"), Resolved::Done);

    subject.advance(unit * 9).await;
    assert_eq!(completed(first.rival().claim(&store).await), record(1));
    subject.advance(unit * 2).await;
    assert_eq!(first.rival().acquire(&store).await.attempt, 1);
}

/// A purge drops nothing that lives, in whatever state, and no more than it may.
pub async fn a_purge_drops_nothing_that_lives(subject: &dyn Subject) {
    let (store, unit) = (subject.store().await, subject.unit());
    let mut running = Attempt::fresh();
    running.acquire(&store).await;
    let mut lapsed = Attempt::fresh().with_lease(unit);
    let grant = lapsed.acquire(&store).await;
    let mut done = Attempt::fresh();
    done.acquire(&store).await;
    let _ = done.complete(&store, &record(1)).await;
    let mut released = Attempt::fresh();
    released.acquire(&store).await;
    let _ = released.release(&store, Release::Bound).await;
    for _ in 0..5 {
        let mut expired = Attempt::fresh();
        expired.acquire(&store).await;
        let _ = expired.complete_for(&store, &record(2), unit).await;
    }
    subject.advance(unit * 2).await;

    for limit in [0, 2, 1_000] {
        let purged = store.purge(limit).await.expect("the store answers");
        assert!(purged <= u64::from(limit), "{purged} of {limit}");
    }
    in_progress(running.rival().claim(&store).await);
    let claim = lapsed.rival().without_takeover().claim(&store).await;
    assert_eq!(claim, Claim::Lapsed { grant });
    assert_eq!(completed(done.rival().claim(&store).await), record(1));
    assert_eq!(released.rival().acquire(&store).await.attempt, 2);
}

/// What a record says of its own end is true.
pub async fn a_summary_tells_how_long_a_record_lives(subject: &dyn Subject) {
    let (store, unit) = (subject.store().await, subject.unit());
    let mut first = Attempt::fresh().with_lease(unit * 10).with_ttl(unit * 20);
    first.acquire(&store).await;
    subject.advance(unit * 4).await;

    let summary = store.inspect(first.key()).await.expect("the store answers");
    let summary = summary.expect("a record");
    let close = |left: Duration, expected: Duration| left <= expected && left + unit > expected;
    let lease_left = summary.lease_left.expect("it runs");
    assert!(close(lease_left, unit * 6), "{lease_left:?}");
    assert!(
        close(summary.expires_in, unit * 16),
        "{:?}",
        summary.expires_in
    );

    subject.advance(unit * 8).await;
    let summary = store.inspect(first.key()).await.expect("the store answers");
    assert_eq!(summary.expect("a record").lease_left, Some(Duration::ZERO));
}
