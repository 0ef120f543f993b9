//! Leases, in real time.

use std::time::Duration;

use idem_core::store::{Completion, Renewal};
use tokio::time::{Instant, sleep_until};

use crate::{
    attempt::{Attempt, in_progress, paid},
    world::World,
};

/// Refused a tenth before its end, taken over a tenth after.
#[tokio::test]
async fn a_lease_ends_when_it_says() {
    let world = World::shared().await;
    for lease in [Duration::from_millis(300), Duration::from_secs(1)] {
        // A machine that pauses us for longer than a tenth proves nothing.
        let mut tries = 30;
        loop {
            let mut first = Attempt::fresh().with_lease(lease);
            let sent = Instant::now();
            let granted = first.acquire(&world.store).await;
            let answered = Instant::now();

            sleep_until(sent + lease * 9 / 10).await;
            let early = first.rival().claim(&world.store).await;
            if Instant::now() > sent + lease * 98 / 100 && tries > 0 {
                tries -= 1;
                continue;
            }
            assert_eq!(in_progress(early).0, granted);

            sleep_until(answered + lease * 11 / 10).await;
            let grant = first.rival().acquire(&world.store).await;
            assert_eq!(grant.attempt, 2);
            assert!(grant.fence > granted.fence);
            break;
        }
    }
}

/// A record that Redis evicted under its attempt: the renewal says so, and the outcome is kept.
#[tokio::test]
async fn a_claim_that_was_evicted_is_missed_by_its_renewal() {
    let world = World::shared().await;
    let mut first = Attempt::fresh();
    first.acquire(&world.store).await;
    let _: () = world.ask("DEL", &[&world.name(first.key())]).await;

    assert_eq!(first.renew(&world.store).await, Renewal::Gone);
    assert_eq!(
        first.complete(&world.store, &paid()).await,
        Completion::Restored
    );
}
