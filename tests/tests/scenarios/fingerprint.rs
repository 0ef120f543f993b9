//! What a key stands for: one request, and no other.

use std::time::Duration;

use idem_tests::{Answer, Protocol, Script, Setup, Step, World, scenarios};

scenarios![
    another_body_under_the_key_is_refused,
    another_body_is_refused_while_the_first_request_runs,
    another_body_is_refused_after_a_release,
    a_forgotten_key_takes_another_request,
    a_refused_reuse_does_not_lengthen_the_life_of_the_record,
    another_query_under_the_key_is_refused,
    an_empty_query_is_not_the_same_as_none,
    another_resource_of_the_route_is_refused,
    another_media_type_under_the_key_is_refused,
    parameters_of_the_media_type_do_not_count,
    other_headers_do_not_count,
    the_framing_of_the_body_does_not_count,
    a_retry_over_another_version_of_http_is_a_replay,
    the_digests_are_the_same_in_every_process_and_build,
];

/// B08-01
async fn another_body_under_the_key_is_refused(world: World) {
    let script = Script::new("pay");
    let charge = |amount: u32| {
        let call = world.post("/charge").key("k");
        call.script(&script.clone().extra(amount)).send()
    };
    let first = charge(200).await;
    let other = charge(500).await;
    other.assert_refused(409, "key-reused");
    assert_eq!(other.json()["original_state"], "completed");
    charge(200).await.assert_replays(&first);
    assert_eq!(world.app.effects("pay"), 1);
}

/// B08-01
async fn another_body_is_refused_while_the_first_request_runs(world: World) {
    let script = Script::new("pay").step(Step::default().gate("gate"));
    let call = world.post("/charge").key("k");
    let running = tokio::spawn(call.clone().script(&script).send());
    world.app.gate("gate").arrived(1).await;
    let other = call.clone().script(&script.clone().extra(500)).send().await;
    other.assert_refused(409, "key-reused");
    assert_eq!(other.json()["original_state"], "in_progress");
    world.app.gate("gate").open();
    let first = running.await.expect("an answer");
    call.script(&script).send().await.assert_replays(&first);
    assert_eq!(world.app.effects("pay"), 1);
}

/// B08-01
async fn another_body_is_refused_after_a_release(world: World) {
    let script = Script::new("pay")
        .step(Step::status(500))
        .then(Step::default());
    let call = world.post("/charge").key("k");
    call.clone().script(&script).send().await;
    let other = call.clone().script(&script.clone().extra(500)).send().await;
    other.assert_refused(409, "key-reused");
    assert_eq!(other.json()["original_state"], "released");
    assert_eq!(call.script(&script).send().await.status, 201);
    assert_eq!(world.app.effects("pay"), 2);
}

/// B08-01
async fn a_forgotten_key_takes_another_request(world: World) {
    let script = Script::new("pay").step(Step::status(422).outcome("forget").without_effect());
    let call = world.post("/charge").key("k");
    call.clone().script(&script).send().await;
    let other = call.script(&Script::new("pay again")).send().await;
    assert_eq!((other.status, other.replayed()), (201, false));
    assert_eq!(world.app.effects("pay again"), 1);
}

/// B08-01
async fn a_refused_reuse_does_not_lengthen_the_life_of_the_record(world: World) {
    let world = world
        .again(Setup {
            ttl: Some(Duration::from_mins(1)),
            ..Setup::default()
        })
        .await;
    let call = world.post("/charge").key("k");
    let other = call.clone().script(&Script::new("other"));
    call.script(&Script::new("pay")).send().await;
    world.advance(Duration::from_secs(59)).await;
    other.clone().send().await.assert_refused(409, "key-reused");
    world.advance(Duration::from_secs(1)).await;
    assert_eq!(other.send().await.status, 201);
    assert_eq!(world.app.effects("other"), 1);
}

/// Sends `first` and then each of `others` with one key, and expects the others to be refused.
async fn are_refused(world: &World, first: &str, others: &[&str]) {
    let script = Script::new("pay");
    let send = |path: &str| world.post(path).key("k").script(&script).send();
    let answer = send(first).await;
    assert_eq!(answer.status, 201);
    for other in others {
        let refused = send(other).await;
        assert_eq!(refused.status, 409, "{other}");
        refused.assert_refused(409, "key-reused");
    }
    send(first).await.assert_replays(&answer);
    assert_eq!(world.app.effects("pay"), 1);
}

/// B08-02, P-02. Queries are compared as they were sent.
async fn another_query_under_the_key_is_refused(world: World) {
    let others = [
        "/charge",
        "/charge?",
        "/charge?mode=live&b=1",
        "/charge?b=1&mode=test",
        "/charge?mode=%74est&b=1",
        "/charge?mode=test&b=1&",
        "/charge?mode=test&b=1&b=1",
    ];
    are_refused(&world, "/charge?mode=test&b=1", &others).await;
}

/// B08-02
async fn an_empty_query_is_not_the_same_as_none(world: World) {
    are_refused(&world, "/charge", &["/charge?"]).await;
}

