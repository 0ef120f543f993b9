//! Answers that are not kept: too large, without a length, without an end, broken off. They are
//! sent as without us, and their key stands for what was done all the same.

use std::time::Duration;

use idem_tests::{Answer, Protocol, Script, Step, World, scenarios, script::Body};

scenarios![
    an_answer_over_the_limit_reaches_its_client_whole,
    a_stream_is_sent_as_it_comes,
    a_retry_during_a_stream_is_told_that_the_response_is_not_kept,
    an_event_stream_is_not_kept_even_if_its_length_is_known,
    a_stream_of_ten_mebibytes_passes,
    an_endless_answer_does_not_hold_its_key,
    an_answer_that_breaks_off_is_not_run_again,
    a_declared_length_is_as_good_as_a_known_one,
    a_body_that_is_shorter_than_declared_is_not_kept,
    a_body_that_lost_its_client_is_read_to_its_end_and_kept,
    a_stream_that_reports_a_failure_is_released,
    another_request_under_the_key_of_a_stream_is_refused_as_another,
];

// The other framework sends a body to its own end, whatever length is declared.
scenarios![on axum:
    a_body_ends_at_its_declared_length,
];

const MIB: usize = 1024 * 1024;

/// P-14
async fn an_answer_over_the_limit_reaches_its_client_whole(world: World) {
    let step = Step::default().header("location", "/payments/7");
    let script = Script::new("pay").step(step.body(Body::Large(3 * MIB)));
    let post = world.post("/charge").script(&script);
    for protocol in Protocol::ALL {
        let post = post.clone().over(protocol).key(format!("{protocol:?}"));
        let first = post.clone().send().await;
        assert_eq!((first.status, first.body.len()), (201, 3 * MIB));
        assert!(first.body.iter().all(|byte| *byte == b'x'));
        let retry = post.send().await;
        assert_not_kept(&retry, 201);
        assert_eq!(retry.json()["original_location"], "/payments/7");
    }
    assert_eq!(world.app.effects("pay"), 2);
}

/// P-15
async fn a_stream_is_sent_as_it_comes(world: World) {
    let plain = Step::default();
    let events = Step::default().header("content-type", "text/event-stream");
    for (n, step) in [plain, events].into_iter().enumerate() {
        let (line, gate) = (format!("pay-{n}"), format!("gate-{n}"));
        let chunks = ["data: 1\n\n", "data: 2\n\n"].map(str::to_owned).to_vec();
        let script = Script::new(&line).step(step.body(Body::Gated(chunks, gate.clone())));
        let post = world.post("/charge").key(&line).script(&script);
        let mut response = post.open().await.expect("the head comes at once");
        let chunk = response.chunk().await.expect("no error");
        assert_eq!(chunk.as_deref(), Some(&b"data: 1\n\n"[..]));
        world.app.gate(&gate).open();
        assert_eq!(response.text().await.expect("the rest"), "data: 2\n\n");
        assert_eq!(world.app.effects(&line), 1);
    }
}

/// P-15
async fn a_retry_during_a_stream_is_told_that_the_response_is_not_kept(world: World) {
    let chunks = vec!["one".to_owned(), "two".to_owned()];
    let script = Script::new("pay").step(Step::status(200).body(Body::Gated(chunks, "g".into())));
    let post = world.post("/charge").key("k").script(&script);
    let response = post.clone().open().await.expect("the head comes at once");
    assert_not_kept(&post.clone().send().await, 200);
    world.app.gate("g").open();
    assert_eq!(response.text().await.expect("all of it"), "onetwo");
    assert_not_kept(&post.send().await, 200);
    assert_eq!(world.app.effects("pay"), 1);
}

