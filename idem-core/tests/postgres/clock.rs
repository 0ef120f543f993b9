//! One clock: the server's.

use std::time::Duration;

use idem_core::store::{Claim, conformance::Subject};
use tokio::time;

use crate::{
    attempt::{Attempt, completed, record},
    subjects::postgres::Postgres,
};

/// The application's clock goes two minutes ahead, and nothing of five seconds has passed; the
/// server's does, and it has, though no time passed here.
#[tokio::test]
async fn a_takeover_depends_on_the_servers_clock_alone() {
    let (five, ahead) = (Duration::from_secs(5), Duration::from_mins(2));
    let subject = Postgres::new().await;
    let store = &subject.store;
    let mut first = Attempt {
        lease: five,
        ..Attempt::fresh()
    };
    first.acquire(store).await;
    let mut done = Attempt::fresh();
    done.acquire(store).await;
    done.ttl = five;
    let _ = done.complete(store, &record("paid")).await;

    time::pause();
    time::advance(ahead).await;
    time::resume();
    let busy = first.rival().claim(store).await.expect("an answer");
    assert!(
        matches!(busy, Claim::InProgress { left, .. } if left <= five),
        "{busy:?}"
    );
    let replay = done.rival().claim(store).await.expect("an answer");
    assert_eq!(replay, completed(&record("paid")));

    subject.advance(five).await;
    assert_eq!(first.rival().acquire(store).await.attempt, 2);
    assert_eq!(done.rival().acquire(store).await.attempt, 1);
}
