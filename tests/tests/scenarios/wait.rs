//! Waiting for the request that runs, instead of being refused.

use std::time::{Duration, Instant};

use idem_tests::{
    Answer, Call, Protocol, Script, Setup, Step, StoreCall, World, scenarios,
    script::{Body, Crash},
};
use tokio::task::JoinHandle;

scenarios![
    waiters_get_the_answer_as_soon_as_it_is_there,
    waiters_at_another_replica_get_the_answer_too,
    no_more_than_sixteen_wait_for_a_key,
    those_who_wait_in_all_are_bounded,
    a_waiter_that_leaves_makes_room,
    a_waiter_that_runs_makes_room,
    after_a_release_one_waiter_runs_and_the_others_wait_for_it,
    after_a_panic_one_waiter_runs_and_the_others_wait_for_it,
    after_the_key_is_forgotten_one_waiter_runs_and_the_others_wait_for_it,
    after_a_lapse_one_waiter_runs_and_the_others_wait_for_it,
    a_waiter_is_refused_at_its_deadline,
    the_handlers_wait_wins_over_the_engines,
    another_request_is_refused_without_waiting,
    waiters_are_told_that_the_answer_was_not_kept,
    waiters_are_told_that_the_outcome_is_unknown,
    waiters_for_a_key_that_must_not_run_again_are_told_so,
    a_waiter_goes_on_when_the_record_cannot_be_watched,
];

/// Longer than any client of a scenario waits: who is answered was woken, or did not wait.
const LONG: Duration = Duration::from_hours(1);

async fn waiting(world: &World) -> World {
    let setup = Setup {
        wait: Some(LONG),
        ..Setup::default()
    };
    world.again(setup).await
}

/// A first request that stands at the gate `first`.
async fn first(world: &World, call: &Call) -> JoinHandle<Answer> {
    let first = tokio::spawn(call.clone().send());
    world.app.gate("first").arrived(1).await;
    first
}

/// Sends requests and returns when all of them wait, beside those that did already.
async fn waiters(world: &World, call: &Call, number: usize) -> Vec<JoinHandle<Answer>> {
    let before = world.store.under_way(StoreCall::Wait);
    let requests = (0..number)
        .map(|_| tokio::spawn(call.clone().send()))
        .collect();
    let all = before + number;
    world.store.until_under_way(StoreCall::Wait, all).await;
    requests
}

async fn answers(requests: Vec<JoinHandle<Answer>>) -> Vec<Answer> {
    let mut answers = Vec::new();
    for request in requests {
        answers.push(request.await.expect("no panic"));
    }
    answers
}

fn gated() -> Step {
    Step::default().gate("first")
}

/// B13-04, P-23
async fn waiters_get_the_answer_as_soon_as_it_is_there(world: World) {
    let world = waiting(&world).await;
    let script = Script::new("pay").step(gated());
    let call = world.post("/charge").key("k").script(&script);
    let first = first(&world, &call).await;
    let waiters = waiters(&world, &call, 16).await;

    world.app.gate("first").open();
    let first = first.await.expect("no panic");
    assert_eq!((first.status, first.replayed()), (201, false));
    for answer in answers(waiters).await {
        answer.assert_replays(&first);
    }
    assert_eq!(world.app.runs("pay"), 1);
    // Nobody polled: each waiter claimed when it came and when it was woken.
    assert_eq!(world.store.done(StoreCall::Claim), 1 + 2 * 16);
    assert_eq!(world.store.under_way(StoreCall::Wait), 0);
}

/// B13-04
async fn waiters_at_another_replica_get_the_answer_too(world: World) {
    let world = waiting(&world).await;
    let setup = Setup {
        wait: Some(LONG),
        ..Setup::default()
    };
    let beside = world.beside(setup).await;
    let script = Script::new("pay").step(gated());
    let first = first(&world, &world.post("/charge").key("k").script(&script)).await;
    let call = beside.post("/charge").key("k").script(&script);
    let waiters = waiters(&beside, &call, 16).await;

    world.app.gate("first").open();
    let first = first.await.expect("no panic");
    for answer in answers(waiters).await {
        answer.assert_replays(&first);
    }
    assert_eq!(world.app.runs("pay"), 1);
}