/// B02-04, P-02. Paths are compared as they were sent.
async fn another_resource_of_the_route_is_refused(world: World) {
    let others = [
        "/accounts/43/charge",
        "/accounts/4%32/charge",
        "/accounts/042/charge",
        "/accounts/42%20/charge",
    ];
    are_refused(&world, "/accounts/42/charge", &others).await;
}

fn typed(world: &World, media_type: &str) -> impl Future<Output = Answer> {
    let call = world.post("/charge").key("k").script(&Script::new("pay"));
    call.set("content-type", media_type).send()
}

/// B08-01
async fn another_media_type_under_the_key_is_refused(world: World) {
    let first = typed(&world, "application/json").await;
    let other = typed(&world, "application/vnd.pay+json").await;
    assert_eq!(first.status, 201);
    other.assert_refused(409, "key-reused");
}

/// B08-01
async fn parameters_of_the_media_type_do_not_count(world: World) {
    let first = typed(&world, "application/json").await;
    for spelled in [
        "application/json; charset=utf-8",
        "Application/JSON;charset=utf-8",
        "application/json; v=2; charset=\"utf-8\"",
    ] {
        typed(&world, spelled).await.assert_replays(&first);
    }
}

/// P-05
async fn other_headers_do_not_count(world: World) {
    let script = Script::new("pay");
    let send = |attempt: &str| {
        let names = [
            "accept",
            "accept-encoding",
            "accept-language",
            "cookie",
            "date",
            "digest",
            "forwarded",
            "if-none-match",
            "origin",
            "signature",
            "traceparent",
            "tracestate",
            "user-agent",
            "x-forwarded-for",
            "x-nonce",
            "x-request-id",
            "x-timestamp",
        ];
        let call = world.post("/charge").key("k").script(&script);
        let call = names
            .iter()
            .fold(call, |call, name| call.set(name, attempt));
        call.send()
    };
    let first = send("1").await;
    assert_eq!(first.status, 201);
    send("2").await.assert_replays(&first);
    assert_eq!(world.app.effects("pay"), 1);
}

/// B08-01
async fn the_framing_of_the_body_does_not_count(world: World) {
    let script = Script::new("pay");
    let call = world.post("/charge").key("k").script(&script);
    let first = world.raw(call.to_bytes()).await;
    assert_eq!(first.status, 201);
    let body = serde_json::to_string(&script).expect("a script is JSON");
    let (left, right) = body.split_at(10);
    let chunked = format!(
        "POST /charge HTTP/1.1\r\nHost: elsewhere\r\nConnection: close\r\n\
         Authorization: Bearer ada\r\nContent-Type: application/json\r\n\
         Idempotency-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n\
         {:x}\r\n{left}\r\n{:x}\r\n{right}\r\n0\r\n\r\n",
        left.len(),
        right.len()
    );
    world.raw(chunked).await.assert_replays(&first);
    assert_eq!(world.app.effects("pay"), 1);
}

/// B08-01. An absolute target is the form in which a proxy is asked.
async fn a_retry_over_another_version_of_http_is_a_replay(world: World) {
    let script = Script::new("pay");
    let call = world.post("/charge?a=b").key("k").script(&script);
    let first = call.clone().send().await;
    assert_eq!(first.status, 201);
    call.clone()
        .over(Protocol::Http2)
        .send()
        .await
        .assert_replays(&first);
    let relative = String::from_utf8(call.to_bytes()).expect("plain text");
    let target = format!("POST http://{}/", world.addr);
    let absolute = relative.replacen("POST /", &target, 1);
    world.raw(absolute).await.assert_replays(&first);
    let old = relative.replacen("HTTP/1.1", "HTTP/1.0", 1);
    world.raw(old).await.assert_replays(&first);
    assert_eq!(world.app.effects("pay"), 1);
}

/// P-21. The key for the next service is made of the storage key and the fingerprint, so it pins
/// both. The values come from an implementation of the layouts in another language.
async fn the_digests_are_the_same_in_every_process_and_build(world: World) {
    let body = r#"{"line":"pay","steps":[{"effect":true,"status":201,"body":"Seen"}]}"#;
    for (path, downstream) in [
        (
            "/accounts/42/charge?mode=live",
            "b03c1da2141854d8508344b56de221ec842126c19b5fae74b7a94897a85d9ceb",
        ),
        (
            "/shared",
            "2dfaccfb4bb94e57ab3f71eff909006a7165c7e968c82539639e121726e05f8f",
        ),
        (
            "/tenant",
            "ad1b0d0894738a7255025d633d515f5e280300781bcc7f4a6544ed924c3e4660",
        ),
        (
            "/named",
            "4fd19481da8322934532359faf7fa0a68fdb59f0a7afce574fa2152f2b895e1e",
        ),
    ] {
        let call = world.post(path).set("x-tenant", "acme").json(body);
        let call = call.key("8e03978e-40d5-43e8-bc93-6894a57f9324");
        let answer = call.send().await;
        assert_eq!(answer.json()["downstream"], downstream, "{path}");
    }
}
