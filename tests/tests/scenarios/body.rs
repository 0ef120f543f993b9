//! The body of the request: who sees it, when it is read, and what becomes of half a one.

use bytes::Bytes;
use idem_tests::{
    Answer, Call, Connection, Framed, Framework, Protocol, Script, Step, StoreCall, World, logs,
    scenarios, script::Body,
};
use serde_json::{Value, json};

scenarios![
    every_extractor_sees_what_it_sees_without_a_key,
    a_body_of_any_size_reaches_the_handler_as_it_was_sent,
    the_handler_sees_the_same_request_with_a_key,
    the_last_extractor_sees_the_same_request_with_a_key,
    a_client_that_waits_for_100_continue_gets_it,
    the_last_extractor_finds_what_the_others_left_and_the_trailers,
    a_body_without_a_key_streams_into_the_handler,
    a_request_without_a_key_stores_nothing,
    an_extractor_refuses_before_the_body_is_read,
    a_bad_key_is_refused_before_the_body_is_read,
    a_missing_caller_is_refused_before_the_body_is_read,
    what_the_last_extractor_refuses_is_its_own_answer,
    a_refused_body_leaves_its_key_free,
    a_client_that_leaves_mid_upload_makes_no_claim,
    an_upload_that_is_reset_makes_no_claim,
];

const FORM: &str = "application/x-www-form-urlencoded";
const MULTIPART: &str = "multipart/form-data; boundary=x";
const PARTS: &str = "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--x--\r\n";

