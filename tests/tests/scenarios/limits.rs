//! What is limited: the body of a request, what is stored of an answer, and the store itself.

use std::time::Duration;

use futures_util::future::join_all;
use idem_tests::{
    Answer, Framed, Framework, Script, Setup, Step, StoreCall, World, scenarios, script::Body,
};
use serde_json::Value;

scenarios![
    a_body_as_long_as_its_route_allows_is_taken,
    a_longer_body_is_refused_with_the_limit_and_makes_no_claim,
    a_limit_of_the_engine_only_lowers_that_of_the_route,
    without_a_key_the_limits_are_those_of_the_framework,
    an_answer_is_kept_up_to_the_limit_of_stored_bodies,
    an_answer_is_kept_up_to_the_limit_of_stored_headers,
    records_of_every_kind_go_when_their_time_is_over,
];

// The others are as large as their server.
scenarios![in memory:
    a_full_store_refuses_new_keys_and_keeps_those_it_has,
    a_full_store_runs_a_released_key_again,
    a_full_store_takes_new_keys_when_old_ones_expire,
    an_answer_that_finds_no_room_is_not_kept,
];

const MIB: usize = 1024 * 1024;
const DAY: Duration = Duration::from_hours(24);

/// B12-03
async fn a_body_as_long_as_its_route_allows_is_taken(world: World) {
    for (path, length) in [
        ("/counted", 2 * MIB),
        ("/limited", 3_000_000),
        ("/unlimited", 16 * MIB),
    ] {
        let key = format!("{path}-{length}");
        let answer = world
            .post(path)
            .key(key)
            .body(vec![b'x'; length])
            .send()
            .await;
        assert_eq!(
            (answer.status, text(&answer)),
            (200, length.to_string()),
            "{path}"
        );
    }
}

/// B12-03
async fn a_longer_body_is_refused_with_the_limit_and_makes_no_claim(world: World) {
    for (path, limit) in [("/counted", 2 * MIB), ("/limited", 10 * MIB)] {
        assert_limited(&world, path, limit).await;
    }
    if world.framework() == Framework::Axum {
        // There its handlers say what they take; on actix-web the application has taken the limit of
        // the argument away.
        assert_limited(&world, "/unlimited", 16 * MIB).await;
    }
    // What reads the body itself has the limit of all handlers on axum, and none on actix-web.
    let streaming = match world.framework() {
        Framework::Axum => 2 * MIB,
        Framework::Actix => 16 * MIB,
    };
    for path in ["/echo/request", "/echo/body"] {
        assert_limited(&world, path, streaming).await;
    }
}

/// B12-03
async fn a_limit_of_the_engine_only_lowers_that_of_the_route(world: World) {
    let setup = Setup {
        max_request_body: Some(5_000_000),
        ..Setup::default()
    };
    let world = world.again(setup).await;
    assert_limited(&world, "/counted", 2 * MIB).await;
    assert_limited(&world, "/limited", 5_000_000).await;
    assert_limited(&world, "/unlimited", 5_000_000).await;
    let body = vec![b'x'; 5_000_000];
    let answer = world.post("/limited").key("k").body(body).send().await;
    assert_eq!((answer.status, text(&answer)), (200, "5000000".to_owned()));
}

/// B12-03
async fn without_a_key_the_limits_are_those_of_the_framework(world: World) {
    let setup = Setup {
        max_request_body: Some(1_000_000),
        ..Setup::default()
    };
    let world = world.again(setup).await;
    for (path, length) in [
        ("/counted", 2 * MIB),
        ("/limited", 6_000_000),
        ("/unlimited", 17 * MIB),
    ] {
        let answer = world.post(path).body(vec![b'x'; length]).send().await;
        assert_eq!(
            (answer.status, text(&answer)),
            (200, length.to_string()),
            "{path}"
        );
    }
    for (path, limit) in [("/counted", 2 * MIB), ("/limited", 10 * MIB)] {
        let answer = stream(&world, path, &[], limit + 1).await;
        assert_eq!(answer.status, 413, "{path}");
        let problem = answer.header("content-type") == Some("application/problem+json");
        assert!(!problem, "{path}: {answer:?}");
    }
}

/// P-14
async fn an_answer_is_kept_up_to_the_limit_of_stored_bodies(world: World) {
    let setup = Setup {
        max_stored_body: Some(10),
        ..Setup::default()
    };
    let small = world.again(setup).await;
    for (world, limit) in [(world, 256 * 1024), (small, 10)] {
        let (first, again) = twice(&world, limit).await;
        assert_eq!(first.body.len(), limit);
        again.assert_replays(&first);
        let (first, again) = twice(&world, limit + 1).await;
        assert_eq!(first.body.len(), limit + 1);
        again.assert_refused(409, "response-unavailable");
        assert_eq!(world.app.effects("pay"), 2);
    }
}

