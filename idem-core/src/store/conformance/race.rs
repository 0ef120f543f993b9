//! Calls that meet: one of them wins, and nobody is left without an answer.

use std::sync::Arc;

use tokio::{sync::Barrier, task::JoinSet};

use crate::store::{
    Claim, Completion, Release, Renewal, Store,
    conformance::{
        Subject,
        attempt::{Attempt, LONG, completed, in_progress, record},
    },
};

/// How many claim one key at once.
const RACERS: usize = 50;
/// How often each race is run.
const ROUNDS: usize = 10;

/// Of fifty claims of a key that nobody had, one is acquired.
pub async fn one_of_fifty_claims_of_a_fresh_key_is_acquired(subject: &dyn Subject) {
    for _ in 0..ROUNDS {
        one_wins(subject, &Attempt::fresh()).await;
    }
}

/// Of fifty claims of a released key, one is acquired.
pub async fn one_of_fifty_claims_of_a_released_key_is_acquired(subject: &dyn Subject) {
    let store = subject.store().await;
    for _ in 0..ROUNDS {
        let mut first = Attempt::fresh();
        first.acquire(&store).await;
        let _ = first.release(&store, Release::Bound).await;
        one_wins(subject, &first).await;
    }
}

/// Of fifty claims of a key whose lease lapsed, one is acquired.
pub async fn one_of_fifty_claims_of_a_lapsed_key_is_acquired(subject: &dyn Subject) {
    let (store, unit) = (subject.store().await, subject.unit());
    let mut lapsed = Vec::new();
    for _ in 0..ROUNDS {
        let mut first = Attempt::fresh().with_lease(unit);
        first.acquire(&store).await;
        lapsed.push(first.with_lease(LONG));
    }
    subject.advance(unit * 2).await;
    for first in lapsed {
        one_wins(subject, &first).await;
    }
}

/// Of fifty claims of a key whose record expired, one is acquired.
pub async fn one_of_fifty_claims_of_an_expired_key_is_acquired(subject: &dyn Subject) {
    let (store, unit) = (subject.store().await, subject.unit());
    let mut expired = Vec::new();
    for _ in 0..ROUNDS {
        let mut first = Attempt::fresh();
        first.acquire(&store).await;
        let _ = first.complete_for(&store, &record(1), unit).await;
        expired.push(first);
    }
    subject.advance(unit * 2).await;
    for first in expired {
        one_wins(subject, &first).await;
    }
}

/// As many rivals as there are, half of them over a second handle.
async fn one_wins(subject: &dyn Subject, first: &Attempt) {
    let store = subject.store().await;
    let other = store.reopen().await.expect("the store opens");
    let start = Arc::new(Barrier::new(RACERS));
    let mut racers = JoinSet::new();
    for number in 0..RACERS {
        let store = Arc::clone(if number % 2 == 0 { &store } else { &other });
        let (rival, start) = (first.rival(), Arc::clone(&start));
        racers.spawn(async move {
            start.wait().await;
            rival.claim(&store).await
        });
    }
    let claims = racers.join_all().await;
    let winners = claims.iter().filter_map(|claim| match claim {
        Claim::Acquired { grant } => Some(*grant),
        Claim::InProgress { .. }
        | Claim::Completed { .. }
        | Claim::Mismatch { .. }
        | Claim::Lapsed { .. }
        | Claim::Unknown { .. }
        | Claim::Unreadable(_) => None,
    });
    let [winner] = winners.collect::<Vec<_>>()[..] else {
        panic!("expected one winner: {claims:?}");
    };
    let losers = claims
        .into_iter()
        .filter(|claim| !matches!(claim, Claim::Acquired { .. }));
    for claim in losers {
        assert_eq!(in_progress(claim).0, winner);
    }
}

/// A late completion and a takeover of one key: the one that is second learns of the first.
pub async fn either_a_late_completion_or_a_takeover_wins(subject: &dyn Subject) {
    let (store, unit) = (subject.store().await, subject.unit());
    for late in lapsed(subject, unit).await {
        let rival = late.rival().with_lease(LONG);
        let (store_2, late_2) = (Arc::clone(&store), late.clone());
        let completing = tokio::spawn(async move { late_2.complete(&store_2, &record(1)).await });
        let claim = rival.claim(&store).await;
        let completion = completing.await.expect("the completion ends");
        match claim {
            Claim::Acquired { .. } => assert_eq!(completion, Completion::Superseded),
            other => {
                assert_eq!(completed(other), record(1));
                assert_eq!(completion, Completion::Stored);
            }
        }
    }
}

/// A late renewal and a takeover of one key: the one that is second learns of the first.
pub async fn either_a_late_renewal_or_a_takeover_wins(subject: &dyn Subject) {
    let (store, unit) = (subject.store().await, subject.unit());
    for late in lapsed(subject, unit).await {
        let (rival, late) = (late.rival().with_lease(LONG), late.with_lease(LONG));
        let store_2 = Arc::clone(&store);
        let renewing = tokio::spawn(async move { late.renew(&store_2).await });
        let claim = rival.claim(&store).await;
        let renewal = renewing.await.expect("the renewal ends");
        match claim {
            Claim::Acquired { .. } => assert_eq!(renewal, Renewal::Superseded),
            other => {
                in_progress(other);
                assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
            }
        }
    }
}

/// Attempts whose leases have lapsed.
async fn lapsed(subject: &dyn Subject, unit: std::time::Duration) -> Vec<Attempt> {
    let store = subject.store().await;
    let mut attempts = Vec::new();
    for _ in 0..RACERS {
        let mut attempt = Attempt::fresh().with_lease(unit);
        attempt.acquire(&store).await;
        attempts.push(attempt);
    }
    subject.advance(unit * 2).await;
    attempts
}

/// A purge that meets the claims of expired keys never drops the records of the new attempts.
pub async fn a_purge_never_drops_what_was_just_claimed(subject: &dyn Subject) {
    let (store, unit) = (subject.store().await, subject.unit());
    let mut expired = Vec::new();
    for _ in 0..RACERS {
        let mut first = Attempt::fresh();
        first.acquire(&store).await;
        let _ = first.complete_for(&store, &record(1), unit).await;
        expired.push(first);
    }
    subject.advance(unit * 2).await;

    let purging = purge_often(Arc::clone(&store));
    let mut attempts = Vec::new();
    for first in &expired {
        let mut attempt = first.rival();
        attempt.acquire(&store).await;
        attempts.push(attempt);
    }
    purging.await.expect("the purge ends");
    for attempt in attempts {
        in_progress(attempt.rival().claim(&store).await);
        let completion = attempt.complete(&store, &record(2)).await;
        assert_eq!(completion, Completion::Stored);
    }
}

fn purge_often(store: Arc<dyn Store>) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        for _ in 0..ROUNDS {
            store.purge(10).await.expect("the store answers");
            tokio::task::yield_now().await;
        }
    })
}
