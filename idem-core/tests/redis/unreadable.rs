//! Values that this build cannot read, in the place of a record: they are never new, never touched,
//! and never taken for an outage of the server.

use std::error::Error;

use idem_core::{
    Store, StoreError, Unreadable,
    store::{Claim, Fence, Release, Renewal, Resolve},
};

use crate::{
    attempt::{Attempt, LONG, completed, paid},
    world::World,
};

/// Asks that nobody reads the value, and nobody replaces it.
async fn stays(world: &World, attempt: &Attempt, value: &[u8], expected: Unreadable) {
    let store = &world.store;
    let said = |error: StoreError| {
        let source = error.source().expect("a cause").to_string();
        assert_eq!(source, expected.to_string());
    };
    world.put(attempt.key(), value).await;
    for claim in [attempt.clone(), attempt.rival(), attempt.stranger()] {
        let claim = claim.claim(store).await;
        assert_eq!(claim, Claim::Unreadable(expected));
    }
    let lease = attempt.as_lease();
    said(store.renew(&[lease]).await.expect_err("it is not ours"));
    let completion = store.complete(&lease, &paid(), LONG).await;
    said(completion.expect_err("it cannot be completed"));
    for how in [
        Release::Bound,
        Release::Forget,
        Release::Undo,
        Release::Unknown { keep: LONG },
    ] {
        let released = store.release(&lease, how).await;
        said(released.expect_err("it cannot be released"));
    }
    for how in [Resolve::Forget, Resolve::Release] {
        let resolved = store.resolve(attempt.key(), Fence::new(1), how).await;
        said(resolved.expect_err("it cannot be resolved"));
    }
    said(
        store
            .inspect(attempt.key())
            .await
            .expect_err("nobody knows"),
    );
    let soon = tokio::time::Instant::now();
    store.changed(attempt.key(), soon).await.expect("it looks");
    let left = world.value(attempt.key()).await;
    assert_eq!(left.as_deref(), Some(value));
}

async fn acquired(world: &World) -> (Attempt, Vec<u8>) {
    let mut attempt = Attempt::fresh();
    attempt.acquire(&world.store).await;
    let value = world.value(attempt.key()).await.expect("a record");
    (attempt, value)
}

fn with(value: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut value = value.to_vec();
    value[at..at + bytes.len()].copy_from_slice(bytes);
    value
}

#[tokio::test]
async fn a_record_of_another_version_is_left_alone() {
    let world = World::shared().await;
    let (attempt, value) = acquired(&world).await;
    for version in [0, 2, 255] {
        let newer = with(&value, 0, &[version]);
        stays(&world, &attempt, &newer, Unreadable::Version(version)).await;
    }
    // A newer one may be as short as it likes.
    stays(&world, &attempt, &[2], Unreadable::Version(2)).await;
}

#[tokio::test]
async fn a_record_that_ends_too_early_is_left_alone() {
    let world = World::shared().await;
    let (attempt, value) = acquired(&world).await;
    for end in [0, 1, 2, 30, 52, 53, 54, 85, value.len() - 1] {
        stays(&world, &attempt, &value[..end], Unreadable::Truncated).await;
    }
    for (at, length) in [(50, &[255][..]), (51, &[2, 0])] {
        let longer = with(&value, at, length);
        stays(&world, &attempt, &longer, Unreadable::Truncated).await;
    }
}

#[tokio::test]
async fn an_impossible_record_is_left_alone() {
    let world = World::shared().await;
    let (attempt, value) = acquired(&world).await;
    let state = with(&value, 1, &[9]);
    stays(&world, &attempt, &state, Unreadable::State(9)).await;
    let huge = &[0xff; 8];
    for number in [
        with(&value, 18, huge),
        with(&value, 34, huge),
        with(&value, 42, huge),
    ] {
        stays(&world, &attempt, &number, Unreadable::Number).await;
    }
    let meta = with(&value, 51, &[0xff, 0xff]);
    stays(&world, &attempt, &meta, Unreadable::Number).await;
}

/// What cannot be read does not become readable when the server is asked another way.
#[tokio::test]
async fn the_response_of_a_readable_record_may_be_unreadable() {
    let world = World::shared().await;
    let (attempt, _) = acquired(&world).await;
    let _ = attempt.complete(&world.store, &paid()).await;
    let whole = world.value(attempt.key()).await.expect("a record");
    let response_at = whole.len() - paid().encode().expect("it can be written").len();

    world
        .put(attempt.key(), &with(&whole, response_at, &[7]))
        .await;
    let claim = attempt.rival().claim(&world.store).await;
    assert_eq!(claim, Claim::Unreadable(Unreadable::Version(7)));
    let summary = world.store.inspect(attempt.key()).await;
    let summary = summary.expect("it answers").expect("a record");
    assert_eq!(
        (summary.status, summary.operation.as_str()),
        (None, "POST /payments")
    );

    world.put(attempt.key(), &whole[..response_at + 3]).await;
    let claim = attempt.rival().claim(&world.store).await;
    assert_eq!(claim, Claim::Unreadable(Unreadable::Truncated));
    world.put(attempt.key(), &whole).await;
    assert_eq!(completed(attempt.rival().claim(&world.store).await), paid());
}

/// One value that cannot be read must not cost the leases of the others.
#[tokio::test]
async fn the_others_are_renewed() {
    let world = World::shared().await;
    let ((bad, value), (good, _)) = (acquired(&world).await, acquired(&world).await);
    world.put(bad.key(), &with(&value, 0, &[2])).await;
    let leases = [good.as_lease(), bad.as_lease(), good.as_lease()];
    let renewals = world.store.renew(&leases).await.expect("it answers");
    assert!(
        matches!(
            renewals[..],
            [
                Renewal::Renewed { .. },
                Renewal::Superseded,
                Renewal::Renewed { .. }
            ]
        ),
        "{renewals:?}"
    );
}

/// A key that holds something else altogether.
#[tokio::test]
async fn what_is_no_string_is_not_replaced() {
    let world = World::shared().await;
    let attempt = Attempt::fresh();
    let name = world.name(attempt.key());
    let _: () = world.ask("RPUSH", &[&name, "a"]).await;
    let claim = attempt.try_claim(&world.store).await;
    assert!(
        matches!(claim, Err(StoreError::Unavailable { .. })),
        "{claim:?}"
    );
    assert_eq!(
        world
            .ask::<Vec<String>>("LRANGE", &[&name, "0", "-1"])
            .await,
        ["a"]
    );
    let _: () = world.ask("DEL", &[&name]).await;
}