/// P-15
async fn an_event_stream_is_not_kept_even_if_its_length_is_known(world: World) {
    let types = ["text/event-stream", "Text/Event-Stream; charset=utf-8"];
    for (n, content_type) in types.into_iter().enumerate() {
        let line = format!("pay-{n}");
        let step = Step::status(200).header("content-type", content_type);
        let script = Script::new(&line).step(step.bytes("data: 1\n\n"));
        let post = world.post("/charge").key(&line).script(&script);
        let first = post.clone().send().await;
        assert_eq!((first.status, &first.body[..]), (200, &b"data: 1\n\n"[..]));
        assert_not_kept(&post.send().await, 200);
        assert_eq!(world.app.effects(&line), 1);
    }
}

/// P-15
async fn a_stream_of_ten_mebibytes_passes(world: World) {
    let body = Body::Repeated("x".repeat(MIB / 16), 160);
    let script = Script::new("pay").step(Step::default().body(body));
    let post = world.post("/charge").script(&script);
    for protocol in Protocol::ALL {
        let post = post.clone().over(protocol).key(format!("{protocol:?}"));
        let first = post.clone().send().await;
        assert_eq!((first.status, first.body.len()), (201, 10 * MIB));
        assert_not_kept(&post.send().await, 201);
    }
    assert_eq!(world.app.effects("pay"), 2);
}

/// P-15
async fn an_endless_answer_does_not_hold_its_key(world: World) {
    let script = Script::new("pay").step(Step::status(200).body(Body::Endless("tick".into())));
    let post = world.post("/charge").key("k").script(&script);
    let mut response = post.clone().open().await.expect("the head comes at once");
    let chunk = response.chunk().await.expect("no error");
    assert_eq!(chunk.as_deref(), Some(&b"tick"[..]));
    assert_not_kept(&post.clone().send().await, 200);
    drop(response);
    assert_not_kept(&post.send().await, 200);
    assert_eq!(world.app.effects("pay"), 1);
    // The attempt is over, though its answer never will be.
    let drained = world.drain(Duration::from_secs(5)).await;
    assert_eq!((drained.finished, drained.left), (0, 0));
}

/// P-15
async fn an_answer_that_breaks_off_is_not_run_again(world: World) {
    let unknown = Step::status(200);
    let declared = Step::status(200).header("content-length", "100");
    for (length, step) in [("unknown", unknown), ("declared", declared)] {
        for protocol in Protocol::ALL {
            let line = format!("{length}-{protocol:?}");
            let script = Script::new(&line).step(step.clone().body(Body::Broken("half".into())));
            let post = world.post("/charge").over(protocol).script(&script);
            let plain = post.clone().try_send().await;
            plain.expect_err("it has no end without a key");
            let post = post.key(&line);
            let first = post.clone().try_send().await;
            first.expect_err("it has no end with a key");
            assert_not_kept(&post.send().await, 200);
            assert_eq!(world.app.effects(&line), 2);
        }
    }
}

/// P-15
async fn a_declared_length_is_as_good_as_a_known_one(world: World) {
    let chunks = ["ab", "", "cde"].map(str::to_owned).to_vec();
    let script = Script::new("pay").step(Step::default().body(Body::Declared(chunks)));
    let post = world.post("/charge").script(&script);
    for protocol in Protocol::ALL {
        let post = post.clone().over(protocol).key(format!("{protocol:?}"));
        let first = post.clone().send().await;
        assert_eq!(first.header("content-length"), Some("5"));
        assert_eq!(&first.body[..], b"abcde");
        let again = post.send().await;
        again.assert_replays(&first);
        assert_eq!(again.header("content-length"), Some("5"));
    }
    assert_eq!(world.app.effects("pay"), 2);
}

