//! Draining an engine: nothing new begins, and nothing that runs is given up.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt;
use idem_core::Drained;
use idem_tests::{Answer, Call, Connection, Script, Setup, Step, StoreCall, World, scenarios};
use tokio::task::JoinHandle;

scenarios![
    a_drained_engine_refuses_keyed_requests_and_replays,
    a_drain_waits_for_all_handlers,
    a_drain_waits_for_a_claim_on_its_way,
    a_drain_waits_for_an_outcome_that_is_stored_late,
    a_drain_ends_a_handler_without_client_and_its_key_lapses,
    a_drain_leaves_a_handler_with_a_client_alone,
    a_handler_that_was_ended_is_not_renewed,
    waiters_leave_at_a_drain,
    a_replica_goes_on_while_another_drains,
];

/// Longer than any handler of a scenario takes.
const PATIENT: Duration = Duration::from_secs(20);
/// Longer than the default lease.
const PAST_THE_LEASE: Duration = Duration::from_secs(31);

fn call(world: &World, key: &str, step: Step) -> Call {
    let script = Script::new(key).step(step);
    world.post("/charge").key(key).script(&script)
}

/// A handler that stands at the gate named as its key.
async fn running(world: &World, key: &str) -> (Call, JoinHandle<Answer>) {
    let call = call(world, key, Step::default().gate(key));
    let answer = tokio::spawn(call.clone().send());
    world.app.gate(key).arrived(1).await;
    (call, answer)
}

/// The same, and its client can leave.
async fn running_for(world: &World, key: &str) -> (Call, Connection) {
    let call = call(world, key, Step::default().gate(key));
    let mut connection = world.connect().await;
    connection.send(&call).await;
    world.app.gate(key).arrived(1).await;
    (call, connection)
}

/// Leaves; the handler goes on.
async fn leave(world: &World, connection: Connection) {
    let before = world.counts().detached;
    drop(connection);
    world.until(|counts| counts.detached == before + 1).await;
}

/// Closes the engine and lets it drain beside the scenario.
fn draining(world: &Arc<World>) -> JoinHandle<Drained> {
    let mut drain = Box::pin({
        let world = Arc::clone(world);
        async move { world.drain(PATIENT).await }
    });
    // It closes with its first step.
    assert!((&mut drain).now_or_never().is_none(), "nothing runs");
    tokio::spawn(drain)
}

/// B03-02
async fn a_drained_engine_refuses_keyed_requests_and_replays(world: World) {
    let done = call(&world, "done", Step::default());
    assert_eq!(done.clone().send().await.status, 201);
    let drained = world.drain(Duration::ZERO).await;
    assert_eq!((drained.finished, drained.left), (0, 0));

    for call in [done, call(&world, "new", Step::default())] {
        call.send().await.assert_refused(503, "shutting-down");
    }
    assert_eq!((world.app.runs("done"), world.app.runs("new")), (1, 0));
    let unkeyed = world
        .post("/charge")
        .script(&Script::new("unkeyed"))
        .send()
        .await;
    assert_eq!((unkeyed.status, world.app.runs("unkeyed")), (201, 1));
    assert_eq!(world.drain(PATIENT).await.left, 0);
}

/// B03-02
async fn a_drain_waits_for_all_handlers(world: World) {
    let world = Arc::new(world);
    let beside = world.beside(Setup::default()).await;
    let (_, with_client) = running(&world, "with-client").await;
    let (_, left) = running_for(&world, "left").await;
    let (_, leaves) = running_for(&world, "leaves").await;
    leave(&world, left).await;

    let drain = draining(&world);
    let new = call(&world, "new", Step::default()).send().await;
    new.assert_refused(503, "shutting-down");
    leave(&world, leaves).await;
    for (key, executed) in [("with-client", 1), ("left", 2), ("leaves", 3)] {
        assert!(!drain.is_finished());
        world.app.gate(key).open();
        world.until(|counts| counts.executed == executed).await;
    }
    let drained = drain.await.expect("no panic");
    assert_eq!((drained.finished, drained.left), (3, 0));

    assert_eq!(with_client.await.expect("no panic").status, 201);
    for key in ["with-client", "left", "leaves"] {
        let retry = call(&beside, key, Step::default().gate(key)).send().await;
        assert_eq!((retry.status, retry.replayed()), (201, true));
        assert_eq!(world.app.effects(key), 1);
    }
}

/// B03-02
async fn a_drain_waits_for_a_claim_on_its_way(world: World) {
    let setup = Setup {
        store_timeout: Some(Duration::from_mins(3)),
        ..Setup::default()
    };
    let world = Arc::new(world.again(setup).await);
    world.store.hold(StoreCall::Claim);
    let request = tokio::spawn(call(&world, "k", Step::default()).send());
    world.store.until_under_way(StoreCall::Claim, 1).await;

    let drain = draining(&world);
    assert!(!drain.is_finished());
    world.store.pass(StoreCall::Claim);
    assert_eq!(request.await.expect("no panic").status, 201);
    assert_eq!(drain.await.expect("no panic").left, 0);
    assert_eq!(world.app.effects("k"), 1);
}

