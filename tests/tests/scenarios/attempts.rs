//! What a handler knows of its own attempt: number, fence, and keys for the next service.

use std::time::Duration;

use idem_tests::{
    Answer, Script, Step, World, scenarios,
    script::{Body, Seen},
};

scenarios![
    attempts_grow_and_share_their_downstream_key,
    another_operation_has_another_downstream_key,
    an_unprotected_request_is_a_first_attempt_of_its_own,
];

fn seen(answer: &Answer) -> Seen {
    serde_json::from_slice(&answer.body).expect("what a handler saw")
}

/// B01-04
async fn attempts_grow_and_share_their_downstream_key(world: World) {
    let script = Script::new("pay")
        .step(Step::status(503).body(Body::Seen))
        .then(Step::default().gate("late"))
        .then(Step::default().body(Body::Seen));
    let call = world.post("/charge").key("k").script(&script);
    let released = seen(&call.clone().send().await);
    let lapsed = tokio::spawn(call.clone().send());
    world.app.gate("late").arrived(1).await;
    world.advance(Duration::from_secs(31)).await;
    let third = call.send().await;
    let taken_over = seen(&third);

    assert_eq!((released.attempt, taken_over.attempt), (1, 3));
    assert!(released.fence > 0 && released.fence + 1 < taken_over.fence);
    assert_eq!(released.downstream, taken_over.downstream);
    world.app.gate("late").open();
    lapsed.await.expect("no panic").assert_replays(&third);
}

/// B01-04
async fn another_operation_has_another_downstream_key(world: World) {
    let step = Step::status(409).outcome("forget").body(Body::Seen);
    let script = Script::new("pay").step(step);
    let calls = [
        world.post("/charge").key("k").script(&script),
        world
            .post("/charge")
            .key("k")
            .script(&script.clone().extra(1)),
        world.post("/charge").key("l").script(&script),
        world.post("/refund").key("k").script(&script),
        world.post("/charge").key("k").user("bob").script(&script),
    ];
    let mut downstream = Vec::new();
    for call in calls {
        let seen = seen(&call.send().await);
        assert_eq!(seen.attempt, 1);
        downstream.push(seen.downstream);
    }
    assert_eq!(world.app.runs("pay"), 5);
    downstream.sort();
    downstream.dedup();
    assert_eq!(downstream.len(), 5);
}

/// B01-04
async fn an_unprotected_request_is_a_first_attempt_of_its_own(world: World) {
    let script = Script::new("pay").step(Step::default().body(Body::Seen));
    let call = world.post("/charge").script(&script);
    let (first, second) = (seen(&call.clone().send().await), seen(&call.send().await));
    for seen in [&first, &second] {
        assert_eq!((seen.attempt, seen.fence), (1, 0));
    }
    assert_ne!(first.downstream, second.downstream);
}