/// P-15
async fn a_body_ends_at_its_declared_length(world: World) {
    let chunks = Body::Chunks(vec!["abcd".to_owned(), "ef".to_owned()]);
    let endless = Body::Endless("abcd".to_owned());
    for (n, (length, body)) in [
        ("3", chunks.clone()),
        ("4", chunks),
        ("3", endless.clone()),
        ("4", endless),
    ]
    .into_iter()
    .enumerate()
    {
        let line = format!("pay-{n}");
        let step = Step::status(200).header("content-length", length);
        let script = Script::new(&line).step(step.body(body));
        let plain = bytes(&world, None, &script).await;
        let first = bytes(&world, Some(&line), &script).await;
        assert!(plain.ends_with(&format!(
            "\n{}",
            &"abcd"[..length.parse().expect("a number")]
        )));
        assert_eq!(first, plain, "{script:?}");
        let again = world
            .post("/charge")
            .key(&line)
            .script(&script)
            .send()
            .await;
        assert!(again.replayed());
        assert_eq!(again.header("content-length"), Some(length));
        assert!(plain.as_bytes().ends_with(&again.body));
        assert_eq!(world.app.effects(&line), 2);
    }
}

/// P-15
async fn a_body_that_is_shorter_than_declared_is_not_kept(world: World) {
    let step = Step::status(200).header("content-length", "100");
    let script = Script::new("pay").step(step.body(Body::Chunks(vec!["abcd".to_owned()])));
    let plain = bytes(&world, None, &script).await;
    assert_eq!(bytes(&world, Some("k"), &script).await, plain);
    let again = world.post("/charge").key("k").script(&script).send().await;
    assert_not_kept(&again, 200);
    assert_eq!(world.app.effects("pay"), 2);
}

/// P-15
async fn a_body_that_lost_its_client_is_read_to_its_end_and_kept(world: World) {
    let chunks = ["one", "two"].map(str::to_owned).to_vec();
    let step = Step::default().header("content-length", "6");
    let script = Script::new("pay").step(step.body(Body::Gated(chunks, "g".to_owned())));
    let post = world.post("/wait").key("k").script(&script);
    let call = tokio::spawn(post.clone().send());
    world.app.gate("g").arrived(1).await;
    call.abort();
    world.until_left(1).await;
    world.app.gate("g").open();
    let retry = post.send().await;
    assert_eq!((retry.status, retry.replayed()), (201, true));
    assert_eq!(&retry.body[..], b"onetwo");
    assert_eq!(world.app.effects("pay"), 1);
}

/// P-15, R6
async fn a_stream_that_reports_a_failure_is_released(world: World) {
    let failed = Step::status(500).body(Body::Chunks(vec!["sorry".to_owned()]));
    let script = Script::new("pay").step(failed.without_effect());
    let script = script.then(Step::default());
    let post = world.post("/charge").key("k").script(&script);
    let first = post.clone().send().await;
    assert_eq!((first.status, &first.body[..]), (500, &b"sorry"[..]));
    let second = post.clone().send().await;
    assert_eq!((second.status, second.replayed()), (201, false));
    post.send().await.assert_replays(&second);
    assert_eq!(world.app.effects("pay"), 1);
}

/// P-15, B08-01
async fn another_request_under_the_key_of_a_stream_is_refused_as_another(world: World) {
    let script = Script::new("pay").step(Step::default().body(Body::Chunks(vec!["a".into()])));
    let post = world.post("/charge").key("k");
    let first = post.clone().script(&script).send().await;
    assert_eq!(&first.body[..], b"a");
    let other = post.script(&script.extra(1)).send().await;
    other.assert_refused(409, "key-reused");
    assert_eq!(world.app.effects("pay"), 1);
}

/// That what was done is done, and its answer was not kept.
#[track_caller]
fn assert_not_kept(retry: &Answer, status: u16) {
    retry.assert_refused(409, "response-unavailable");
    assert_eq!(retry.json()["original_status"], status);
}

/// All that comes for a request until the server closes the connection, but for the date.
async fn bytes(world: &World, key: Option<&str>, script: &Script) -> String {
    let post = world
        .post("/charge")
        .set("connection", "close")
        .script(script);
    let post = match key {
        Some(key) => post.key(key),
        None => post,
    };
    let mut connection = world.connect().await;
    connection.send(&post).await;
    let rest = String::from_utf8(connection.rest().await).expect("text");
    let lines = rest.split_inclusive('\n');
    lines.filter(|line| !line.starts_with("date:")).collect()
}
