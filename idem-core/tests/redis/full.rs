//! A server that has no memory left.

use idem_core::{
    StoreError,
    store::{Completion, Release, Released, Renewal},
};
use idem_services::Redis;

use crate::{
    attempt::{Attempt, completed, in_progress, paid},
    world::World,
};

#[tokio::test]
async fn a_full_server_refuses_new_keys_and_goes_on_with_known_ones() {
    let redis = Redis::start(&[]).await;
    let world = World::on(&redis).await;
    let store = &world.store;
    let (mut running, mut released, mut done) =
        (Attempt::fresh(), Attempt::fresh(), Attempt::fresh());
    let granted = running.acquire(store).await;
    released.acquire(store).await;
    done.acquire(store).await;
    let _ = done.complete(store, &paid()).await;
    let _: () = world.ask("CONFIG SET maxmemory 1", &[]).await;

    let fresh = Attempt::fresh();
    let refused = fresh.try_claim(store).await;
    assert!(
        matches!(refused, Err(StoreError::Full { .. })),
        "{refused:?}"
    );
    assert_eq!(world.value(fresh.key()).await, None);

    assert_eq!(completed(done.rival().claim(store).await), paid());
    assert_eq!(in_progress(running.rival().claim(store).await).0, granted);
    // The reply of its claim was lost, and it asks again.
    assert_eq!(running.acquire(store).await, granted);
    assert!(matches!(
        running.renew(store).await,
        Renewal::Renewed { .. }
    ));
    assert_eq!(
        released.release(store, Release::Bound).await,
        Released::Done
    );
    // To take it over would be a write that can wait.
    let before = world.value(released.key()).await;
    let refused = released.rival().try_claim(store).await;
    assert!(
        matches!(refused, Err(StoreError::Full { .. })),
        "{refused:?}"
    );
    assert_eq!(world.value(released.key()).await, before);
    assert_eq!(running.complete(store, &paid()).await, Completion::Stored);
    assert_eq!(completed(running.rival().claim(store).await), paid());
    let vanished = Attempt::fresh();
    assert_eq!(
        vanished.complete(store, &paid()).await,
        Completion::Restored
    );
}
