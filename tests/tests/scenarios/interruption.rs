//! Clients that leave: what has begun is finished and recorded, and what has not is taken back.

use std::{env, time::Duration};

use futures_util::{StreamExt, future::join_all, stream};
use idem_tests::{
    Call, Framework, Protocol, Script, Setup, Step, StoreCall, World, logs, scenarios, script::Body,
};
use rand::{Rng, RngExt, SeedableRng, rngs::SmallRng};

scenarios![
    two_hundred_clients_leave_and_all_are_charged_once,
    a_client_that_half_closes_is_charged_once,
    a_client_that_wants_no_other_request_is_charged_once,
    a_cancelled_stream_of_http_2_is_charged_once,
    a_client_that_leaves_during_the_claim_takes_it_back,
    a_claim_that_is_taken_back_leaves_the_key_bound_to_an_earlier_attempt,
    a_client_that_leaves_during_the_completion_changes_nothing,
    a_client_that_leaves_during_the_release_changes_nothing,
    a_client_that_leaves_during_the_upload_claims_nothing,
    a_client_that_leaves_during_the_answer_changes_nothing,
    a_client_that_leaves_while_another_waits_changes_nothing,
    a_client_that_pipelines_and_leaves_is_charged_once_each,
    an_unprotected_handler_ends_with_its_client,
    a_thousand_clients_vanish_and_nothing_is_left_of_them,
];

/// A handler that stands at the gate `begun`.
fn gated() -> Step {
    Step::default().gate("begun")
}

/// Sends it again when the attempt that goes on without its client is recorded.
async fn assert_recorded(world: &World, call: Call) {
    world.store.until_done(StoreCall::Complete, 1).await;
    let retry = call.send().await;
    assert_eq!((retry.status, retry.replayed()), (201, true));
}

/// B03-01, P-13
async fn two_hundred_clients_leave_and_all_are_charged_once(world: World) {
    let script = |number: usize| Script::new(&format!("pay {number}")).step(gated());
    let call = |number: usize| {
        let call = world.post("/charge").key(format!("k{number}"));
        call.script(&script(number))
    };
    let mut connections = Vec::new();
    for number in 0..200 {
        let mut connection = world.connect().await;
        connection.send(&call(number)).await;
        connections.push(connection);
    }
    world.app.gate("begun").arrived(200).await;
    for (number, connection) in connections.into_iter().enumerate() {
        if number % 2 == 0 {
            connection.reset();
        } else {
            drop(connection);
        }
    }
    world.until(|counts| counts.detached == 200).await;
    assert_eq!(world.app.total(), 0);
    call(0).send().await.assert_refused(409, "in-progress");

    world.app.gate("begun").open();
    world.store.until_done(StoreCall::Complete, 200).await;
    for number in 0..200 {
        let retry = call(number).send().await;
        assert_eq!((retry.status, retry.replayed()), (201, true));
        assert_eq!(world.app.effects(&format!("pay {number}")), 1);
    }
    assert_eq!((world.app.total(), world.counts().takeovers), (200, 0));
}

/// B03-01
async fn a_client_that_half_closes_is_charged_once(world: World) {
    let call = world
        .post("/charge")
        .key("k")
        .script(&Script::new("pay").step(gated()));
    let mut connection = world.connect().await;
    connection.send(&call).await;
    world.app.gate("begun").arrived(1).await;
    connection.half_close().await;
    world.until(|counts| counts.detached == 1).await;

    world.app.gate("begun").open();
    assert!(
        connection.answer().await.is_none(),
        "the server takes it for gone"
    );
    assert_recorded(&world, call).await;
    assert_eq!(world.app.effects("pay"), 1);
}

/// B03-01
async fn a_client_that_wants_no_other_request_is_charged_once(world: World) {
    let call = world
        .post("/charge")
        .key("k")
        .script(&Script::new("pay").step(gated()));
    let mut connection = world.connect().await;
    connection
        .send(&call.clone().set("connection", "close"))
        .await;
    world.app.gate("begun").arrived(1).await;
    drop(connection);
    world.until(|counts| counts.detached == 1).await;

    world.app.gate("begun").open();
    assert_recorded(&world, call).await;
    assert_eq!(world.app.effects("pay"), 1);
}

/// B03-01
async fn a_cancelled_stream_of_http_2_is_charged_once(world: World) {
    let call = world
        .post("/charge")
        .key("k")
        .script(&Script::new("pay").step(gated()));
    let request = tokio::spawn(call.clone().over(Protocol::Http2).send());
    world.app.gate("begun").arrived(1).await;
    request.abort();
    if world.framework() == Framework::Axum {
        // The other framework lets it run to its end.
        world.until_left(1).await;
    }

    world.app.gate("begun").open();
    assert_recorded(&world, call).await;
    assert_eq!(world.app.effects("pay"), 1);
}

/// A store that may be slow: no call of it times out within a scenario.
async fn patient(world: &World) -> World {
    let setup = Setup {
        store_timeout: Some(Duration::from_mins(3)),
        ..Setup::default()
    };
    world.again(setup).await
}

