//! What support staff can see of a record, and what they can decide about it.

use crate::store::{
    Claim, Completion, Fence, Release, Released, Renewal, Resolve, Resolved, State, Store, Summary,
    conformance::{
        Subject,
        attempt::{Attempt, LONG, NAMESPACE, OPERATION, completed, in_progress, record},
    },
};

/// A summary names the operation, the attempt and, once there is one, the outcome.
pub async fn a_summary_tells_of_each_state(subject: &dyn Subject) {
    let store = subject.store().await;
    let mut first = Attempt::fresh();
    let grant = first.acquire(&store).await;
    let running = summary(&*store, &first).await;
    assert_eq!(running.state, State::InProgress);
    assert_eq!(running.grant, grant);
    assert_eq!(running.namespace, NAMESPACE);
    assert_eq!(running.operation, OPERATION);
    assert_eq!(running.key_hint, first.key_hint());
    assert!(running.lease_left.is_some());
    assert_eq!((running.completed, running.status), (None, None));
    assert_eq!(running.reference, None);

    let _ = first.release(&store, Release::Bound).await;
    let released = summary(&*store, &first).await;
    assert_eq!(
        (released.state, released.lease_left),
        (State::Released, None)
    );

    let mut second = first.rival();
    let grant = second.acquire(&store).await;
    let _ = second
        .release(&store, Release::Unknown { keep: LONG })
        .await;
    let unknown = summary(&*store, &first).await;
    assert_eq!((unknown.state, unknown.grant), (State::Unknown, grant));
    assert_eq!(unknown.lease_left, None);

    let _ = second.complete(&store, &record(1)).await;
    let done = summary(&*store, &first).await;
    assert_eq!((done.state, done.grant), (State::Completed, grant));
    assert_eq!(done.created, running.created);
    assert!(done.completed.expect("it is done") >= done.created);
    assert_eq!(done.status, Some(201));
    assert_eq!(done.reference.as_deref(), Some("payment_1"));
    assert_eq!(done.lease_left, None);
}

/// A key that nobody had has no summary.
pub async fn a_fresh_key_has_no_summary(subject: &dyn Subject) {
    let store = subject.store().await;
    let found = store.inspect(Attempt::fresh().key()).await;
    assert_eq!(found.expect("the store answers"), None);
}

/// An operator's record is replayed like any other, and told of.
pub async fn a_resolved_key_replays_the_operators_record(subject: &dyn Subject) {
    let store = subject.store().await;
    let mut first = Attempt::fresh();
    let grant = first.acquire(&store).await;
    let _ = first.release(&store, Release::Unknown { keep: LONG }).await;

    let how = complete_with(1);
    assert_eq!(
        resolve(&*store, &first, grant.fence, how).await,
        Resolved::Done
    );
    assert_eq!(completed(first.rival().claim(&store).await), record(1));
    let done = summary(&*store, &first).await;
    assert_eq!((done.state, done.status), (State::Completed, Some(201)));
}

/// A key that an operator releases goes to the next equal request, and to no other.
pub async fn a_key_released_by_an_operator_stays_bound(subject: &dyn Subject) {
    let store = subject.store().await;
    let mut first = Attempt::fresh();
    let grant = first.acquire(&store).await;
    let _ = first.release(&store, Release::Unknown { keep: LONG }).await;

    let resolved = resolve(&*store, &first, grant.fence, Resolve::Release).await;
    assert_eq!(resolved, Resolved::Done);
    let claim = first.stranger().claim(&store).await;
    let state = State::Released;
    assert_eq!(claim, Claim::Mismatch { state });
    let next = first.rival().acquire(&store).await;
    assert_eq!(next.attempt, 2);
    assert!(next.fence > grant.fence);
}

/// A key that an operator forgets is free for any request.
pub async fn a_key_forgotten_by_an_operator_is_free(subject: &dyn Subject) {
    let store = subject.store().await;
    let mut first = Attempt::fresh();
    let grant = first.acquire(&store).await;
    let _ = first.release(&store, Release::Unknown { keep: LONG }).await;

    let resolved = resolve(&*store, &first, grant.fence, Resolve::Forget).await;
    assert_eq!(resolved, Resolved::Done);
    assert_eq!(first.stranger().acquire(&store).await.attempt, 1);
}

