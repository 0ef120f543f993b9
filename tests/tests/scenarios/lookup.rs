//! Support staff: looking a key up, and deciding about one that is stuck or unknown.

use std::time::Duration;

use idem_core::{
    Record,
    store::{Fence, Resolve, Resolved, State, Summary},
};
use idem_tests::{Script, Step, World, scenarios};

scenarios![
    a_look_up_tells_what_became_of_a_key,
    an_unknown_outcome_is_decided_and_replayed,
    a_stuck_key_is_freed_and_runs_again,
    a_resolved_live_owner_is_fenced,
    of_two_operators_the_second_is_told,
];

const OPERATION: &str = "POST /charge";

async fn found(world: &World) -> Summary {
    world.lookup(OPERATION, "k").await.expect("a record")
}

async fn resolve(world: &World, seen: Fence, how: Resolve) -> Resolved {
    world.resolve(OPERATION, "k", seen, how).await
}

/// B07-02
async fn a_look_up_tells_what_became_of_a_key(world: World) {
    assert_eq!(world.lookup(OPERATION, "k").await, None);
    let step = Step::default().gate("bank").reference("txn_789");
    let call = world
        .post("/charge")
        .key("k")
        .script(&Script::new("pay").step(step));
    let paying = tokio::spawn(call.clone().send());
    world.app.gate("bank").arrived(1).await;
    let running = found(&world).await;
    assert_eq!((running.state, running.status), (State::InProgress, None));
    assert_eq!(running.operation, OPERATION);
    assert!(
        running
            .lease_left
            .is_some_and(|left| left > Duration::from_secs(20))
    );

    world.app.gate("bank").open();
    paying.await.expect("no panic");
    let done = found(&world).await;
    assert_eq!((done.state, done.status), (State::Completed, Some(201)));
    assert_eq!((done.grant.attempt, done.grant), (1, running.grant));
    assert_eq!(done.reference.as_deref(), Some("txn_789"));
    assert!(done.completed.is_some_and(|at| at >= done.created));
    assert!(done.expires_in > Duration::from_hours(23));

    world.advance(Duration::from_hours(24)).await;
    assert_eq!(world.lookup(OPERATION, "k").await, None);
}

/// B07-02
async fn an_unknown_outcome_is_decided_and_replayed(world: World) {
    let script = Script::new("pay").step(Step::status(502).outcome("unknown"));
    let call = world.post("/charge").key("k").script(&script);
    call.clone().send().await;
    call.clone()
        .send()
        .await
        .assert_refused(409, "outcome-unknown");

    let seen = found(&world).await;
    assert_eq!((seen.state, seen.status), (State::Unknown, None));
    let record = Record::new(201, "paid by hand").with_header("content-type", "text/plain");
    let ttl = Duration::from_hours(24);
    let decided = resolve(&world, seen.grant.fence, Resolve::Complete { record, ttl }).await;
    assert_eq!(decided, Resolved::Done);

    let answer = call.send().await;
    assert_eq!((answer.status, answer.replayed()), (201, true));
    assert_eq!(answer.body, "paid by hand");
    assert_eq!(world.app.runs("pay"), 1);
}

/// B07-02
async fn a_stuck_key_is_freed_and_runs_again(world: World) {
    let script = Script::new("pay")
        .step(Step::default().gate("stuck"))
        .then(Step::default());
    let call = world.post("/charge").key("k").script(&script);
    let stuck = tokio::spawn(call.clone().send());
    world.app.gate("stuck").arrived(1).await;
    call.clone().send().await.assert_refused(409, "in-progress");

    let seen = found(&world).await.grant.fence;
    assert_eq!(
        resolve(&world, seen, Resolve::Release).await,
        Resolved::Done
    );
    let second = call.clone().send().await;
    assert_eq!((second.status, second.replayed()), (201, false));

    // The owner that was stuck gives the answer that counts, which is not its own.
    world.app.gate("stuck").open();
    let late = stuck.await.expect("no panic");
    late.assert_replays(&second);
    assert_eq!(world.counts().leases_lost, 1);
}

/// B07-02
async fn a_resolved_live_owner_is_fenced(world: World) {
    let script = Script::new("pay").step(Step::default().gate("slow"));
    let call = world.post("/charge").key("k").script(&script);
    let owner = tokio::spawn(call.clone().send());
    world.app.gate("slow").arrived(1).await;

    let seen = found(&world).await.grant.fence;
    let record = Record::new(200, "settled by hand");
    let ttl = Duration::from_hours(24);
    let decided = resolve(&world, seen, Resolve::Complete { record, ttl }).await;
    assert_eq!(decided, Resolved::Done);
    world.app.gate("slow").open();

    let late = owner.await.expect("no panic");
    assert_eq!((late.status, late.replayed()), (200, true));
    assert_eq!(late.body, "settled by hand");
    assert_eq!(call.send().await.body, "settled by hand");
}

/// B07-02
async fn of_two_operators_the_second_is_told(world: World) {
    let script = Script::new("pay").step(Step::status(502).outcome("unknown"));
    let call = world.post("/charge").key("k").script(&script);
    call.send().await;
    let seen = found(&world).await.grant.fence;
    assert_eq!(
        resolve(&world, seen, Resolve::Release).await,
        Resolved::Done
    );

    let fence = found(&world).await.grant.fence;
    assert!(fence > seen);
    let late = resolve(&world, seen, Resolve::Forget).await;
    assert_eq!(late, Resolved::Stale { fence });
    let gone = world
        .resolve(OPERATION, "other", seen, Resolve::Forget)
        .await;
    assert_eq!(gone, Resolved::Gone);
}