/// B13-04
async fn no_more_than_sixteen_wait_for_a_key(world: World) {
    let world = waiting(&world).await;
    let script = Script::new("pay").step(gated());
    let call = world.post("/charge").key("k").script(&script);
    let first = first(&world, &call).await;

    let mut duplicates = tokio::task::JoinSet::new();
    for _ in 0..200 {
        duplicates.spawn(call.clone().send());
    }
    for _ in 0..200 - 16 {
        let refused = duplicates
            .join_next()
            .await
            .expect("all but 16 are refused");
        refused
            .expect("no panic")
            .assert_refused(409, "in-progress");
    }
    world.store.until_under_way(StoreCall::Wait, 16).await;

    world.app.gate("first").open();
    let first = first.await.expect("no panic");
    while let Some(answer) = duplicates.join_next().await {
        answer.expect("no panic").assert_replays(&first);
    }
    assert_eq!(world.app.runs("pay"), 1);
}

/// B13-04
async fn those_who_wait_in_all_are_bounded(world: World) {
    let world = world
        .again(Setup {
            wait: Some(LONG),
            max_waiters: Some((2, 3)),
            ..Setup::default()
        })
        .await;
    let script = Script::new("pay").step(gated());
    let call = |key: &str| world.post("/charge").key(key).script(&script);
    let firsts = [call("k"), call("l")].map(|call| tokio::spawn(call.send()));
    world.app.gate("first").arrived(2).await;

    let mut requests = waiters(&world, &call("k"), 2).await;
    call("k").send().await.assert_refused(409, "in-progress");
    requests.extend(waiters(&world, &call("l"), 1).await);
    call("l").send().await.assert_refused(409, "in-progress");

    world.app.gate("first").open();
    for answer in answers(requests).await {
        assert!(answer.replayed());
    }
    answers(firsts.into()).await;
    assert_eq!(world.app.runs("pay"), 2);
}

/// B13-04
async fn a_waiter_that_leaves_makes_room(world: World) {
    let world = waiting(&world).await;
    let script = Script::new("pay").step(gated());
    let call = world.post("/charge").key("k").script(&script);
    let first = first(&world, &call).await;
    // Over HTTP/2 not every framework notices that a client has cancelled its request.
    let leaves = call.clone().over(Protocol::Http1);
    let mut requests = waiters(&world, &leaves, 16).await;
    for _ in 0..3 {
        for request in requests.drain(..8) {
            request.abort();
        }
        // The first one, and those that still wait.
        world.app.until_requests(1 + 8).await;
        assert_eq!(world.store.under_way(StoreCall::Wait), 8);
        requests.extend(waiters(&world, &leaves, 8).await);
        call.clone().send().await.assert_refused(409, "in-progress");
    }

    world.app.gate("first").open();
    let first = first.await.expect("no panic");
    for answer in answers(requests).await {
        answer.assert_replays(&first);
    }
    assert_eq!(world.app.runs("pay"), 1);
    assert_eq!(world.counts().detached, 0);
}

/// B13-04
async fn a_waiter_that_runs_makes_room(world: World) {
    let world = world
        .again(Setup {
            wait: Some(LONG),
            max_waiters: Some((1, 1)),
            ..Setup::default()
        })
        .await;
    let script = Script::new("pay")
        .step(Step::status(503).gate("first"))
        .then(Step::default().gate("second"));
    let call = world.post("/charge").key("k").script(&script);
    let first = first(&world, &call).await;
    let second = waiters(&world, &call, 1).await;
    call.clone().send().await.assert_refused(409, "in-progress");

    world.app.gate("first").open();
    assert_eq!(first.await.expect("no panic").status, 503);
    world.app.gate("second").arrived(1).await;
    let third = waiters(&world, &call, 1).await;
    call.clone().send().await.assert_refused(409, "in-progress");

    world.app.gate("second").open();
    let second = answers(second).await.remove(0);
    answers(third).await[0].assert_replays(&second);
    assert_eq!(world.app.runs("pay"), 2);
}