/// A completed record too can be replaced, or its key given free, by an operator who insists.
pub async fn a_completed_key_can_be_resolved(subject: &dyn Subject) {
    let store = subject.store().await;
    let mut first = Attempt::fresh();
    let grant = first.acquire(&store).await;
    let _ = first.complete(&store, &record(1)).await;

    let how = complete_with(2);
    assert_eq!(
        resolve(&*store, &first, grant.fence, how).await,
        Resolved::Done
    );
    assert_eq!(completed(first.rival().claim(&store).await), record(2));
    let seen = summary(&*store, &first).await.grant.fence;
    let resolved = resolve(&*store, &first, seen, Resolve::Release).await;
    assert_eq!(resolved, Resolved::Done);
    let released = summary(&*store, &first).await;
    assert_eq!((released.state, released.status), (State::Released, None));
    assert_eq!(first.rival().acquire(&store).await.attempt, 2);
}

/// A decision about an attempt that somebody replaced changes nothing.
pub async fn a_stale_decision_changes_nothing(subject: &dyn Subject) {
    let store = subject.store().await;
    let mut first = Attempt::fresh();
    let seen = first.acquire(&store).await;
    let _ = first.release(&store, Release::Bound).await;
    let mut second = first.rival();
    let granted = second.acquire(&store).await;

    let fence = granted.fence;
    for how in every_decision() {
        let resolved = resolve(&*store, &first, seen.fence, how).await;
        assert_eq!(resolved, Resolved::Stale { fence });
    }
    assert_eq!(in_progress(first.rival().claim(&store).await).0, granted);
    let completion = second.complete(&store, &record(1)).await;
    assert_eq!(completion, Completion::Stored);
}

/// An owner over whose head an operator decided changes nothing any more.
pub async fn a_decision_fences_a_live_owner(subject: &dyn Subject) {
    let store = subject.store().await;
    for (how, state) in [
        (complete_with(2), State::Completed),
        (Resolve::Release, State::Released),
    ] {
        let mut first = Attempt::fresh();
        let grant = first.acquire(&store).await;
        assert_eq!(
            resolve(&*store, &first, grant.fence, how).await,
            Resolved::Done
        );

        assert_eq!(first.renew(&store).await, Renewal::Superseded);
        let late = first.complete(&store, &record(1)).await;
        assert_eq!(late, Completion::Superseded);
        let late = first.release(&store, Release::Forget).await;
        assert_eq!(late, Released::Superseded);
        let found = summary(&*store, &first).await;
        assert_eq!((found.state, found.grant.attempt), (state, grant.attempt));
    }
}

/// Of two operators who saw the same record one decides, and the other is told.
pub async fn a_second_decision_on_the_same_view_is_stale(subject: &dyn Subject) {
    let store = subject.store().await;
    for (how, state) in [
        (complete_with(2), State::Completed),
        (Resolve::Release, State::Released),
    ] {
        let mut first = Attempt::fresh();
        let seen = first.acquire(&store).await.fence;
        let resolved = resolve(&*store, &first, seen, how).await;
        assert_eq!(resolved, Resolved::Done);

        let fence = summary(&*store, &first).await.grant.fence;
        assert!(fence > seen);
        for late in every_decision() {
            let resolved = resolve(&*store, &first, seen, late).await;
            assert_eq!(resolved, Resolved::Stale { fence });
        }
        assert_eq!(summary(&*store, &first).await.state, state);
    }
}

/// Where there is no record, there is nothing to decide.
pub async fn a_decision_about_no_record_says_so(subject: &dyn Subject) {
    let (store, unit) = (subject.store().await, subject.unit());
    let mut expired = Attempt::fresh().with_lease(unit).with_ttl(unit);
    let grant = expired.acquire(&store).await;
    subject.advance(unit * 2).await;

    for attempt in [Attempt::fresh(), expired] {
        for how in every_decision() {
            let resolved = resolve(&*store, &attempt, grant.fence, how).await;
            assert_eq!(resolved, Resolved::Gone);
        }
    }
}

fn complete_with(number: u8) -> Resolve {
    Resolve::Complete {
        record: record(number),
        ttl: LONG,
    }
}

fn every_decision() -> [Resolve; 3] {
    [complete_with(9), Resolve::Release, Resolve::Forget]
}

async fn resolve(store: &dyn Store, attempt: &Attempt, expected: Fence, how: Resolve) -> Resolved {
    let resolved = store.resolve(attempt.key(), expected, how).await;
    resolved.expect("the store answers")
}

async fn summary(store: &dyn Store, attempt: &Attempt) -> Summary {
    let found = store.inspect(attempt.key()).await;
    found
        .expect("the store answers")
        .expect("there is a record")
}
