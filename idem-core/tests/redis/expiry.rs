//! A key without an expiry would be a record for ever.

use std::time::Duration;

use idem_core::{
    Record, Store,
    store::{Claim, Completion, Release, Renewal, Resolve},
};
use idem_services::{Direction, Proxy, Redis};

use crate::{
    attempt::{Attempt, LONG, completed, in_progress, paid},
    world::{World, patient},
};

const LONG_MS: i64 = 600_000;

#[tokio::test]
async fn every_write_carries_its_expiry() {
    let world = World::shared().await;
    let store = &world.store;
    let minute = Duration::from_mins(1);
    let close = |left: i64, expected: i64| left <= expected && left > expected - 20_000;

    let mut first = Attempt::fresh().with_lease(minute);
    first.acquire(store).await;
    assert!(close(world.left(first.key()).await, LONG_MS));
    let _ = first.renew(store).await;
    assert!(close(world.left(first.key()).await, LONG_MS));
    let _ = first.release(store, Release::Bound).await;
    assert!(close(world.left(first.key()).await, LONG_MS));
    let mut second = first.rival().with_ttl(minute).with_lease(minute);
    second.acquire(store).await;
    assert!(close(world.left(first.key()).await, 60_000));
    let longer = second.clone().with_lease(LONG);
    let _ = longer.renew(store).await;
    assert!(close(world.left(first.key()).await, LONG_MS));
    let _ = second
        .release(store, Release::Unknown { keep: minute })
        .await;
    assert!(close(world.left(first.key()).await, 60_000));
    let _ = second.clone().with_ttl(LONG).complete(store, &paid()).await;
    assert!(close(world.left(first.key()).await, LONG_MS));
    let summary = store.inspect(first.key()).await.expect("it answers");
    let fence = summary.expect("a record").grant.fence;
    let (record, ttl) = (Record::new(200, ""), minute);
    let resolved = store.resolve(first.key(), fence, Resolve::Complete { record, ttl });
    let _ = resolved.await.expect("it answers");
    assert!(close(world.left(first.key()).await, 60_000));

    let restored = Attempt::fresh().with_ttl(minute);
    let completion = restored.complete(store, &paid()).await;
    assert_eq!(completion, Completion::Restored);
    assert!(close(world.left(restored.key()).await, 60_000));
}

/// Times that no server can take: none at all, and more than it can count.
#[tokio::test]
async fn the_shortest_and_the_longest_times_are_taken() {
    let world = World::shared().await;
    let nothing = Duration::ZERO;
    let short = Attempt::fresh().with_lease(nothing).with_ttl(nothing);
    let claim = short.claim(&world.store).await;
    assert!(matches!(claim, Claim::Acquired { .. }), "{claim:?}");

    let forever = Duration::from_millis(u64::MAX);
    let mut long = Attempt::fresh().with_lease(forever).with_ttl(forever);
    long.acquire(&world.store).await;
    assert_eq!(long.acquire(&world.store).await.attempt, 1);
    in_progress(long.rival().claim(&world.store).await);
    assert!(matches!(
        long.renew(&world.store).await,
        Renewal::Renewed { .. }
    ));
    assert_eq!(
        long.complete(&world.store, &paid()).await,
        Completion::Stored
    );
    assert!(world.left(long.key()).await > LONG_MS);
    assert_eq!(completed(long.rival().claim(&world.store).await), paid());
}

#[tokio::test]
async fn an_expiry_that_somebody_took_away_is_put_back() {
    let world = World::shared().await;
    let store = &world.store;
    let persist = async |attempt: &Attempt| {
        let name = world.name(attempt.key());
        let _: () = world.ask("PERSIST", &[&name]).await;
        assert_eq!(world.left(attempt.key()).await, -1);
    };
    let mut first = Attempt::fresh().with_lease(Duration::from_secs(1));
    let granted = first.acquire(store).await;

    // A native claim's lease counts from the claim, which nobody knows any more: a whole one.
    persist(&first).await;
    assert_eq!(in_progress(first.rival().claim(store).await).0, granted);
    assert!(world.left(first.key()).await > 0);

    persist(&first).await;
    assert!(matches!(first.renew(store).await, Renewal::Renewed { .. }));
    assert!(world.left(first.key()).await > 0);

    // Renewed, it has a date.
    persist(&first).await;
    in_progress(first.rival().claim(store).await);
    assert!(world.left(first.key()).await > 0);

    persist(&first).await;
    let _ = first.release(store, Release::Bound).await;
    assert!(world.left(first.key()).await > 0);

    persist(&first).await;
    let mut second = first.rival();
    second.acquire(store).await;
    assert!(world.left(first.key()).await > 0);

    persist(&first).await;
    let _ = second.complete(store, &paid()).await;
    assert!(world.left(first.key()).await > 0);

    let mut unfinished = Attempt::fresh();
    let grant = unfinished.acquire(store).await;
    persist(&unfinished).await;
    let released = store.resolve(unfinished.key(), grant.fence, Resolve::Release);
    let _ = released.await.expect("it answers");
    assert!(world.left(unfinished.key()).await > 0);
}