/// Sends the request and leaves while the store is busy with this call for it.
async fn leave_during(world: &World, store_call: StoreCall, call: &Call) {
    world.store.hold(store_call);
    let mut connection = world.connect().await;
    connection.send(call).await;
    world.store.until_under_way(store_call, 1).await;
    drop(connection);
    world.app.until_requests(0).await;
    world.store.pass(store_call);
}

/// B03-01, P-08
async fn a_client_that_leaves_during_the_claim_takes_it_back(world: World) {
    let world = patient(&world).await;
    let call = world.post("/charge").key("k");
    leave_during(
        &world,
        StoreCall::Claim,
        &call.clone().script(&Script::new("pay")),
    )
    .await;
    world.store.until_done(StoreCall::Release, 1).await;

    // Nothing is left of it: another request may have the key.
    let other = call.script(&Script::new("other")).send().await;
    assert_eq!((other.status, other.replayed()), (201, false));
    assert_eq!((world.app.runs("pay"), world.app.runs("other")), (0, 1));
}

/// B03-01, P-08
async fn a_claim_that_is_taken_back_leaves_the_key_bound_to_an_earlier_attempt(world: World) {
    let world = patient(&world).await;
    let script = Script::new("pay")
        .step(Step::status(503))
        .then(Step::default());
    let call = world.post("/charge").key("k").script(&script);
    assert_eq!(call.clone().send().await.status, 503);
    leave_during(&world, StoreCall::Claim, &call).await;
    world.store.until_done(StoreCall::Release, 2).await;

    let other = call.clone().script(&Script::new("other")).send().await;
    other.assert_refused(409, "key-reused");
    let second = call.send().await;
    assert_eq!((second.status, second.replayed()), (201, false));
    assert_eq!((world.app.runs("pay"), world.app.runs("other")), (2, 0));
}

/// B03-01, B07-05
async fn a_client_that_leaves_during_the_completion_changes_nothing(world: World) {
    let world = patient(&world).await;
    let call = world.post("/charge").key("k").script(&Script::new("pay"));
    leave_during(&world, StoreCall::Complete, &call).await;
    assert_recorded(&world, call).await;
    assert_eq!((world.app.runs("pay"), world.app.effects("pay")), (1, 1));
}

/// B03-01, B07-05
async fn a_client_that_leaves_during_the_release_changes_nothing(world: World) {
    let world = patient(&world).await;
    let script = Script::new("pay")
        .step(Step::status(503))
        .then(Step::default());
    let call = world.post("/charge").key("k").script(&script);
    leave_during(&world, StoreCall::Release, &call).await;
    world.store.until_done(StoreCall::Release, 1).await;
    let second = call.send().await;
    assert_eq!((second.status, second.replayed()), (201, false));
    assert_eq!(world.app.runs("pay"), 2);
}

/// B03-04, P-07
async fn a_client_that_leaves_during_the_upload_claims_nothing(world: World) {
    let call = world.post("/charge").key("k");
    let request = call.clone().script(&Script::new("pay")).to_bytes();
    for sent in [request.len() / 4, request.len() / 2, request.len() - 1] {
        let mut connection = world.connect().await;
        connection.write(&request[..sent]).await;
        if sent > request.len() / 4 {
            world.app.until_requests(1).await;
        }
        drop(connection);
        world.app.until_requests(0).await;
    }
    assert_eq!(world.store.under_way(StoreCall::Claim), 0);
    assert_eq!(world.store.done(StoreCall::Claim), 0);

    let other = call.script(&Script::new("other")).send().await;
    assert_eq!((other.status, other.replayed()), (201, false));
    assert_eq!((world.app.runs("pay"), world.app.runs("other")), (0, 1));
}

/// B03-01
async fn a_client_that_leaves_during_the_answer_changes_nothing(world: World) {
    let endless = Step::default().body(Body::Endless("half".to_owned()));
    let call = world
        .post("/charge")
        .key("k")
        .script(&Script::new("pay").step(endless));
    let response = call.clone().open().await.expect("a response");
    assert_eq!(response.status(), 201);
    drop(response);
    let retry = call.send().await;
    assert_eq!((retry.status, world.app.runs("pay")), (409, 1));
}

/// B13-04
async fn a_client_that_leaves_while_another_waits_changes_nothing(world: World) {
    let call = world
        .post("/wait")
        .key("k")
        .script(&Script::new("pay").step(gated()));
    let mut connection = world.connect().await;
    connection.send(&call).await;
    world.app.gate("begun").arrived(1).await;
    let waiter = tokio::spawn(call.clone().send());
    world.store.until_under_way(StoreCall::Wait, 1).await;
    drop(connection);
    world.until(|counts| counts.detached == 1).await;

    world.app.gate("begun").open();
    let answer = waiter.await.expect("no panic");
    assert_eq!((answer.status, answer.replayed()), (201, true));
    assert_eq!(world.app.effects("pay"), 1);
}

