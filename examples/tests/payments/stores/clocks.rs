//! Replicas whose clocks are four minutes apart: a lease and a record last as long as the store says.

use std::{
    fs,
    process::Command,
    time::{Duration, Instant},
};

use tokio::join;

use super::{Answer, INTERVAL, PAY, PAYMENTS, Place, Row, new_key, pay, pay_when_free, rows};
use crate::{Service, stores::takeover::taken_over};

rows![
    a_handler_that_renews_is_not_taken_over_by_a_replica_with_another_clock,
    a_takeover_comes_with_the_lease_whatever_the_clocks_say,
    an_outcome_is_replayed_by_a_replica_whose_clock_is_past_its_end,
    an_outcome_expires_when_the_clock_of_the_store_says_so,
];

/// Two replicas: one is two minutes ahead, one two minutes behind.
fn apart(place: &Place, environment: &[(&str, &str)]) -> [Service; 2] {
    ["+120s", "-120s"].map(|offset| shifted(place, offset, environment))
}

/// A replica whose clock is off. Its monotonic clock goes as it goes, as in a real one.
fn shifted(place: &Place, offset: &str, environment: &[(&str, &str)]) -> Service {
    let library = library();
    let shift = [
        // Not by the program `faketime`, which would stand between the service and its signals.
        ("LD_PRELOAD", library.as_str()),
        ("FAKETIME", offset),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
    ];
    let service = place.start(&[&shift, environment].concat());
    // It has them open by now, and would leave them behind when it is killed.
    for name in ["faketime_shm_", "sem.faketime_sem_"] {
        let _ = fs::remove_file(format!("/dev/shm/{name}{}", service.process.id()));
    }
    service
}

/// What `faketime` has a program load.
fn library() -> String {
    let told = Command::new("faketime")
        .args(["-m", "-f", "+0s", "printenv", "LD_PRELOAD"])
        .output();
    let told = told.unwrap_or_else(|error| {
        panic!("`faketime` cannot be run, of the Debian package `faketime`: {error}")
    });
    let library = String::from_utf8(told.stdout).expect("a path");
    assert!(!library.is_empty(), "{}", told.stderr.escape_ascii());
    library.trim_end().to_owned()
}

/// Asserts that the ledger has two payments, one of each replica, by the clocks that they had.
fn booked_by_both(place: &Place) {
    let [one, two] = &place.booked()[..] else {
        panic!("{:?}", place.booked());
    };
    let apart = one.created.duration_since(two.created).unsigned_abs();
    assert!(apart > Duration::from_secs(200), "{one:?} {two:?}");
}

/// B05-02
async fn a_handler_that_renews_is_not_taken_over_by_a_replica_with_another_clock(row: Row) {
    async fn kept(owner: &Service, other: &Service) {
        let (path, key) = ("/v1/payments?slow=5s", new_key());
        let running = owner.running(path, &key, PAY).await;
        let (refused, answer) = pay_when_free(other, path, &key).await;
        let paid = Answer::read(running.await.expect("an answer")).await;
        assert!(paid.is_paid(), "{paid:?}");
        assert!(refused > 0, "it was over at once");
        assert!(answer.is_replay_of(&paid), "{answer:?}");
    }

    let place = Place::new(row).await;
    let [ahead, behind] = apart(&place, &[("LEASE", "3s")]);
    join!(kept(&ahead, &behind), kept(&behind, &ahead));
    booked_by_both(&place);
}

/// B05-02
async fn a_takeover_comes_with_the_lease_whatever_the_clocks_say(row: Row) {
    let place = Place::new(row).await;
    let lease = Duration::from_secs(3);
    let start = || apart(&place, &[("LEASE", "3s")]);
    let ([killed_ahead, behind], [ahead, killed_behind]) = (start(), start());
    let (by_behind, by_ahead) = join!(
        taken_over(killed_ahead, &behind, lease),
        taken_over(killed_behind, &ahead, lease),
    );
    booked_by_both(&place);
    eprintln!(
        "{row:?}: taken over {by_behind:.2?} after the kill by the one behind, {by_ahead:.2?} by \
         the one ahead, with a lease of 3 s"
    );
}

/// B05-02
async fn an_outcome_is_replayed_by_a_replica_whose_clock_is_past_its_end(row: Row) {
    let place = Place::new(row).await;
    let [ahead, behind] = apart(&place, &[("LEASE", "3s"), ("TTL", "60s")]);
    for (payer, other) in [(&ahead, &behind), (&behind, &ahead)] {
        let key = new_key();
        let paid = pay(payer, PAYMENTS, &key).await;
        assert!(paid.is_paid(), "{paid:?}");
        let again = pay(other, PAYMENTS, &key).await;
        assert!(again.is_replay_of(&paid), "{paid:?} {again:?}");
    }
    booked_by_both(&place);
}

/// B05-02
async fn an_outcome_expires_when_the_clock_of_the_store_says_so(row: Row) {
    async fn expires(payer: &Service, other: &Service) {
        let key = new_key();
        let sent = Instant::now();
        let paid = pay(payer, PAYMENTS, &key).await;
        assert!(paid.is_paid(), "{paid:?}");
        // By then at the latest.
        let end = Instant::now() + Duration::from_secs(1) + crate::PATIENCE;
        while pay(other, PAYMENTS, &key).await.is_replay_of(&paid) {
            assert!(Instant::now() < end, "it does not end");
            tokio::time::sleep(INTERVAL).await;
        }
        assert!(sent.elapsed() >= Duration::from_secs(1), "too early");
    }

    let place = Place::new(row).await;
    let [ahead, behind] = apart(&place, &[("TTL", "1s")]);
    join!(expires(&ahead, &behind), expires(&behind, &ahead));
    assert_eq!(place.booked().len(), 4);
}
