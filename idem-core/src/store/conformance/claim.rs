//! Claiming a key, in each state that it can be in.

use crate::store::{
    Claim, Completion, Release, Released, State,
    conformance::{
        Subject,
        attempt::{Attempt, LONG, acquired, completed, in_progress, record},
    },
};

/// The first claim of a key is acquired, as its first attempt.
pub async fn a_fresh_key_is_acquired(subject: &dyn Subject) {
    let store = subject.store().await;
    let grant = Attempt::fresh().acquire(&store).await;
    assert_eq!(grant.attempt, 1);
}

/// An equal request that comes while the first one runs is told so, and for how long.
pub async fn second_claimer_sees_in_progress(subject: &dyn Subject) {
    let store = subject.store().await;
    let mut first = Attempt::fresh();
    let granted = first.acquire(&store).await;

    let (grant, left) = in_progress(first.rival().claim(&store).await);
    assert_eq!(grant, granted);
    assert!(left > LONG / 2 && left <= LONG, "{left:?}");
}

/// An equal request gets the record, every time; no claim takes its place.
pub async fn a_completed_key_answers_with_its_record(subject: &dyn Subject) {
    let store = subject.store().await;
    let mut first = Attempt::fresh();
    first.acquire(&store).await;
    assert_eq!(first.complete(&store, &record(1)).await, Completion::Stored);

    for _ in 0..3 {
        assert_eq!(completed(first.rival().claim(&store).await), record(1));
    }
}

/// Two keys have nothing to do with each other.
pub async fn two_keys_are_two_records(subject: &dyn Subject) {
    let store = subject.store().await;
    let (mut first, mut second) = (Attempt::fresh(), Attempt::fresh());
    first.acquire(&store).await;
    second.acquire(&store).await;
    let _ = first.complete(&store, &record(1)).await;

    in_progress(second.rival().claim(&store).await);
    let _ = second.complete(&store, &record(2)).await;
    assert_eq!(completed(first.rival().claim(&store).await), record(1));
    assert_eq!(completed(second.rival().claim(&store).await), record(2));
}

/// An attempt whose reply was lost, and which asks again, is the attempt that it was.
pub async fn a_claim_sent_again_is_acquired_again(subject: &dyn Subject) {
    let store = subject.store().await;
    let mut first = Attempt::fresh();
    let granted = first.acquire(&store).await;

    assert_eq!(acquired(first.claim(&store).await), granted);
    assert_eq!(acquired(first.claim(&store).await), granted);
    assert_eq!(first.complete(&store, &record(1)).await, Completion::Stored);
}

/// The lease of a claim that is sent again counts from then: its owner counts from there too.
pub async fn a_claim_sent_again_has_a_whole_lease(subject: &dyn Subject) {
    let (store, unit) = (subject.store().await, subject.unit());
    let mut first = Attempt::fresh().with_lease(unit * 10).with_ttl(unit * 10);
    let granted = first.acquire(&store).await;

    subject.advance(unit * 6).await;
    assert_eq!(acquired(first.claim(&store).await), granted);
    subject.advance(unit * 6).await;
    assert_eq!(in_progress(first.rival().claim(&store).await).0, granted);
}

/// So is that of an attempt whose lease has lapsed, if nobody was faster.
pub async fn a_lapsed_claim_sent_again_is_acquired_again(subject: &dyn Subject) {
    let (store, unit) = (subject.store().await, subject.unit());
    let mut first = Attempt::fresh().with_lease(unit * 4).without_takeover();
    let granted = first.acquire(&store).await;

    subject.advance(unit * 5).await;
    assert_eq!(acquired(first.claim(&store).await), granted);
    assert_eq!(in_progress(first.rival().claim(&store).await).0, granted);
}

/// A released key goes to the next equal request, as another attempt.
pub async fn a_released_key_is_acquired_by_an_equal_request(subject: &dyn Subject) {
    let store = subject.store().await;
    let mut first = Attempt::fresh();
    let before = first.acquire(&store).await;
    assert_eq!(first.release(&store, Release::Bound).await, Released::Done);

    let after = first.rival().acquire(&store).await;
    assert_eq!(after.attempt, 2);
    assert!(after.fence > before.fence);
}

/// A key of which nobody knows the outcome stays so, whatever a claim allows.
pub async fn an_unknown_key_is_not_acquired(subject: &dyn Subject) {
    let store = subject.store().await;
    let mut first = Attempt::fresh();
    let grant = first.acquire(&store).await;
    let released = first.release(&store, Release::Unknown { keep: LONG }).await;
    assert_eq!(released, Released::Done);

    for attempt in [first.rival(), first.rival().without_takeover()] {
        assert_eq!(attempt.claim(&store).await, Claim::Unknown { grant });
    }
}