/// Lets sixteen wait for a first request that leaves no answer; exactly one of them runs then.
async fn one_of_sixteen_runs(world: &World, first_step: Step, end: impl AsyncFnOnce(&World)) {
    let second = Step::default().gate("second");
    let script = Script::new("pay")
        .step(first_step.gate("first"))
        .then(second);
    let call = world.post("/charge").key("k").script(&script);
    let first = first(world, &call).await;
    let requests = waiters(world, &call, 16).await;

    end(world).await;
    world.app.gate("second").arrived(1).await;
    world.store.until_under_way(StoreCall::Wait, 15).await;
    assert_eq!(world.app.runs("pay"), 2);

    world.app.gate("second").open();
    let answers = answers(requests).await;
    let (own, others): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| !answer.replayed());
    assert_eq!((own.len(), others.len()), (1, 15));
    assert_eq!(own[0].status, 201);
    for other in others {
        other.assert_replays(own[0]);
    }
    world.app.gate("first").open();
    first.await.expect("no panic");
    assert_eq!(world.app.runs("pay"), 2);
}

async fn open(world: &World) {
    world.app.gate("first").open();
}

/// B13-04
async fn after_a_release_one_waiter_runs_and_the_others_wait_for_it(world: World) {
    let world = waiting(&world).await;
    one_of_sixteen_runs(&world, Step::status(503), open).await;
}

/// B13-04, P-12
async fn after_a_panic_one_waiter_runs_and_the_others_wait_for_it(world: World) {
    let setup = Setup {
        wait: Some(LONG),
        catch_panic: true,
        ..Setup::default()
    };
    let world = world.again(setup).await;
    one_of_sixteen_runs(&world, Step::crash(Crash::AfterEffect), open).await;
}

/// B13-04
async fn after_the_key_is_forgotten_one_waiter_runs_and_the_others_wait_for_it(world: World) {
    let world = waiting(&world).await;
    one_of_sixteen_runs(&world, Step::status(409).outcome("forget"), open).await;
}

/// B13-04
async fn after_a_lapse_one_waiter_runs_and_the_others_wait_for_it(world: World) {
    let lease = world.short_lease();
    let world = world
        .again(Setup {
            wait: Some(LONG),
            lease: Some(lease),
            // As if the owner were dead: it does not renew.
            max_execution: Some(Duration::from_millis(1)),
            ..Setup::default()
        })
        .await;
    let lapse = async |world: &World| world.advance(lease).await;
    one_of_sixteen_runs(&world, Step::default(), lapse).await;
}

/// Sends a request that waits in vain; gives how long it did.
async fn in_vain(call: Call) -> Duration {
    let began = Instant::now();
    call.send().await.assert_refused(409, "in-progress");
    began.elapsed()
}

/// B13-04
async fn a_waiter_is_refused_at_its_deadline(world: World) {
    let wait = Duration::from_millis(200);
    let world = world
        .again(Setup {
            wait: Some(wait),
            ..Setup::default()
        })
        .await;
    let script = Script::new("pay").step(gated());
    let call = world.post("/charge").key("k").script(&script);
    let first = first(&world, &call).await;
    let waited = in_vain(call).await;
    // The lease, which ends every wait, lasts for 30 s.
    assert!(waited >= wait && waited < wait * 20, "{waited:?}");
    assert_eq!(world.store.under_way(StoreCall::Wait), 0);
    world.app.gate("first").open();
    assert_eq!(first.await.expect("no panic").status, 201);
}

