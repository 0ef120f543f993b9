//! Leases: when they lapse, who renews them, and who may take over.

use std::time::Duration;

use crate::store::{
    Claim, Completion, Release, Released, Renewal,
    conformance::{
        Subject,
        attempt::{Attempt, LONG, in_progress, record},
    },
};

/// A takeover is refused a tenth of the lease before its end and allowed a tenth after, whether
/// the lease is a fraction of a second or some.
pub async fn a_lease_lasts_as_long_as_it_says(subject: &dyn Subject) {
    let (store, unit) = (subject.store().await, subject.unit());
    for lease in [unit * 10, unit * 40] {
        let mut first = Attempt::fresh().with_lease(lease);
        let granted = first.acquire(&store).await;

        subject.advance(lease * 9 / 10).await;
        let (grant, left) = in_progress(first.rival().claim(&store).await);
        assert_eq!(grant, granted);
        assert!(left > Duration::ZERO && left <= lease / 10, "{left:?}");

        subject.advance(lease / 5).await;
        let grant = first.rival().acquire(&store).await;
        assert_eq!(grant.attempt, 2);
        assert!(grant.fence > granted.fence);
    }
}

/// Where a claim does not allow a takeover, a lapsed attempt is reported, and stays as it is.
pub async fn a_lapsed_key_is_not_taken_over_unless_the_claim_allows_it(subject: &dyn Subject) {
    let (store, unit) = (subject.store().await, subject.unit());
    let mut first = Attempt::fresh().with_lease(unit);
    let grant = first.acquire(&store).await;
    subject.advance(unit * 2).await;

    for _ in 0..2 {
        let claim = first.rival().without_takeover().claim(&store).await;
        assert_eq!(claim, Claim::Lapsed { grant });
    }
    assert_eq!(first.complete(&store, &record(1)).await, Completion::Stored);
}

/// A renewed lease lasts for its length from the renewal.
pub async fn a_renewed_lease_outlives_its_first_end(subject: &dyn Subject) {
    let (store, unit) = (subject.store().await, subject.unit());
    let mut first = Attempt::fresh().with_lease(unit * 10);
    let granted = first.acquire(&store).await;
    for _ in 0..3 {
        subject.advance(unit * 7).await;
        let Renewal::Renewed { left } = first.renew(&store).await else {
            panic!("the owner renews");
        };
        assert!(left > unit * 9 && left <= unit * 10, "{left:?}");
    }
    subject.advance(unit * 8).await;
    assert_eq!(in_progress(first.rival().claim(&store).await).0, granted);
    subject.advance(unit * 4).await;
    assert_eq!(first.rival().acquire(&store).await.attempt, 2);
}

/// A renewal by less than what is left changes nothing.
pub async fn renewing_never_shortens_a_lease(subject: &dyn Subject) {
    let (store, unit) = (subject.store().await, subject.unit());
    let mut first = Attempt::fresh().with_lease(unit * 20);
    first.acquire(&store).await;

    let Renewal::Renewed { left } = first.clone().with_lease(unit).renew(&store).await else {
        panic!("the owner renews");
    };
    assert!(left > unit * 15, "{left:?}");
    subject.advance(unit * 4).await;
    in_progress(first.rival().claim(&store).await);
}

/// A record whose attempt is renewed lives on, past the `ttl` of its claim.
pub async fn a_renewed_record_outlives_its_ttl(subject: &dyn Subject) {
    let (store, unit) = (subject.store().await, subject.unit());
    let mut first = Attempt::fresh().with_lease(unit * 10).with_ttl(unit);
    let granted = first.acquire(&store).await;
    for _ in 0..3 {
        subject.advance(unit * 7).await;
        assert!(matches!(first.renew(&store).await, Renewal::Renewed { .. }));
    }
    subject.advance(unit * 7).await;
    assert_eq!(in_progress(first.rival().claim(&store).await).0, granted);
    assert_eq!(first.complete(&store, &record(1)).await, Completion::Stored);
}

/// An owner whose lease lapsed is still the owner if nobody came: it may renew.
pub async fn a_lapsed_owner_whom_nobody_replaced_renews(subject: &dyn Subject) {
    let (store, unit) = (subject.store().await, subject.unit());
    let mut first = Attempt::fresh().with_lease(unit * 4);
    let granted = first.acquire(&store).await;
    subject.advance(unit * 5).await;

    assert!(matches!(first.renew(&store).await, Renewal::Renewed { .. }));
    assert_eq!(in_progress(first.rival().claim(&store).await).0, granted);
}

/// An owner that was replaced changes nothing: it cannot renew, complete or release.
pub async fn a_replaced_owner_changes_nothing(subject: &dyn Subject) {
    let (store, unit) = (subject.store().await, subject.unit());
    let mut first = Attempt::fresh().with_lease(unit);
    first.acquire(&store).await;
    subject.advance(unit * 2).await;
    let mut second = first.rival().with_lease(LONG);
    let granted = second.acquire(&store).await;

    assert_eq!(first.renew(&store).await, Renewal::Superseded);
    let completion = first.complete(&store, &record(1)).await;
    assert_eq!(completion, Completion::Superseded);
    for how in [
        Release::Bound,
        Release::Forget,
        Release::Undo,
        Release::Unknown { keep: LONG },
    ] {
        assert_eq!(first.release(&store, how).await, Released::Superseded);
    }
    let (grant, left) = in_progress(second.rival().claim(&store).await);
    assert_eq!(grant, granted);
    assert!(left > LONG / 2, "{left:?}");
    let completion = second.complete(&store, &record(2)).await;
    assert_eq!(completion, Completion::Stored);
}

/// Renewals of many leases are answered in the order of the leases.
pub async fn renewals_are_answered_in_order(subject: &dyn Subject) {
    let store = subject.store().await;
    let (mut mine, mut done, mut theirs) = (Attempt::fresh(), Attempt::fresh(), Attempt::fresh());
    mine.acquire(&store).await;
    done.acquire(&store).await;
    let _ = done.complete(&store, &record(1)).await;
    theirs.acquire(&store).await;
    let (other, nobody) = (theirs.rival(), Attempt::fresh());

    let attempts = [&done, &mine, &nobody, &other, &theirs, &nobody, &done];
    let leases = attempts.map(Attempt::as_lease);
    let renewals = store.renew(&leases).await.expect("the store answers");
    assert!(
        matches!(
            renewals[..],
            [
                Renewal::Ended,
                Renewal::Renewed { .. },
                Renewal::Gone,
                Renewal::Superseded,
                Renewal::Renewed { .. },
                Renewal::Gone,
                Renewal::Ended,
            ]
        ),
        "{renewals:?}"
    );
    let none = store.renew(&[]).await.expect("the store answers");
    assert_eq!(none, []);
}