/// P-14
async fn an_answer_is_kept_up_to_the_limit_of_stored_headers(world: World) {
    let setup = Setup {
        max_stored_headers: Some(100),
        ..Setup::default()
    };
    let world = world.again(setup).await;
    for (value, fits) in [(87, true), (88, false)] {
        let line = format!("pay-{value}");
        let step = Step::status(202)
            .header("location", "/p")
            .header("x-a", "v".repeat(value))
            // Is not stored, and so does not count.
            .header("set-cookie", "c".repeat(100));
        let script = Script::new(&line).step(step);
        let post = world.post("/charge").key(&line).script(&script);
        let first = post.clone().send().await;
        assert_eq!(first.header("x-a").map(str::len), Some(value));
        let again = post.send().await;
        if fits {
            again.assert_replays(&first);
            assert_eq!(again.header("x-a"), first.header("x-a"));
        } else {
            again.assert_refused(409, "response-unavailable");
            assert_eq!(again.json()["original_status"], 202);
            assert_eq!(again.json()["original_location"], "/p");
        }
        assert_eq!(world.app.effects(&line), 1);
    }
}

/// B13-01, P-19
async fn a_full_store_refuses_new_keys_and_keeps_those_it_has(world: World) {
    let world = ten_records(&world).await;
    let slow = Script::new("slow").step(Step::default().gate("g"));
    let slow = world.post("/charge").key("slow").script(&slow);
    let running = tokio::spawn(slow.clone().send());
    world.app.gate("g").arrived(1).await;

    let mut first = Vec::new();
    for n in 0..50 {
        let answer = pay(&world, n).await;
        if n < 9 {
            assert_eq!(answer.status, 201);
            first.push(answer);
        } else {
            answer.assert_refused(503, "store-unavailable");
        }
    }
    assert_eq!((world.app.effects("pay"), world.records().await), (9, 10));

    slow.clone().send().await.assert_refused(409, "in-progress");
    for (n, first) in first.iter().enumerate() {
        pay(&world, n).await.assert_replays(first);
    }
    let other = world.post("/charge").key("0").script(&Script::new("other"));
    other.send().await.assert_refused(409, "key-reused");

    world.app.gate("g").open();
    let answer = running.await.expect("it ends");
    assert_eq!(answer.status, 201);
    slow.send().await.assert_replays(&answer);
    assert_eq!((world.app.effects("slow"), world.app.total()), (1, 10));
}

/// B13-01
async fn a_full_store_runs_a_released_key_again(world: World) {
    let world = ten_records(&world).await;
    let script = Script::new("retried").step(Step::status(500).without_effect());
    let script = script.then(Step::default());
    let post = world.post("/charge").key("retried").script(&script);
    assert_eq!(post.clone().send().await.status, 500);
    for n in 0..9 {
        assert_eq!(pay(&world, n).await.status, 201);
    }
    pay(&world, 9)
        .await
        .assert_refused(503, "store-unavailable");
    let answer = post.clone().send().await;
    assert_eq!(answer.status, 201);
    post.send().await.assert_replays(&answer);
    assert_eq!(world.app.effects("retried"), 1);
}

/// B13-01
async fn a_full_store_takes_new_keys_when_old_ones_expire(world: World) {
    let world = ten_records(&world).await;
    for n in 0..10 {
        assert_eq!(pay(&world, n).await.status, 201);
    }
    world.advance(Duration::from_hours(23)).await;
    pay(&world, 10)
        .await
        .assert_refused(503, "store-unavailable");
    world.advance(Duration::from_hours(1)).await;
    for n in 10..20 {
        assert_eq!(pay(&world, n).await.status, 201);
    }
    pay(&world, 20)
        .await
        .assert_refused(503, "store-unavailable");
    assert_eq!(world.app.effects("pay"), 20);
}

/// B13-01
async fn an_answer_that_finds_no_room_is_not_kept(world: World) {
    let setup = Setup {
        max_bytes: Some(100_000),
        ..Setup::default()
    };
    let world = world.again(setup).await;
    let step = Step::default().header("location", "/payments/7");
    let script = Script::new("pay").step(step.body(Body::Large(60_000)));
    let post = |key| world.post("/charge").key(key).script(&script);
    let first = post("kept").send().await;
    let unkept = post("unkept").send().await;
    assert_eq!((unkept.status, unkept.body.len()), (201, 60_000));
    post("kept").send().await.assert_replays(&first);
    let again = post("unkept").send().await;
    again.assert_refused(409, "response-unavailable");
    assert_eq!(again.json()["original_location"], "/payments/7");
    assert_eq!(world.app.effects("pay"), 2);
    assert_eq!(world.counts().executed, 2);
}

