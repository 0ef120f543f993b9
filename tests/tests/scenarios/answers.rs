//! What a client is told: the first answer, its replay, and each refusal.

use idem_tests::{Script, Step, World, scenarios};

scenarios![
    the_second_request_gets_the_first_answer,
    another_body_under_the_key_is_refused,
];

/// B10-01
async fn the_second_request_gets_the_first_answer(world: World) {
    let script = Script::new("pay");
    let first = world.post("/charge").key("k").script(&script).send().await;
    let second = world.post("/charge").key("k").script(&script).send().await;
    assert_eq!(first.status, 201);
    second.assert_replays(&first);
    assert_eq!(world.app.effects("pay"), 1);
    assert_eq!((world.counts().executed, world.counts().replayed), (1, 1));
}

/// B08-01
async fn another_body_under_the_key_is_refused(world: World) {
    let script = Script::new("pay").step(Step::status(200));
    let first = world
        .post("/charge")
        .key("k")
        .script(&script.clone().extra(200))
        .send()
        .await;
    let other = world
        .post("/charge")
        .key("k")
        .script(&script.clone().extra(500))
        .send()
        .await;
    other.assert_refused(409, "key-reused");
    assert_eq!(other.json()["original_state"], "completed");
    let again = world
        .post("/charge")
        .key("k")
        .script(&script.extra(200))
        .send()
        .await;
    again.assert_replays(&first);
    assert_eq!(world.app.effects("pay"), 1);
}