/// B03-02, B06-04
async fn a_drain_waits_for_an_outcome_that_is_stored_late(world: World) {
    let world = Arc::new(world);
    let beside = world.beside(Setup::default()).await;
    world.store.hold(StoreCall::Complete);
    let first = call(&world, "k", Step::default()).send().await;
    assert_eq!(first.status, 201);

    let drain = draining(&world);
    assert!(!drain.is_finished());
    world.store.pass(StoreCall::Complete);
    let drained = drain.await.expect("no panic");
    assert_eq!((drained.finished, drained.left), (1, 0));
    let retry = call(&beside, "k", Step::default()).send().await;
    retry.assert_replays(&first);
}

/// B03-02, B07-05
async fn a_drain_ends_a_handler_without_client_and_its_key_lapses(world: World) {
    let beside = world.beside(Setup::default()).await;
    let (call, connection) = running_for(&world, "k").await;
    leave(&world, connection).await;
    let drained = world.drain(Duration::from_millis(20)).await;
    assert_eq!((drained.finished, drained.left), (0, 1));
    // It ends as soon as it is told to.
    assert_eq!(world.drain(PATIENT).await.left, 0);

    world.app.gate("k").open();
    assert_eq!((world.app.runs("k"), world.app.effects("k")), (1, 0));
    // It may have had an effect: nothing of it is given up.
    assert_eq!(world.store.done(StoreCall::Release), 0);
    call.clone()
        .send()
        .await
        .assert_refused(503, "shutting-down");
    let retry = self::call(&beside, "k", Step::default().gate("k"));
    retry
        .clone()
        .send()
        .await
        .assert_refused(409, "in-progress");

    world.advance(PAST_THE_LEASE).await;
    let second = retry.send().await;
    assert_eq!((second.status, second.replayed()), (201, false));
    assert_eq!((beside.counts().takeovers, world.app.effects("k")), (1, 1));
}

/// B03-02
async fn a_drain_leaves_a_handler_with_a_client_alone(world: World) {
    let beside = world.beside(Setup::default()).await;
    let (_, answer) = running(&world, "k").await;
    let drained = world.drain(Duration::from_millis(20)).await;
    assert_eq!((drained.finished, drained.left), (0, 1));

    world.app.gate("k").open();
    let first = answer.await.expect("no panic");
    assert_eq!((first.status, first.replayed()), (201, false));
    assert_eq!(world.drain(PATIENT).await.left, 0);
    let retry = call(&beside, "k", Step::default().gate("k")).send().await;
    retry.assert_replays(&first);
    assert_eq!(world.app.effects("k"), 1);
}

/// B03-02, B07-05
async fn a_handler_that_was_ended_is_not_renewed(world: World) {
    let lease = world.short_lease();
    let setup = Setup {
        lease: Some(lease),
        ..Setup::default()
    };
    let world = world.again(setup.clone()).await;
    let beside = world.beside(setup).await;
    let (_, answer) = running(&world, "goes-on").await;
    let (_, connection) = running_for(&world, "ended").await;
    leave(&world, connection).await;
    assert_eq!(world.drain(Duration::ZERO).await.left, 2);

    for _ in 0..2 {
        // The one that goes on is renewed; the other one would be with it.
        let renewals = world.store.done(StoreCall::Renew);
        world.store.until_done(StoreCall::Renew, renewals + 2).await;
        world.advance(world.most_of(lease)).await;
    }
    let goes_on = call(&beside, "goes-on", Step::default().gate("goes-on"));
    goes_on
        .clone()
        .send()
        .await
        .assert_refused(409, "in-progress");
    world.app.gate("ended").open();
    let second = call(&beside, "ended", Step::default().gate("ended"))
        .send()
        .await;
    assert_eq!((second.status, beside.counts().takeovers), (201, 1));

    world.app.gate("goes-on").open();
    let first = answer.await.expect("no panic");
    goes_on.send().await.assert_replays(&first);
}

/// B03-02, B13-04
async fn waiters_leave_at_a_drain(world: World) {
    let setup = Setup {
        wait: Some(Duration::from_hours(1)),
        ..Setup::default()
    };
    let world = Arc::new(world.again(setup).await);
    let (call, first) = running(&world, "k").await;
    let waiters: Vec<_> = (0..3).map(|_| tokio::spawn(call.clone().send())).collect();
    world.store.until_under_way(StoreCall::Wait, 3).await;

    let drain = draining(&world);
    for waiter in waiters {
        let answer = waiter.await.expect("no panic");
        answer.assert_refused(503, "shutting-down");
    }
    world.app.gate("k").open();
    assert_eq!(first.await.expect("no panic").status, 201);
    let drained = drain.await.expect("no panic");
    assert_eq!((drained.finished, drained.left), (1, 0));
}

/// B03-02
async fn a_replica_goes_on_while_another_drains(world: World) {
    let beside = world.beside(Setup::default()).await;
    let (_, answer) = running(&world, "k").await;
    assert_eq!(world.drain(Duration::ZERO).await.left, 1);
    let retry = call(&beside, "k", Step::default().gate("k"));
    retry
        .clone()
        .send()
        .await
        .assert_refused(409, "in-progress");
    let other = call(&beside, "other", Step::default()).send().await;
    assert_eq!((other.status, other.replayed()), (201, false));

    world.app.gate("k").open();
    let first = answer.await.expect("no panic");
    retry.send().await.assert_replays(&first);
}
