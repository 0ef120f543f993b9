//! Storing the outcome, in each state that the record can be in by then.

use crate::store::{
    Claim, Completion, Release, Released, State,
    conformance::{
        Subject,
        attempt::{Attempt, LONG, completed, in_progress, record},
    },
};

/// A completion that is sent again changes nothing, even if it says something else.
pub async fn a_completion_sent_again_changes_nothing(subject: &dyn Subject) {
    let store = subject.store().await;
    let mut first = Attempt::fresh();
    first.acquire(&store).await;

    assert_eq!(first.complete(&store, &record(1)).await, Completion::Stored);
    let again = first.complete(&store, &record(2)).await;
    assert_eq!(again, Completion::Already);
    assert_eq!(completed(first.rival().claim(&store).await), record(1));
}

/// An owner whose lease lapsed, and whom nobody replaced, stores its outcome.
pub async fn a_late_completion_is_stored_if_nobody_took_over(subject: &dyn Subject) {
    let (store, unit) = (subject.store().await, subject.unit());
    let mut first = Attempt::fresh().with_lease(unit);
    first.acquire(&store).await;
    subject.advance(unit * 2).await;

    assert_eq!(first.complete(&store, &record(1)).await, Completion::Stored);
    assert_eq!(completed(first.rival().claim(&store).await), record(1));
}

/// An owner that was replaced learns so while its successor runs.
pub async fn a_late_completion_does_not_disturb_a_running_successor(subject: &dyn Subject) {
    let (store, unit) = (subject.store().await, subject.unit());
    let mut first = Attempt::fresh().with_lease(unit);
    first.acquire(&store).await;
    subject.advance(unit * 2).await;
    let mut second = first.rival().with_lease(LONG);
    let granted = second.acquire(&store).await;

    let late = first.complete(&store, &record(1)).await;
    assert_eq!(late, Completion::Superseded);
    assert_eq!(in_progress(first.rival().claim(&store).await).0, granted);
}

/// An owner that was replaced learns so after its successor is done, whose answer stands.
pub async fn a_late_completion_does_not_replace_the_answer_of_a_successor(subject: &dyn Subject) {
    let (store, unit) = (subject.store().await, subject.unit());
    let mut first = Attempt::fresh().with_lease(unit);
    first.acquire(&store).await;
    subject.advance(unit * 2).await;
    let mut second = first.rival().with_lease(LONG);
    second.acquire(&store).await;
    let completion = second.complete(&store, &record(2)).await;
    assert_eq!(completion, Completion::Stored);

    let late = first.complete(&store, &record(1)).await;
    assert_eq!(late, Completion::Superseded);
    assert_eq!(completed(first.claim(&store).await), record(2));
}

/// An owner that gave its claim up cannot complete it any more.
pub async fn a_released_claim_is_not_completed(subject: &dyn Subject) {
    let store = subject.store().await;
    let mut first = Attempt::fresh();
    first.acquire(&store).await;
    let _ = first.release(&store, Release::Bound).await;

    let late = first.complete(&store, &record(1)).await;
    assert_eq!(late, Completion::Released);
    assert_eq!(first.rival().acquire(&store).await.attempt, 2);
}

/// An outcome that was unknown becomes known when its owner completes after all.
pub async fn an_unknown_outcome_is_completed_by_its_owner(subject: &dyn Subject) {
    let store = subject.store().await;
    let mut first = Attempt::fresh();
    let grant = first.acquire(&store).await;
    let released = first.release(&store, Release::Unknown { keep: LONG }).await;
    assert_eq!(released, Released::Done);
    assert_eq!(first.rival().claim(&store).await, Claim::Unknown { grant });

    assert_eq!(first.complete(&store, &record(1)).await, Completion::Stored);
    assert_eq!(completed(first.rival().claim(&store).await), record(1));
}

/// A record that expired under a running attempt is restored: its answer keeps the effect from
/// happening again.
pub async fn a_vanished_record_is_restored(subject: &dyn Subject) {
    let (store, unit) = (subject.store().await, subject.unit());
    let mut first = Attempt::fresh().with_lease(unit).with_ttl(unit);
    let granted = first.acquire(&store).await;
    subject.advance(unit * 2).await;

    let completion = first.complete(&store, &record(1)).await;
    assert_eq!(completion, Completion::Restored);
    assert_eq!(completed(first.rival().claim(&store).await), record(1));
    let claim = first.stranger().claim(&store).await;
    let state = State::Completed;
    assert_eq!(claim, Claim::Mismatch { state });
    let again = first.complete(&store, &record(2)).await;
    assert_eq!(again, Completion::Already);
    let summary = store.inspect(first.key()).await.expect("the store answers");
    assert_eq!(summary.expect("a record").grant, granted);
}

/// A vanished record is restored for an attempt that never got the reply of its claim.
pub async fn a_vanished_record_is_restored_without_a_grant(subject: &dyn Subject) {
    let store = subject.store().await;
    let first = Attempt::fresh();
    let completion = first.complete(&store, &record(1)).await;
    assert_eq!(completion, Completion::Restored);
    assert_eq!(completed(first.rival().claim(&store).await), record(1));
}

/// A vanished record is not restored over that of somebody who came in between.
pub async fn a_vanished_record_is_not_restored_over_another(subject: &dyn Subject) {
    let (store, unit) = (subject.store().await, subject.unit());
    let mut first = Attempt::fresh().with_lease(unit).with_ttl(unit);
    first.acquire(&store).await;
    subject.advance(unit * 2).await;
    let mut second = first.stranger().with_lease(LONG);
    let granted = second.acquire(&store).await;
    assert_eq!(granted.attempt, 1);

    let late = first.complete(&store, &record(1)).await;
    assert_eq!(late, Completion::Superseded);
    assert_eq!(in_progress(second.rival().claim(&store).await).0, granted);
}
