//! Giving a claim up.

use crate::store::{
    Claim, Completion, Release, Released, Renewal, State,
    conformance::{
        Subject,
        attempt::{Attempt, LONG, completed, record},
    },
};

/// A forgotten key is free for any request, and its next attempt is its first.
pub async fn a_forgotten_key_is_free_for_any_request(subject: &dyn Subject) {
    let store = subject.store().await;
    let mut first = Attempt::fresh();
    first.acquire(&store).await;
    assert_eq!(first.release(&store, Release::Forget).await, Released::Done);

    let summary = store.inspect(first.key()).await.expect("the store answers");
    assert_eq!(summary, None);
    assert_eq!(first.stranger().acquire(&store).await.attempt, 1);
}

/// Undoing the first attempt leaves nothing.
pub async fn an_undone_first_attempt_is_forgotten(subject: &dyn Subject) {
    let store = subject.store().await;
    let mut first = Attempt::fresh();
    first.acquire(&store).await;
    assert_eq!(first.release(&store, Release::Undo).await, Released::Done);
    assert_eq!(first.stranger().acquire(&store).await.attempt, 1);
}

/// Undoing a later attempt leaves the key bound, since an earlier one may have had an effect.
pub async fn an_undone_later_attempt_stays_bound(subject: &dyn Subject) {
    let (store, unit) = (subject.store().await, subject.unit());
    let mut released = Attempt::fresh();
    released.acquire(&store).await;
    let _ = released.release(&store, Release::Bound).await;
    let mut lapsed = Attempt::fresh().with_lease(unit);
    lapsed.acquire(&store).await;
    subject.advance(unit * 2).await;

    for earlier in [released, lapsed] {
        let mut later = earlier.rival();
        assert_eq!(later.acquire(&store).await.attempt, 2);
        assert_eq!(later.release(&store, Release::Undo).await, Released::Done);
        let claim = later.stranger().claim(&store).await;
        let state = State::Released;
        assert_eq!(claim, Claim::Mismatch { state });
        assert_eq!(later.rival().acquire(&store).await.attempt, 3);
    }
}

/// A claim whose reply was lost is undone by its owner value alone.
pub async fn a_claim_is_undone_without_its_grant(subject: &dyn Subject) {
    let store = subject.store().await;
    let first = Attempt::fresh();
    let _ = first.claim(&store).await;
    assert_eq!(first.release(&store, Release::Undo).await, Released::Done);
    assert_eq!(first.release(&store, Release::Undo).await, Released::Gone);
    assert_eq!(first.stranger().acquire(&store).await.attempt, 1);
}

/// An owner whose lease lapsed, and whom nobody replaced, may still give its claim up.
pub async fn a_lapsed_owner_whom_nobody_replaced_releases(subject: &dyn Subject) {
    let (store, unit) = (subject.store().await, subject.unit());
    let mut first = Attempt::fresh().with_lease(unit);
    first.acquire(&store).await;
    subject.advance(unit * 2).await;
    assert_eq!(first.release(&store, Release::Bound).await, Released::Done);
    let mut second = first.rival().without_takeover();
    assert_eq!(second.acquire(&store).await.attempt, 2);
}

/// What ended cannot be given up: a completed record stands.
pub async fn a_completed_key_is_not_released(subject: &dyn Subject) {
    let store = subject.store().await;
    let mut first = Attempt::fresh();
    first.acquire(&store).await;
    assert_eq!(first.complete(&store, &record(1)).await, Completion::Stored);

    for how in EVERY_WAY {
        assert_eq!(first.release(&store, how).await, Released::Ended);
    }
    assert_eq!(first.renew(&store).await, Renewal::Ended);
    assert_eq!(completed(first.rival().claim(&store).await), record(1));
}

/// A release that is sent again, in whatever way, changes nothing.
pub async fn a_release_sent_again_changes_nothing(subject: &dyn Subject) {
    let store = subject.store().await;
    for (sent, state) in [
        (Release::Bound, State::Released),
        (Release::Unknown { keep: LONG }, State::Unknown),
    ] {
        let mut first = Attempt::fresh();
        first.acquire(&store).await;
        assert_eq!(first.release(&store, sent).await, Released::Done);
        for how in EVERY_WAY {
            assert_eq!(first.release(&store, how).await, Released::Ended);
        }
        let claim = first.stranger().claim(&store).await;
        assert_eq!(claim, Claim::Mismatch { state });
    }
}

/// Where there is no record, there is nothing to give up.
pub async fn releasing_a_key_without_a_record_says_so(subject: &dyn Subject) {
    let (store, unit) = (subject.store().await, subject.unit());
    let mut expired = Attempt::fresh().with_lease(unit).with_ttl(unit);
    expired.acquire(&store).await;
    subject.advance(unit * 2).await;

    for attempt in [Attempt::fresh(), expired] {
        for how in EVERY_WAY {
            assert_eq!(attempt.release(&store, how).await, Released::Gone);
        }
        assert_eq!(attempt.renew(&store).await, Renewal::Gone);
    }
}

const EVERY_WAY: [Release; 4] = [
    Release::Bound,
    Release::Forget,
    Release::Undo,
    Release::Unknown { keep: LONG },
];