/// B12-01
async fn every_extractor_sees_what_it_sees_without_a_key(world: World) {
    let requests: [(&str, &str, &[u8]); 9] = [
        ("/echo/json", "application/json", br#"{"b":1,"a":[2]}"#),
        ("/echo/form", FORM, b"b=1&a=%202"),
        ("/echo/raw-form", FORM, b"b=1&a=%202"),
        ("/echo/bytes", "application/pdf", b"\x00\xff\r\n\r\n"),
        ("/echo/string", "text/plain", "zażółć".as_bytes()),
        ("/echo/multipart", MULTIPART, PARTS.as_bytes()),
        ("/echo/request", "application/pdf", b"\x00\xff\r\n\r\n"),
        ("/echo/body", "application/pdf", b"\x00\xff\r\n\r\n"),
        ("/echo/nothing", "application/pdf", b"\x00\xff\r\n\r\n"),
    ];
    for (path, content_type, body) in requests {
        let call = |call: Call| {
            call.set("content-type", content_type)
                .set("x-custom", "kept")
                .body(body)
        };
        for protocol in Protocol::ALL {
            let post = world.post(path).over(protocol);
            let key = format!("{protocol:?}");
            let plain = call(post.clone()).send().await;
            let first = call(post.clone()).key(&key).send().await;
            let again = call(post).key(&key).send().await;
            assert_eq!(plain.status, 200, "{path}: {plain:?}");
            assert_eq!(first.json(), plain.json(), "{path} {key}");
            assert_eq!(first.json()["custom"], "kept");
            again.assert_replays(&first);
        }
    }
}

/// B12-01
async fn a_body_of_any_size_reaches_the_handler_as_it_was_sent(world: World) {
    let bodies = [String::new(), "1".to_owned(), "x".repeat(1024 * 1024)];
    for path in ["/echo/bytes", "/echo/string", "/echo/request", "/echo/body"] {
        for body in &bodies {
            let key = body.len().to_string();
            let call = || world.post(path).body(body.clone());
            let plain = call().send().await;
            let first = call().key(&key).send().await;
            assert_eq!(first.status, 200, "{path} {key}");
            assert_eq!(first.body, plain.body, "{path} {key}");
            assert_eq!(first.json()["body"], *body, "{path} {key}");
        }
    }
}

/// B12-01
async fn the_handler_sees_the_same_request_with_a_key(world: World) {
    let script = Script::new("seen").step(Step::status(200).body(Body::Seen));
    let path = "/nested/acme/accounts/7/charge?b=%20&a";
    for protocol in Protocol::ALL {
        let of_the_attempt = |answer: Answer| {
            let mut seen = answer.json();
            for name in ["attempt", "fence", "downstream"] {
                seen[name] = Value::Null;
            }
            seen
        };
        let post = world.post(path).over(protocol).script(&script);
        let plain = of_the_attempt(post.clone().send().await);
        let keyed = of_the_attempt(post.key(format!("{protocol:?}")).send().await);
        assert_eq!(keyed, plain);
        assert_seen(&keyed, path, "/nested/{tenant}/accounts/{id}/charge");
    }
}

/// B12-01
async fn the_last_extractor_sees_the_same_request_with_a_key(world: World) {
    let path = "/echo/acme/seen/7?b=%20&a";
    for protocol in Protocol::ALL {
        let post = world.post(path).over(protocol).body("anything");
        let plain = post.clone().send().await.json();
        let keyed = post.key(format!("{protocol:?}")).send().await.json();
        assert_eq!(keyed, plain);
        assert_seen(&keyed, path, "/echo/{tenant}/seen/{id}");
    }
}

#[track_caller]
fn assert_seen(seen: &Value, path: &str, route: &str) {
    let uri = seen["uri"].as_str().expect("a text");
    assert!(uri.ends_with(path), "{uri}");
    assert_eq!(seen["route"], route);
    assert_eq!(seen["params"], json!({ "tenant": "acme", "id": "7" }));
    assert_eq!(seen["user"], "ada");
    assert_eq!(seen["peer"], "127.0.0.1");
}

/// B12-01
async fn a_client_that_waits_for_100_continue_gets_it(world: World) {
    let mut connection = world.connect().await;
    let waits = [
        ("content-length", "5"),
        ("expect", "100-continue"),
        ("idempotency-key", "k"),
    ];
    connection.head("/echo/bytes", &waits).await;
    assert_eq!(connection.take_head().await.status, 100);
    connection.write(b"hello").await;
    let answer = connection.framed().await;
    assert_eq!(answer.status, 200);
    let seen: Value = serde_json::from_slice(&answer.body).expect("json");
    assert_eq!(seen["body"], "hello");
}

/// B12-01
async fn the_last_extractor_finds_what_the_others_left_and_the_trailers(world: World) {
    let mut answers = Vec::new();
    for key in [&[][..], &[("idempotency-key", "k")]] {
        let mut connection = world.connect().await;
        let chunked = [("transfer-encoding", "chunked"), ("trailer", "x-sum")];
        connection
            .head("/echo/request", &[&chunked, key].concat())
            .await;
        connection.chunk("hello").await;
        connection.write(b"0\r\nx-sum: 7\r\n\r\n").await;
        let answer = connection.framed().await;
        let seen: Value = serde_json::from_slice(&answer.body).expect("json");
        assert_eq!(seen["body"], "hello");
        assert_eq!(seen["noted"], true);
        answers.push(seen);
    }
    if world.framework() == Framework::Axum {
        assert_eq!(answers[0]["sum"], "7");
    }
    assert_eq!(answers[1], answers[0]);
}

/// B12-01
async fn a_body_without_a_key_streams_into_the_handler(world: World) {
    let mut connection = world.connect().await;
    connection
        .head("/echo/stream", &[("transfer-encoding", "chunked")])
        .await;
    connection.chunk("one").await;
    assert_eq!(connection.take_head().await.status, 200);
    assert_eq!(connection.take_chunk().await, b"one");
    // The second chunk is sent only now, so that the first one was not held back.
    connection.chunk("two").await;
    assert_eq!(connection.take_chunk().await, b"two");
    connection.chunk("").await;
    assert_eq!(connection.take_chunk().await, b"");
}

/// B12-01
async fn a_request_without_a_key_stores_nothing(world: World) {
    let script = Script::new("pay");
    for runs in 1..=2 {
        let answer = world.post("/charge").script(&script).send().await;
        assert_eq!((answer.status, answer.replayed()), (201, false));
        assert_eq!(world.app.effects("pay"), runs);
    }
    assert_eq!((world.records().await, claims(&world)), (0, 0));
}

/// B12-01
async fn an_extractor_refuses_before_the_body_is_read(world: World) {
    world.app.forbid("ada");
    let mut connection = world.connect().await;
    connection.head("/guarded/argument", &announced("k")).await;
    assert_eq!(early(&world, &mut connection).await.status, 403);
    let mut connection = world.connect().await;
    connection
        .write(
            b"POST /guarded/argument HTTP/1.1\r\nHost: test\r\nContent-Length: 1000000\r\n\
         Expect: 100-continue\r\nIdempotency-Key: k\r\n\r\n",
        )
        .await;
    assert_eq!(early(&world, &mut connection).await.status, 401);
    assert_eq!(claims(&world), 0);
}

/// B12-01
async fn a_bad_key_is_refused_before_the_body_is_read(world: World) {
    let mut connection = world.connect().await;
    connection.head("/charge", &announced("not, one")).await;
    assert_problem(&world, &mut connection, 400, "key-invalid").await;
}

/// B12-01
async fn a_missing_caller_is_refused_before_the_body_is_read(world: World) {
    for (authorization, status, code) in [
        ("Authorization: Anonymous\r\n", 403, "caller-missing"),
        ("", 500, "not-configured"),
    ] {
        let mut connection = world.connect().await;
        let head = format!(
            "POST /charge HTTP/1.1\r\nHost: test\r\nContent-Length: 1000000\r\n\
             Idempotency-Key: k\r\n{authorization}\r\n"
        );
        connection.write(head.as_bytes()).await;
        assert_problem(&world, &mut connection, status, code).await;
    }
}

/// B12-01, R6
async fn what_the_last_extractor_refuses_is_its_own_answer(world: World) {
    let requests: [(&str, &str, &[u8]); 8] = [
        ("/charge", "application/json", b""),
        ("/charge", "application/json", b"{"),
        ("/charge", "application/json", b"{}"),
        ("/charge", "text/plain", b"{}"),
        ("/echo/form", "application/json", b"a=1"),
        ("/echo/raw-form", "application/json", b"a=1"),
        ("/echo/string", "text/plain", b"\xff"),
        ("/echo/multipart", "multipart/form-data", PARTS.as_bytes()),
    ];
    for (path, content_type, body) in requests {
        let lenient = ["/echo/raw-form", "/echo/multipart"].contains(&path);
        if lenient && world.framework() == Framework::Actix {
            // It has no raw form, and tells a bad multipart body when it is read.
            continue;
        }
        let call = || {
            world
                .post(path)
                .set("content-type", content_type)
                .body(body)
        };
        let plain = call().send().await;
        assert!((400..=422).contains(&plain.status), "{path}: {plain:?}");
        for _ in 0..2 {
            let keyed = call().key("k").send().await;
            assert_eq!(
                (keyed.status, &keyed.body),
                (plain.status, &plain.body),
                "{path}"
            );
            assert_eq!(keyed.header("content-type"), plain.header("content-type"));
            assert!(!keyed.replayed());
        }
        assert_eq!(claims(&world), 0, "{path}");
    }
}

/// B12-01, R6
async fn a_refused_body_leaves_its_key_free(world: World) {
    for (n, content_type) in ["application/json", "text/plain"].into_iter().enumerate() {
        let line = format!("pay {n}");
        let call = || world.post("/charge").key(n.to_string());
        let refused = call()
            .set("content-type", content_type)
            .body("{")
            .send()
            .await;
        assert!((400..=422).contains(&refused.status), "{refused:?}");
        let corrected = call().script(&Script::new(&line)).send().await;
        assert_eq!((corrected.status, corrected.replayed()), (201, false));
        assert_eq!(world.app.effects(&line), 1);
    }
}

/// P-07
async fn a_client_that_leaves_mid_upload_makes_no_claim(world: World) {
    let (body, half) = halved(&Script::new("pay"));
    let length = body.len().to_string();
    let sized = ("content-length", length.as_str());
    let chunked = ("transfer-encoding", "chunked");
    let chunk_size = format!("{:x}\r\n", body.len());
    let request = world.own("half");
    for (framing, sent) in [
        (sized, Vec::new()),
        (sized, half.to_vec()),
        (chunked, Vec::new()),
        (chunked, [chunk_size.as_bytes(), &half].concat()),
        (chunked, b"no length\r\n".to_vec()),
    ] {
        let mut connection = world.connect().await;
        let headers = [
            ("content-type", "application/json"),
            ("idempotency-key", "k"),
            ("x-request-id", &request),
            framing,
        ];
        connection.head("/charge", &headers).await;
        connection.write(&sent).await;
        let answer = connection.hang_up().await.escape_ascii().to_string();
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 400"),
            "{answer}"
        );
        assert_eq!((world.app.runs("pay"), claims(&world)), (0, 0));
    }
    let lines = logs::lines_with(&format!("request_id={request:?}"));
    assert!(!lines.is_empty(), "the span tells the lines of a request");
    // A panic would be one of them.
    assert!(
        !lines.iter().any(|line| line.contains("ERROR")),
        "{lines:#?}"
    );

    let answer = world.post("/charge").key("k").json(body).send().await;
    assert_eq!((answer.status, answer.replayed()), (201, false));
    assert_eq!(world.app.effects("pay"), 1);
}