/// B13-04
async fn the_handlers_wait_wins_over_the_engines(world: World) {
    let world = waiting(&world).await;
    let script = Script::new("pay").step(gated());
    let call = world.post("/wait-briefly").key("k").script(&script);
    let first = first(&world, &call).await;
    let waited = in_vain(call).await;
    assert!(waited >= Duration::from_millis(300), "{waited:?}");
    world.app.gate("first").open();
    assert_eq!(first.await.expect("no panic").status, 201);
}

/// B13-04
async fn another_request_is_refused_without_waiting(world: World) {
    let world = waiting(&world).await;
    let script = Script::new("pay").step(gated());
    let call = world.post("/charge").key("k").script(&script);
    let first = first(&world, &call).await;
    let waiters = waiters(&world, &call, 1).await;

    let other = world
        .post("/charge")
        .key("k")
        .script(&script.extra(1))
        .send()
        .await;
    other.assert_refused(409, "key-reused");
    assert_eq!(other.json()["original_state"], "in_progress");
    assert_eq!(world.store.under_way(StoreCall::Wait), 1);

    world.app.gate("first").open();
    let first = first.await.expect("no panic");
    answers(waiters).await[0].assert_replays(&first);
    assert_eq!(world.app.runs("pay"), 1);
}

/// B13-04
async fn waiters_are_told_that_the_answer_was_not_kept(world: World) {
    let world = waiting(&world).await;
    let large = Body::Large(300 * 1024);
    let script = Script::new("pay").step(gated().body(large));
    let call = world.post("/charge").key("k").script(&script);
    let first = first(&world, &call).await;
    let waiters = waiters(&world, &call, 2).await;
    world.app.gate("first").open();
    for answer in answers(waiters).await {
        answer.assert_refused(409, "response-unavailable");
    }
    assert_eq!(first.await.expect("no panic").body.len(), 300 * 1024);
    assert_eq!(world.app.runs("pay"), 1);
}

/// B13-04
async fn waiters_are_told_that_the_outcome_is_unknown(world: World) {
    let world = waiting(&world).await;
    let unknown = Step::status(500).outcome("unknown");
    let script = Script::new("pay").step(unknown.gate("first"));
    let call = world.post("/charge").key("k").script(&script);
    let first = first(&world, &call).await;
    let waiters = waiters(&world, &call, 2).await;
    world.app.gate("first").open();
    for answer in answers(waiters).await {
        answer.assert_refused(409, "outcome-unknown");
    }
    assert_eq!(first.await.expect("no panic").status, 500);
    assert_eq!(world.app.runs("pay"), 1);
}

/// B13-04, B01-06
async fn waiters_for_a_key_that_must_not_run_again_are_told_so(world: World) {
    let lease = world.short_lease();
    let world = world
        .again(Setup {
            wait: Some(LONG),
            lease: Some(lease),
            max_execution: Some(Duration::from_millis(1)),
            ..Setup::default()
        })
        .await;
    let script = Script::new("pay").step(gated());
    let call = world.post("/unknown").key("k").script(&script);
    let first = first(&world, &call).await;
    let waiters = waiters(&world, &call, 2).await;
    world.advance(lease).await;
    for answer in answers(waiters).await {
        answer.assert_refused(409, "outcome-unknown");
    }
    world.app.gate("first").open();
    assert_eq!(first.await.expect("no panic").status, 201);
    assert_eq!(world.app.runs("pay"), 1);
}

/// B13-04
async fn a_waiter_goes_on_when_the_record_cannot_be_watched(world: World) {
    let world = waiting(&world).await;
    let script = Script::new("pay").step(gated());
    let call = world.post("/charge").key("k").script(&script);
    let first = first(&world, &call).await;
    world.store.fail(StoreCall::Wait, 2);
    let waiter = tokio::spawn(call.clone().send());
    world.store.until_under_way(StoreCall::Wait, 1).await;
    world.app.gate("first").open();
    let first = first.await.expect("no panic");
    waiter.await.expect("no panic").assert_replays(&first);
    assert_eq!(world.app.runs("pay"), 1);
}
