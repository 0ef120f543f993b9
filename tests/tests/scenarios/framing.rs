//! How answers are framed: the first one as without us, a replay anew.

use http_body_util::BodyExt;
use idem_tests::{Connection, Framed, Protocol, Script, Step, World, scenarios, script::Body};

scenarios![
    a_replay_is_framed_by_the_length_of_its_body,
    a_replay_of_the_other_protocol_is_framed_as_that_one_wants,
    a_transfer_coding_is_not_kept,
    an_answer_without_content_is_replayed_as_it_was,
    head_passes_through,
];

// The other framework sends none.
scenarios![on axum:
    the_first_answer_keeps_its_trailers,
    the_first_answer_keeps_its_trailers_over_http2,
];

/// Names that frame a message or belong to one connection.
const OF_A_CONNECTION: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-hop",
];

/// Handlers that frame their own answer, `hello`.
fn framed() -> Vec<Step> {
    let bytes = || Step::default().bytes("hello");
    let chunks = ["hel", "lo"].map(str::to_owned).to_vec();
    vec![
        bytes(),
        bytes().header("content-length", "5"),
        Step::default().body(Body::Declared(chunks)),
        bytes()
            .header("connection", "x-hop")
            .header("x-hop", "1")
            .header("keep-alive", "timeout=5")
            .header("proxy-connection", "keep-alive")
            .header("trailer", "x-sum")
            .header("upgrade", "h2c"),
        Step::default().body(Body::Trailed("hello".to_owned())),
    ]
}

/// B10-02
async fn a_replay_is_framed_by_the_length_of_its_body(world: World) {
    for (n, step) in framed().into_iter().enumerate() {
        let key = format!("pay-{n}");
        let script = Script::new(&key).step(step);
        // On one connection: an answer that is longer or shorter than it says shows in the next.
        let mut connection = world.connect().await;
        let first = exchange(&world, &mut connection, Some(&key), &script).await;
        let replay = exchange(&world, &mut connection, Some(&key), &script).await;
        let again = exchange(&world, &mut connection, Some(&key), &script).await;
        assert_eq!((replay.status, &replay.body), (first.status, &first.body));
        assert_eq!(&replay.body, b"hello", "{script:?}");
        assert_eq!(replay.header("content-length"), Some("5"));
        for name in OF_A_CONNECTION {
            assert_eq!(replay.header(name), None, "{script:?}");
        }
        assert_eq!(without_date(again), without_date(replay));
        assert_eq!(world.app.effects(&key), 1);
    }
}

/// B10-02
async fn a_replay_of_the_other_protocol_is_framed_as_that_one_wants(world: World) {
    let [h1, h2] = Protocol::ALL;
    for (from, to) in [(h1, h2), (h2, h1), (h2, h2)] {
        for (n, step) in framed().into_iter().enumerate() {
            let key = format!("pay-{n}-{from:?}-{to:?}");
            let script = Script::new(&key).step(step);
            let post = world.post("/charge").key(&key).script(&script);
            let first = post.clone().over(from).send().await;
            // HTTP/2 takes an answer with a forbidden header for a broken one.
            let replay = post.over(to).send().await;
            replay.assert_replays(&first);
            assert_eq!(&replay.body[..], b"hello");
            assert_eq!(replay.header("content-length"), Some("5"));
            for name in OF_A_CONNECTION {
                assert_eq!(replay.header(name), None, "{script:?}");
            }
            assert_eq!(world.app.effects(&key), 1);
        }
    }
}

/// B10-02
async fn a_transfer_coding_is_not_kept(world: World) {
    let step = Step::default().header("transfer-encoding", "chunked");
    let script = Script::new("pay").step(step.bytes("hello"));
    let post = world.post("/charge").key("k").script(&script);
    // Over HTTP/1.1 the server refuses to send it, since axum says its length too.
    let first = post.clone().over(Protocol::Http2).send().await;
    assert_eq!(&first.body[..], b"hello");
    for protocol in Protocol::ALL {
        let replay = post.clone().over(protocol).send().await;
        replay.assert_replays(&first);
        assert_eq!(replay.header("content-length"), Some("5"));
        assert_eq!(replay.header("transfer-encoding"), None);
    }
}