/// P-07
async fn an_upload_that_is_reset_makes_no_claim(world: World) {
    let (body, half) = halved(&Script::new("pay"));
    let post = world.post("/charge").key("k");
    for protocol in Protocol::ALL {
        let post = post
            .clone()
            .over(protocol)
            .set("content-type", "application/json");
        let broken = post.break_off(vec![half.clone()]).await;
        broken.expect_err("the request has no end");
    }
    let answer = post.json(body).send().await;
    assert_eq!((answer.status, answer.replayed()), (201, false));
    assert_eq!((world.app.runs("pay"), claims(&world)), (1, 1));
}

/// How often a key was claimed, successfully or not.
fn claims(world: &World) -> usize {
    world.store.done(StoreCall::Claim)
}

/// A body, and a half of it that the handler would take for a whole one.
fn halved(script: &Script) -> (Bytes, Bytes) {
    let mut body = serde_json::to_vec(script).expect("json");
    let half = body.len();
    body.resize(2 * half, b' ');
    let body = Bytes::from(body);
    (body.clone(), body.slice(..half))
}

/// Headers that announce a body, which is not sent before the server asks for it.
fn announced(key: &str) -> [(&str, &str); 4] {
    [
        ("content-length", "1000000"),
        ("content-type", "application/json"),
        ("expect", "100-continue"),
        ("idempotency-key", key),
    ]
}

/// An answer to a request whose body is still to come.
async fn early(world: &World, connection: &mut Connection) -> Framed {
    let answer = connection.framed().await;
    if world.framework() == Framework::Actix && answer.status == 100 {
        // It asks for the body before it calls the handler, whether that reads it or not.
        return connection.framed().await;
    }
    answer
}

async fn assert_problem(world: &World, connection: &mut Connection, status: u16, code: &str) {
    let answer = early(world, connection).await;
    let problem: Value = serde_json::from_slice(&answer.body).expect("json");
    assert_eq!(
        (answer.status, problem["code"].as_str()),
        (status, Some(code))
    );
}