/// A completed record without an expiry would be replayed for ever.
#[tokio::test]
async fn a_completed_record_that_should_have_expired_does() {
    let world = World::shared().await;
    let store = &world.store;
    let mut first = Attempt::fresh();
    first.acquire(store).await;
    let _ = first.complete(store, &paid()).await;
    let mut value = world.value(first.key()).await.expect("a record");
    let name = world.name(first.key());
    let _: () = world.ask("PERSIST", &[&name]).await;
    // It was completed in the last century.
    value[42..50].copy_from_slice(&900_000_000_000_u64.to_be_bytes());
    world.put(first.key(), &value).await;
    assert_eq!(world.left(first.key()).await, -1);

    assert_eq!(completed(first.rival().claim(store).await), paid());
    tokio::time::sleep(Duration::from_millis(20)).await;
    let claim = first.stranger().claim(store).await;
    assert!(matches!(claim, Claim::Acquired { .. }), "{claim:?}");
}

/// Somebody who puts the expiry of a live claim off would put its lease off as well.
#[tokio::test]
async fn an_expiry_that_somebody_put_off_does_not_lengthen_a_lease() {
    let world = World::shared().await;
    let mut first = Attempt::fresh().with_lease(Duration::from_secs(30));
    first.acquire(&world.store).await;
    let name = world.name(first.key());
    let _: () = world.ask("EXPIRE", &[&name, "86400"]).await;
    let (_, left) = in_progress(first.rival().claim(&world.store).await);
    assert!(left <= Duration::from_secs(30), "{left:?}");
    assert!(world.left(first.key()).await <= LONG_MS);
}

/// Wherever the connection is cut, on the way there or back, the record has an expiry or there is
/// none, and the attempt that asks again goes on.
#[tokio::test]
async fn a_cut_at_any_byte_leaves_no_key_without_an_expiry() {
    let redis = Redis::start(&[]).await;
    let proxy = Proxy::start(redis.addr());
    let world = World::through(&proxy.url(&redis.url()), &redis, patient()).await;
    let store = &world.store;
    // How many bytes a claim and a completion take, and their answers.
    let (there, back) = (
        proxy.bytes(Direction::ToServer),
        proxy.bytes(Direction::ToClient),
    );
    let mut whole = Attempt::fresh();
    whole.acquire(store).await;
    let _ = whole.complete(store, &paid()).await;
    let there = proxy.bytes(Direction::ToServer) - there;
    let back = proxy.bytes(Direction::ToClient) - back;
    assert!(there > 300 && back > 10, "{there} bytes there, {back} back");

    let cuts = (0..there)
        .map(|bytes| (Direction::ToServer, bytes))
        .chain((0..back).map(|bytes| (Direction::ToClient, bytes)));
    for (direction, bytes) in cuts {
        proxy.cut_after(direction, bytes);
        let mut attempt = Attempt::fresh();
        let check =
            async || assert_ne!(world.left(attempt.key()).await, -1, "{direction:?} {bytes}");
        let mut claim = attempt.try_claim(store).await;
        check().await;
        // Cut again or not: sent again, it is ours.
        for _ in 0..5 {
            if claim.is_ok() {
                break;
            }
            claim = attempt.try_claim(store).await;
        }
        let Ok(Claim::Acquired { grant }) = claim else {
            panic!("{direction:?} {bytes}: {claim:?}");
        };
        attempt.grant = Some(grant);
        let check =
            async || assert_ne!(world.left(attempt.key()).await, -1, "{direction:?} {bytes}");
        let record = paid();
        let mut completion = store.complete(&attempt.as_lease(), &record, LONG).await;
        check().await;
        for _ in 0..5 {
            if completion.is_ok() {
                break;
            }
            completion = store.complete(&attempt.as_lease(), &record, LONG).await;
        }
        assert!(
            matches!(completion, Ok(Completion::Stored | Completion::Already)),
            "{direction:?} {bytes}: {completion:?}"
        );
        proxy.pass();
        assert_eq!(completed(attempt.rival().claim(store).await), record);
    }
}
