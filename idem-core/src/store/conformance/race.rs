//! Calls that meet: one of them wins, and nobody is left without an answer.

use std::sync::Arc;

use futures_util::future::join;
use tokio::{
    sync::Barrier,
    task::{self, JoinSet},
};

use crate::store::{
    Claim, Completion, Release, Renewal,
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
    let store = subject.store().await;
    for (number, late) in lapsed(subject).await.into_iter().enumerate() {
        let (rival, record) = (late.rival().with_lease(LONG), record(1));
        let (claiming, completing) = (rival.claim(&store), late.complete(&store, &record));
        let (claim, completion) = meet(number, claiming, completing).await;
        match claim {
            Claim::Acquired { .. } => assert_eq!(completion, Completion::Superseded),
            other => {
                assert_eq!(completed(other), record);
                assert_eq!(completion, Completion::Stored);
            }
        }
    }
}

/// A late renewal and a takeover of one key: the one that is second learns of the first.
pub async fn either_a_late_renewal_or_a_takeover_wins(subject: &dyn Subject) {
    let store = subject.store().await;
    for (number, late) in lapsed(subject).await.into_iter().enumerate() {
        let late = late.with_lease(LONG);
        let rival = late.rival();
        let (claim, renewal) = meet(number, rival.claim(&store), late.renew(&store)).await;
        match claim {
            Claim::Acquired { .. } => assert_eq!(renewal, Renewal::Superseded),
            other => {
                in_progress(other);
                assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
            }
        }
    }
}

/// Runs two calls at once; every other time the second one starts first.
async fn meet<A, B>(
    number: usize,
    first: impl Future<Output = A>,
    second: impl Future<Output = B>,
) -> (A, B) {
    if number.is_multiple_of(2) {
        join(first, second).await
    } else {
        let (second, first) = join(second, first).await;
        (first, second)
    }
}

/// Attempts whose leases have lapsed.
async fn lapsed(subject: &dyn Subject) -> Vec<Attempt> {
    let (store, unit) = (subject.store().await, subject.unit());
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

    let purging = task::spawn({
        let store = Arc::clone(&store);
        async move {
            for _ in 0..ROUNDS {
                store.purge(10).await.expect("the store answers");
                task::yield_now().await;
            }
        }
    });
    let mut attempts = Vec::new();
    for first in &expired {
        let mut attempt = first.rival();
        attempt.acquire(&store).await;
        attempts.push(attempt);
        task::yield_now().await;
    }
    purging.await.expect("the purge ends");
    for attempt in attempts {
        in_progress(attempt.rival().claim(&store).await);
        let completion = attempt.complete(&store, &record(2)).await;
        assert_eq!(completion, Completion::Stored);
    }
}