/// Each attempt has a larger fence than the one before, however it came about.
pub async fn fences_grow_with_each_attempt(subject: &dyn Subject) {
    let (store, unit) = (subject.store().await, subject.unit());
    let mut attempt = Attempt::fresh().with_lease(unit);
    let mut last = attempt.acquire(&store).await;
    for number in 2..8 {
        if number % 2 == 0 {
            let _ = attempt.release(&store, Release::Bound).await;
        } else {
            subject.advance(unit * 2).await;
        }
        attempt = attempt.rival();
        let grant = attempt.acquire(&store).await;
        assert_eq!(grant.attempt, number);
        assert!(grant.fence > last.fence, "{grant:?} after {last:?}");
        last = grant;
    }
}

/// Another request under the key of one that runs is a mismatch, not a race.
pub async fn another_request_is_a_mismatch_while_the_first_runs(subject: &dyn Subject) {
    let store = subject.store().await;
    let mut first = Attempt::fresh();
    first.acquire(&store).await;
    refuses_strangers(subject, &first, State::InProgress).await;
}

/// Another request under the key of one whose lease lapsed is a mismatch, not a takeover.
pub async fn another_request_is_a_mismatch_after_a_lapse(subject: &dyn Subject) {
    let (store, unit) = (subject.store().await, subject.unit());
    let mut first = Attempt::fresh().with_lease(unit);
    first.acquire(&store).await;
    subject.advance(unit * 2).await;
    refuses_strangers(subject, &first, State::InProgress).await;
}

/// Another request under the key of one that is done is a mismatch, not a replay.
pub async fn another_request_is_a_mismatch_once_the_first_is_done(subject: &dyn Subject) {
    let store = subject.store().await;
    let mut first = Attempt::fresh();
    first.acquire(&store).await;
    let _ = first.complete(&store, &record(1)).await;
    refuses_strangers(subject, &first, State::Completed).await;
}

/// Another request under a released key is a mismatch: the key stays bound.
pub async fn another_request_is_a_mismatch_after_a_release(subject: &dyn Subject) {
    let store = subject.store().await;
    let mut first = Attempt::fresh();
    first.acquire(&store).await;
    let _ = first.release(&store, Release::Bound).await;
    refuses_strangers(subject, &first, State::Released).await;
}

/// Another request under a key whose outcome nobody knows is a mismatch.
pub async fn another_request_is_a_mismatch_when_the_outcome_is_unknown(subject: &dyn Subject) {
    let store = subject.store().await;
    let mut first = Attempt::fresh();
    first.acquire(&store).await;
    let _ = first.release(&store, Release::Unknown { keep: LONG }).await;
    refuses_strangers(subject, &first, State::Unknown).await;
}

async fn refuses_strangers(subject: &dyn Subject, first: &Attempt, state: State) {
    let store = subject.store().await;
    for stranger in [first.stranger(), first.stranger().without_takeover()] {
        let claim = stranger.claim(&store).await;
        assert_eq!(claim, Claim::Mismatch { state });
    }
}

/// A mismatch leaves the record as it was: its owner, its lease and its outcome.
pub async fn a_mismatch_changes_nothing(subject: &dyn Subject) {
    let (store, unit) = (subject.store().await, subject.unit());
    let mut first = Attempt::fresh().with_lease(unit * 10);
    let granted = first.acquire(&store).await;
    let mismatch = |state| Claim::Mismatch { state };

    subject.advance(unit * 6).await;
    let claim = first.stranger().claim(&store).await;
    assert_eq!(claim, mismatch(State::InProgress));
    subject.advance(unit * 6).await;
    let claim = first.rival().without_takeover().claim(&store).await;
    assert_eq!(claim, Claim::Lapsed { grant: granted });

    assert_eq!(first.complete(&store, &record(1)).await, Completion::Stored);
    let claim = first.stranger().claim(&store).await;
    assert_eq!(claim, mismatch(State::Completed));
    assert_eq!(completed(first.rival().claim(&store).await), record(1));
}

/// A second handle, with a connection of its own, sees the same records.
pub async fn a_reopened_store_has_the_same_records(subject: &dyn Subject) {
    let store = subject.store().await;
    let other = store.reopen().await.expect("the store opens");
    let mut first = Attempt::fresh();
    let granted = first.acquire(&store).await;

    assert_eq!(in_progress(first.rival().claim(&other).await).0, granted);
    assert_eq!(first.complete(&other, &record(1)).await, Completion::Stored);
    assert_eq!(completed(first.rival().claim(&store).await), record(1));
}
