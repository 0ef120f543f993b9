//! The life of a record, on the store's clock.

use std::time::Duration;

use idem_tests::{Script, Setup, Step, StoreCall, World, scenarios};

scenarios![
    a_record_is_replayed_until_its_ttl_and_not_after,
    the_ttl_counts_from_completion,
    a_replay_does_not_extend_the_ttl,
    the_ttl_is_a_day_unless_somebody_says_otherwise,
    the_handlers_ttl_wins_over_the_engines,
    a_handler_that_outlives_the_ttl_keeps_its_key,
    a_released_key_is_bound_until_its_ttl,
    an_unknown_outcome_is_kept_for_a_week_though_the_ttl_is_short,
    the_longest_durations_work,
];

/// Of the route `/short`.
const SHORT: Duration = Duration::from_secs(2);

/// Lets a life pass but for its last moment.
async fn advance_up_to(world: &World, life: Duration) {
    world.advance(life.saturating_sub(world.moment())).await;
}

/// R7, B13-05
async fn a_record_is_replayed_until_its_ttl_and_not_after(world: World) {
    let script = Script::new("pay");
    let call = world.post("/short").key("k").script(&script);
    let first = call.clone().send().await;
    advance_up_to(&world, SHORT).await;
    call.clone().send().await.assert_replays(&first);
    let other = world.post("/short").key("k").script(&Script::new("other"));
    other.clone().send().await.assert_refused(409, "key-reused");

    world.advance(world.moment()).await;
    let new = other.clone().send().await;
    assert_eq!((new.status, new.replayed()), (201, false));
    call.send().await.assert_refused(409, "key-reused");
    other.send().await.assert_replays(&new);
    assert_eq!((world.app.runs("pay"), world.app.runs("other")), (1, 1));
}

/// R7
async fn the_ttl_counts_from_completion(world: World) {
    let script = Script::new("pay").step(Step::default().gate("pay"));
    let call = world.post("/short").key("k").script(&script);
    let first = tokio::spawn(call.clone().send());
    world.app.gate("pay").arrived(1).await;
    advance_up_to(&world, SHORT).await;
    world.app.gate("pay").open();
    let first = first.await.expect("no panic");

    advance_up_to(&world, SHORT).await;
    call.clone().send().await.assert_replays(&first);
    world.advance(world.moment()).await;
    let second = call.send().await;
    assert_eq!((second.status, second.replayed()), (201, false));
    assert_ne!(second.body, first.body);
    assert_eq!(world.app.runs("pay"), 2);
}

/// R7
async fn a_replay_does_not_extend_the_ttl(world: World) {
    let script = Script::new("pay");
    let call = world.post("/short").key("k").script(&script);
    let first = call.clone().send().await;
    for _ in 0..3 {
        world.advance(SHORT / 4).await;
        call.clone().send().await.assert_replays(&first);
    }
    world.advance(SHORT / 4).await;
    assert!(!call.send().await.replayed());
    assert_eq!(world.app.runs("pay"), 2);
}

/// R7
async fn the_ttl_is_a_day_unless_somebody_says_otherwise(world: World) {
    let minute = Duration::from_mins(1);
    for (setup, ttl) in [
        (Setup::default(), Duration::from_hours(24)),
        (
            Setup {
                ttl: Some(minute),
                ..Setup::default()
            },
            minute,
        ),
    ] {
        let world = world.again(setup).await;
        let call = world.post("/charge").key("k").script(&Script::new("pay"));
        let first = call.clone().send().await;
        advance_up_to(&world, ttl).await;
        call.clone().send().await.assert_replays(&first);
        world.advance(world.moment()).await;
        assert!(!call.send().await.replayed(), "{ttl:?}");
    }
}

/// R7
async fn the_handlers_ttl_wins_over_the_engines(world: World) {
    let world = world
        .again(Setup {
            ttl: Some(Duration::from_hours(48)),
            ..Setup::default()
        })
        .await;
    let call = world.post("/short").key("k").script(&Script::new("pay"));
    assert!(!call.clone().send().await.replayed());
    world.advance(SHORT).await;
    assert!(!call.send().await.replayed());
    assert_eq!(world.app.runs("pay"), 2);
}

/// B07-02: the lease is longer than the ttl.
async fn a_handler_that_outlives_the_ttl_keeps_its_key(world: World) {
    let script = Script::new("pay").step(Step::default().gate("pay"));
    let call = world.post("/short").key("k").script(&script);
    let first = tokio::spawn(call.clone().send());
    world.app.gate("pay").arrived(1).await;
    world.advance(Duration::from_secs(29)).await;
    call.clone().send().await.assert_refused(409, "in-progress");
    let other = world.post("/short").key("k").script(&Script::new("other"));
    other.send().await.assert_refused(409, "key-reused");

    world.app.gate("pay").open();
    let first = first.await.expect("no panic");
    call.send().await.assert_replays(&first);
    assert_eq!((world.app.runs("pay"), world.app.runs("other")), (1, 0));
}

/// R7
async fn a_released_key_is_bound_until_its_ttl(world: World) {
    let script = Script::new("pay").step(Step::status(503));
    let call = world.post("/charge").key("k").script(&script);
    assert_eq!(call.send().await.status, 503);
    let other = world.post("/charge").key("k").script(&Script::new("other"));
    advance_up_to(&world, Duration::from_hours(24)).await;
    let refused = other.clone().send().await;
    refused.assert_refused(409, "key-reused");
    assert_eq!(refused.json()["original_state"], "released");
    world.advance(world.moment()).await;
    assert_eq!(other.send().await.status, 201);
}

/// B06-01
async fn an_unknown_outcome_is_kept_for_a_week_though_the_ttl_is_short(world: World) {
    let script = Script::new("pay").step(Step::status(500).outcome("unknown"));
    let call = world.post("/short").key("k").script(&script);
    assert_eq!(call.clone().send().await.status, 500);
    advance_up_to(&world, Duration::from_hours(7 * 24)).await;
    call.clone()
        .send()
        .await
        .assert_refused(409, "outcome-unknown");
    world.advance(world.moment()).await;
    assert_eq!(call.send().await.status, 500);
    assert_eq!(world.app.runs("pay"), 2);
}

/// B07-02
async fn the_longest_durations_work(world: World) {
    let longest = Some(Duration::from_hours(36_500 * 24));
    let setup = Setup {
        ttl: longest,
        lease: longest,
        wait: longest,
        max_execution: longest,
        store_timeout: longest,
        ..Setup::default()
    };
    let world = world.again(setup).await;
    let script = Script::new("pay").step(Step::default().gate("pay"));
    let call = world.post("/charge").key("k").script(&script);
    let first = tokio::spawn(call.clone().send());
    world.app.gate("pay").arrived(1).await;
    let waiter = tokio::spawn(call.clone().send());
    world.store.until_under_way(StoreCall::Wait, 1).await;
    world.app.gate("pay").open();
    let first = first.await.expect("no panic");
    waiter.await.expect("no panic").assert_replays(&first);
    world.advance(Duration::from_hours(24 * 365)).await;
    call.send().await.assert_replays(&first);
    assert_eq!(world.app.effects("pay"), 1);
}