/// B10-02
async fn an_answer_without_content_is_replayed_as_it_was(world: World) {
    let steps = [
        Step::status(200).bytes(""),
        Step::status(200).bytes("").header("content-length", "0"),
        Step::status(201)
            .bytes("")
            .header("location", "/payments/7"),
        Step::status(204).bytes("").header("etag", "\"7\""),
        Step::status(205).bytes(""),
        Step::status(303)
            .bytes("")
            .header("location", "/payments/7"),
        Step::status(304).bytes("").header("etag", "\"7\""),
        Step::status(206)
            .bytes("el")
            .header("content-range", "bytes 1-2/5"),
        Step::status(404).bytes(""),
    ];
    for (n, step) in steps.into_iter().enumerate() {
        let key = format!("pay-{n}");
        let script = Script::new(&key).step(step);
        let mut connection = world.connect().await;
        let plain = exchange(&world, &mut connection, None, &script).await;
        let first = exchange(&world, &mut connection, Some(&key), &script).await;
        let replay = exchange(&world, &mut connection, Some(&key), &script).await;
        assert_eq!(without_date(first), without_date(plain.clone()));
        assert_eq!(replay.header("idempotent-replayed"), Some("true"));
        let replay = without_date(replay).without(&["idempotent-replayed"]);
        assert_eq!(sorted(replay), sorted(without_date(plain)));
        assert_eq!(world.app.effects(&key), 2);
    }
}

/// B10-02
async fn the_first_answer_keeps_its_trailers(world: World) {
    let step = Step::default().header("trailer", "x-sum");
    let script = Script::new("pay").step(step.body(Body::ChunkTrailed("hello".to_owned())));
    let mut connection = world.connect().await;
    let plain = exchange(&world, &mut connection, None, &script).await;
    let first = exchange(&world, &mut connection, Some("k"), &script).await;
    assert_eq!(first.trailers, [("x-sum".to_owned(), "7".to_owned())]);
    assert_eq!(without_date(first), without_date(plain));
}

/// B10-02
async fn the_first_answer_keeps_its_trailers_over_http2(world: World) {
    let known = Body::Trailed("hello".to_owned());
    let unknown = Body::ChunkTrailed("hello".to_owned());
    let declared = [("content-length", "5")];
    for (key, body, headers) in [
        ("known", known, &[][..]),
        ("unknown", unknown.clone(), &[]),
        ("declared", unknown, &declared),
    ] {
        let step = Step::default().body(body);
        let step = headers
            .iter()
            .fold(step, |step, (name, value)| step.header(name, value));
        let script = Script::new("pay").step(step);
        let post = world.post("/charge").over(Protocol::Http2).script(&script);
        for post in [post.clone(), post.key(key)] {
            let response = post.open().await.expect("a head");
            let body = http::Response::from(response).into_body();
            let body = body.collect().await.expect("a whole body");
            let trailers = body.trailers().expect("trailers");
            assert_eq!(trailers["x-sum"], "7", "{key}");
            assert_eq!(&body.to_bytes()[..], b"hello");
        }
    }
}

/// R9
async fn head_passes_through(world: World) {
    let script = Script::new("read").step(Step::status(200).bytes("hello"));
    let call = world.call("HEAD", "/read").key("k").script(&script);
    for runs in 1..=2 {
        let answer = call.clone().send().await;
        assert_eq!((answer.status, answer.replayed()), (200, false));
        assert_eq!(answer.header("content-length"), Some("5"));
        assert!(answer.body.is_empty());
        assert_eq!(world.app.runs("read"), runs);
    }
    assert_eq!(world.records().await, 0);
}

/// Sends a script and takes the answer; the connection stays open.
async fn exchange(
    world: &World,
    connection: &mut Connection,
    key: Option<&str>,
    script: &Script,
) -> Framed {
    let post = world.post("/charge").set("te", "trailers").script(script);
    let post = match key {
        Some(key) => post.key(key),
        None => post,
    };
    connection.send(&post).await;
    connection.framed().await
}

fn without_date(answer: Framed) -> Framed {
    answer.without(&["date"])
}

/// With the header lines in the order of their names.
fn sorted(mut answer: Framed) -> Framed {
    answer.headers.sort();
    answer
}