/// B03-04: the second request hides from the server that its client is gone.
async fn a_client_that_pipelines_and_leaves_is_charged_once_each(world: World) {
    let call = |key: &str| {
        let script = Script::new(key).step(gated());
        world.post("/charge").key(key).script(&script)
    };
    let mut connection = world.connect().await;
    connection.send(&call("first")).await;
    connection.send(&call("second")).await;
    world.app.gate("begun").arrived(1).await;
    drop(connection);
    world.app.gate("begun").open();

    assert_recorded(&world, call("first")).await;
    let second = call("second").send().await;
    assert_eq!(second.status, 201);
    for key in ["first", "second"] {
        assert_eq!((world.app.runs(key), world.app.effects(key)), (1, 1));
    }
}

/// B03-01: without a key everything is as without us.
async fn an_unprotected_handler_ends_with_its_client(world: World) {
    let call = world
        .post("/charge")
        .script(&Script::new("pay").step(gated()));
    let mut connection = world.connect().await;
    connection.send(&call).await;
    world.app.gate("begun").arrived(1).await;
    drop(connection);
    world.app.until_requests(0).await;
    world.app.gate("begun").open();
    assert_eq!(world.counts().detached, 0);
    assert_eq!(world.app.effects("pay"), 0);
}

/// B03-07
///
/// `IDEM_VANISH_SEED` repeats a run, as far as the scheduler lets it.
async fn a_thousand_clients_vanish_and_nothing_is_left_of_them(world: World) {
    let seed = env::var("IDEM_VANISH_SEED").ok();
    let seed = seed.and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(rand::random);
    eprintln!("IDEM_VANISH_SEED={seed}");
    let mut random = SmallRng::seed_from_u64(seed);
    let setup = Setup {
        wait: Some(Duration::from_hours(1)),
        max_waiters: Some((8, 8)),
        ..Setup::default()
    };
    let world = world.again(setup).await;
    let keys: Vec<String> = (0..500).map(|number| format!("vanish-{number}")).collect();
    let scripts = keys.iter().map(|key| {
        let time = random.random_range(Duration::ZERO..world.pace(Duration::from_millis(4)));
        Script::new(key).step(Step::default().takes(time))
    });
    let scripts: Vec<Script> = scripts.collect();
    let call = |number: usize| {
        let call = world.post("/charge").key(&keys[number]);
        call.script(&scripts[number])
    };

    let visits = (0..1_000).map(|number| {
        let request = call(number / 2).to_bytes();
        visit(&world, request, SmallRng::seed_from_u64(random.next_u64()))
    });
    stream::iter(visits)
        .buffer_unordered(32)
        .collect::<()>()
        .await;

    // Each handler that has started is recorded, and each other one runs now.
    for number in 0..500 {
        retry(call(number)).await;
    }
    world.app.until_requests(0).await;
    for key in &keys {
        assert_eq!(
            (world.app.runs(key), world.app.effects(key)),
            (1, 1),
            "{key}"
        );
    }
    assert!(world.counts().detached > 0, "nobody left in the middle");

    // Each place of a waiter is free, and no attempt lives.
    world.store.until_under_way(StoreCall::Wait, 0).await;
    let last = world
        .post("/charge")
        .key("last")
        .script(&Script::new("last").step(gated()));
    let requests = (0..=8).map(|_| tokio::spawn(last.clone().send()));
    let requests: Vec<_> = requests.collect();
    world.store.until_under_way(StoreCall::Wait, 8).await;
    world.app.gate("begun").open();
    for answer in join_all(requests).await {
        assert_eq!(answer.expect("no panic").status, 201);
    }
    assert_eq!(world.drain(Duration::from_secs(10)).await.left, 0);

    // In the requests, in the tasks that go on without one, and by the keeper of the leases.
    let records = keys.iter().map(|key| world.record("POST /charge", key));
    let records: Vec<String> = records.map(|record| record.to_string()).collect();
    let mut errors = logs::errors_with(" ERROR ");
    errors.retain(|line| records.iter().any(|record| line.contains(record)));
    let requests = world.logs().into_iter();
    errors.extend(requests.filter(|line| line.contains(" ERROR ")));
    assert_eq!(errors, Vec::<String>::new());
}

/// Sends a request, or some of it, and leaves after a moment, in one way or another.
async fn visit(world: &World, request: Vec<u8>, mut random: SmallRng) {
    let mut connection = world.connect().await;
    let sent = match random.random_range(0..8) {
        0 => random.random_range(0..request.len()),
        _ => request.len(),
    };
    connection.write(&request[..sent]).await;
    // As long as a request takes, at the most: before, in and after each of its phases.
    let longest = world.pace(Duration::from_millis(5));
    tokio::time::sleep(random.random_range(Duration::ZERO..longest)).await;
    match random.random_range(0..8) {
        0 => connection.half_close().await,
        1..4 => connection.reset(),
        _ => {}
    }
}

/// Sends a request until its key is not in progress any more.
async fn retry(call: Call) {
    for _ in 0..100 {
        let answer = call.clone().send().await;
        if answer.status == 201 {
            return;
        }
        answer.assert_refused(409, "in-progress");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("in progress for ever");
}