/// B13-03
async fn records_of_every_kind_go_when_their_time_is_over(world: World) {
    let setup = Setup {
        purge_every: Some(Duration::from_millis(10)),
        ..Setup::default()
    };
    let world = world.again(setup).await;
    let steps = [
        Step::default(),
        Step::status(500),
        Step::default().outcome("unknown"),
        Step::default().body(Body::Chunks(vec!["a".to_owned()])),
    ];
    for (n, step) in steps.into_iter().enumerate() {
        let script = Script::new("pay").step(step);
        let post = |key| {
            world
                .post("/charge")
                .key(format!("{n}-{key}"))
                .script(&script)
        };
        join_all((0..50).map(|key| post(key).send())).await;
    }
    assert_eq!(
        (world.app.effects("pay"), world.records().await),
        (200, 200)
    );
    world.advance(7 * DAY).await;
    world.until_records(0).await;
}

/// The same service, with a store that takes ten records.
async fn ten_records(world: &World) -> World {
    let setup = Setup {
        max_records: Some(10),
        ..Setup::default()
    };
    world.again(setup).await
}

/// Asks twice for an answer of this length.
async fn twice(world: &World, length: usize) -> (Answer, Answer) {
    let script = Script::new("pay").step(Step::default().body(Body::Large(length)));
    let key = length.to_string();
    let post = world.post("/charge").key(key).script(&script);
    (post.clone().send().await, post.send().await)
}

async fn pay(world: &World, key: usize) -> Answer {
    let script = Script::new("pay");
    let post = world.post("/charge").key(key.to_string()).script(&script);
    post.send().await
}

/// That a body of more than `limit` bytes is refused, and leaves its key free.
async fn assert_limited(world: &World, path: &str, limit: usize) {
    let before = world.store.done(StoreCall::Claim);
    let announced = announce(world, path, limit + 1).await;
    let streamed = stream(world, path, &[("idempotency-key", path)], limit + 1).await;
    for answer in [announced, streamed] {
        assert_eq!(answer.status, 413, "{path}: {answer:?}");
        if is_the_applications(world, path, limit) {
            assert_eq!(answer.body, b"payload reached size limit", "{path}");
            continue;
        }
        assert_eq!(
            answer.header("content-type"),
            Some("application/problem+json")
        );
        let problem: Value = serde_json::from_slice(&answer.body).expect("json");
        assert_eq!(problem["code"], "request-too-large");
        assert_eq!(problem["retryable"], false);
        assert_eq!(problem["limit"], limit, "{path}");
        assert_eq!(problem["detail"], format!("the limit is {limit} bytes"));
    }
    assert_eq!(world.store.done(StoreCall::Claim), before, "{path}");
    let answer = world.post(path).key(path).body("x").send().await;
    assert_eq!((answer.status, answer.replayed()), (200, false), "{path}");
}

/// Whether it is the application that refuses so long a body, in its own words: on actix-web its
/// extractors know their limits, and nobody else.
fn is_the_applications(world: &World, path: &str, limit: usize) -> bool {
    let own = [("/counted", 2 * MIB), ("/limited", 10 * MIB)];
    world.framework() == Framework::Actix && own.contains(&(path, limit))
}

/// Announces a body, which is not asked for.
async fn announce(world: &World, path: &str, length: usize) -> Framed {
    let mut connection = world.connect().await;
    let length = length.to_string();
    let headers = [("content-length", &*length), ("idempotency-key", path)];
    connection.head(path, &headers).await;
    connection.framed().await
}

/// Sends a body whose length shows only at its end, which is its last byte.
async fn stream(world: &World, path: &str, headers: &[(&str, &str)], length: usize) -> Framed {
    let mut connection = world.connect().await;
    let headers = [headers, &[("transfer-encoding", "chunked")]].concat();
    connection.head(path, &headers).await;
    let body = vec![b'x'; length - 1];
    for chunk in body.chunks(MIB) {
        connection.chunk(chunk).await;
    }
    connection.chunk("x").await;
    connection.framed().await
}

fn text(answer: &Answer) -> String {
    String::from_utf8_lossy(&answer.body).into_owned()
}
