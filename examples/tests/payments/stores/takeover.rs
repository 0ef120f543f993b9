//! A process that is killed in the middle of a payment: its key is free after its lease, not before.

use std::time::{Duration, Instant};

use super::{PAY, Place, Row, look_up, new_key, pay_when_free, rows};
use crate::Service;

rows![a_key_of_a_killed_process_is_blocked_until_its_lease_has_lapsed];

/// How long the handler of [`PATH`] runs: longer than it takes to see that it does.
const SLOW: Duration = Duration::from_secs(2);
const PATH: &str = "/v1/payments?slow=2s";

/// How much later than its lease a busy machine may find a key free.
const LATE: Duration = Duration::from_secs(3);

/// P-22
async fn a_key_of_a_killed_process_is_blocked_until_its_lease_has_lapsed(row: Row) {
    let place = Place::new(row).await;
    let [owner, other] = place.replicas(&[("LEASE", "2s")]);
    let waited = taken_over(owner, &other, Duration::from_secs(2)).await;
    assert_eq!(place.booked().len(), 1);
    eprintln!("{row:?}: taken over {waited:.2?} after the kill, with a lease of 2 s");
}

/// Kills the owner of a new key, and pays with it through the other one as soon as that goes, which is
/// when the lease of the owner has lapsed. Returns how long after the kill that was.
pub(super) async fn taken_over(owner: Service, other: &Service, lease: Duration) -> Duration {
    let key = new_key();
    let sent = Instant::now();
    let running = owner.running(PATH, &key, PAY).await;
    drop(owner);
    let killed = Instant::now();
    running.await.expect_err("its process is gone");
    let left = look_up(other, &key).await.json();
    assert_eq!(
        (&left["state"], &left["attempts"]),
        (&"in_progress".into(), &1.into())
    );

    let (refused, paid) = pay_when_free(other, PATH, &key).await;
    let (since_sent, since_killed) = (sent.elapsed(), killed.elapsed());
    assert!(refused > 0, "it was free at once");
    assert!(paid.is_paid(), "{paid:?}");
    // The owner claimed it after `sent`, and the handler that has answered ran for so long.
    assert!(since_sent >= lease + SLOW, "before its lease has lapsed");
    // The owner has renewed nothing since it was killed.
    let waited = since_killed.saturating_sub(SLOW);
    assert!(waited < lease + LATE, "{waited:?}");
    let left = look_up(other, &key).await.json();
    assert_eq!(
        (&left["state"], &left["attempts"]),
        (&"completed".into(), &2.into())
    );
    waited
}
