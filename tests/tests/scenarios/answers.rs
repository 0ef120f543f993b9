//! What a client is told when all is well: the first answer, and its replay.

use futures_util::{StreamExt, stream};
use idem_tests::{Answer, Framework, Script, Setup, Step, World, scenarios};

scenarios![
    the_second_request_gets_the_first_answer,
    every_status_is_replayed_as_it_was,
    an_answer_without_a_body_is_replayed_without_one,
    every_body_is_replayed_byte_for_byte,
    every_replay_is_marked_whatever_its_status,
    a_first_answer_is_not_marked,
    a_marker_of_the_handlers_own_is_not_replayed,
    the_marker_is_named_by_the_application,
    the_first_answer_is_what_the_handler_sends_without_a_key,
    header_lines_are_replayed_raw_and_in_order,
    headers_of_the_first_exchange_are_not_replayed,
    headers_of_the_first_exchange_are_replayed_if_the_application_keeps_them,
    headers_that_frame_a_message_are_never_replayed,
    a_header_is_not_replayed_if_the_application_drops_it,
    the_date_is_that_of_the_replay,
];

const MARKER: &str = "idempotent-replayed";

/// The header lines of an answer, but those of these names.
fn lines<'a>(world: &World, answer: &'a Answer, but: &[&str]) -> Vec<(&'a str, &'a [u8])> {
    let lines = answer.headers.iter();
    let lines = lines.map(|(name, value)| (name.as_str(), value.as_bytes()));
    let mut lines: Vec<_> = lines.filter(|(name, _)| !but.contains(name)).collect();
    if world.framework() == Framework::Actix {
        // It sends headers of different names in any order.
        lines.sort_by_key(|(name, _)| *name);
    }
    lines
}

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

/// B10-04. What is not stored by itself is kept by the handler's own word.
async fn every_status_is_replayed_as_it_was(world: World) {
    let replay = async |status: u16| {
        let line = status.to_string();
        let script = Script::new(&line).step(Step::status(status).outcome("keep"));
        let call = world.post("/charge").key(&line).script(&script);
        let first = call.clone().send().await;
        let second = call.send().await;
        assert_eq!(first.status, status);
        second.assert_replays(&first);
        assert_eq!(world.app.effects(&line), 1);
    };
    stream::iter(200..=599).for_each_concurrent(8, replay).await;
}

/// B10-04
async fn an_answer_without_a_body_is_replayed_without_one(world: World) {
    for status in [200, 204, 205, 304] {
        let script = Script::new("pay").step(Step::status(status).bytes(""));
        let call = world.post("/charge").key(status.to_string());
        let request = call.script(&script).to_bytes();
        let first = world.raw(&request).await;
        let second = world.raw(&request).await;
        second.assert_replays(&first);
        assert_eq!((second.status, &*second.body), (status, &b""[..]));
        assert_eq!(second.header("content-type"), None);
        assert_eq!(
            lines(&world, &second, &[MARKER, "date"]),
            lines(&world, &first, &["date"])
        );
    }
}

/// B10-07
async fn every_body_is_replayed_byte_for_byte(world: World) {
    let every_byte: Vec<u8> = (0..=255).collect();
    let bodies: [&[u8]; 6] = [
        b"{\"b\":1,\"a\":1.0,  \"c\":\"\\u0000\", \"a\":01}\r\n",
        b"\xef\xbb\xbf{}",
        b"not utf-8: \xff\xfe",
        b"",
        b"\0",
        &every_byte,
    ];
    for (index, body) in bodies.into_iter().enumerate() {
        let step = Step::default()
            .bytes(body)
            .header("content-type", "application/json")
            .header("x-signature", index.to_string());
        let call = world
            .post("/charge")
            .key(index.to_string())
            .script(&Script::new("pay").step(step));
        let first = call.clone().send().await;
        let second = call.send().await;
        assert_eq!(first.body, body);
        second.assert_replays(&first);
        assert_eq!(second.header("content-type"), Some("application/json"));
        assert_eq!(
            second.header("x-signature"),
            Some(index.to_string().as_str())
        );
    }
}

/// B06-09
async fn every_replay_is_marked_whatever_its_status(world: World) {
    for status in [200, 201, 204, 303, 304, 400, 402, 404, 409, 422] {
        let script = Script::new("pay").step(Step::status(status));
        let call = world
            .post("/charge")
            .key(status.to_string())
            .script(&script);
        let first = call.clone().send().await;
        for _ in 0..3 {
            call.clone().send().await.assert_replays(&first);
        }
    }
}

/// B06-09
async fn a_first_answer_is_not_marked(world: World) {
    for status in [200, 201, 402, 500] {
        let script = Script::new("pay").step(Step::status(status));
        let call = world.post("/charge").script(&script);
        let protected = call.clone().key(status.to_string()).send().await;
        let unprotected = call.send().await;
        assert_eq!(protected.header("idempotent-replayed"), None);
        assert_eq!(unprotected.header("idempotent-replayed"), None);
    }
}

/// B06-09. It is what a handler passes on that calls another service with a key.
async fn a_marker_of_the_handlers_own_is_not_replayed(world: World) {
    let step = Step::default()
        .header("idempotent-replayed", "false")
        .header("idempotent-replayed", "perhaps");
    let script = Script::new("pay").step(step);
    let call = world.post("/charge").key("k").script(&script);
    let first = call.clone().send().await;
    let second = call.send().await;
    assert_eq!(
        first.all("idempotent-replayed"),
        [&b"false"[..], b"perhaps"]
    );
    assert_eq!(second.all("idempotent-replayed"), [b"true"]);
    assert_eq!(second.body, first.body);
}

/// B06-09
async fn the_marker_is_named_by_the_application(world: World) {
    let world = world
        .again(Setup {
            replay_marker: Some("X-Replayed"),
            ..Setup::default()
        })
        .await;
    let script = Script::new("pay").step(Step::default().header("idempotent-replayed", "false"));
    let call = world.post("/charge").key("k").script(&script);
    let first = call.clone().send().await;
    let second = call.send().await;
    assert_eq!(first.header("x-replayed"), None);
    assert_eq!(second.header("x-replayed"), Some("true"));
    // The usual name is the handler's own then.
    assert_eq!(second.header("idempotent-replayed"), Some("false"));
}

/// Headers that a replay is to have, as a handler sets them.
fn kept() -> Step {
    Step::status(201)
        .bytes("paid")
        .header("location", "/payments/7")
        .header("link", "</a>; rel=\"next\", </b>")
        .header("content-type", "text/plain; charset=latin1")
        .header("x-latin", b"caf\xe9")
        .header("link", "</c>")
        .header("etag", "W/\"7\"")
        .header("last-modified", "Thu, 01 Jan 1970 00:00:00 GMT")
        .header("content-language", "de, en")
        .header("content-disposition", "attachment; filename=\"a, b\"")
        .header("content-location", "/payments/7")
        .header("content-encoding", "identity")
        .header("cache-control", "private")
        .header("expires", "0")
        .header("vary", "accept")
        .header("vary", "origin")
        .header("retry-after", "120")
        .header("deprecation", "@1")
        .header("sunset", "Thu, 01 Jan 2032 00:00:00 GMT")
        .header("x-empty", "")
}

/// P-06
async fn the_first_answer_is_what_the_handler_sends_without_a_key(world: World) {
    let step = kept()
        .header("set-cookie", "a=1; Path=/")
        .header("set-cookie", "b=2")
        .header("x-request-id", "17")
        .header("date", "Thu, 01 Jan 1970 00:00:00 GMT");
    let call = world.post("/charge").script(&Script::new("pay").step(step));
    let unprotected = world.raw(call.to_bytes()).await;
    let protected = world.raw(call.key("k").to_bytes()).await;
    assert_eq!(
        lines(&world, &protected, &[]),
        lines(&world, &unprotected, &[])
    );
    assert_eq!(
        (protected.status, &protected.body),
        (201, &unprotected.body)
    );
    assert_eq!(protected.all("set-cookie"), [&b"a=1; Path=/"[..], b"b=2"]);
}

/// P-06, B10-05
async fn header_lines_are_replayed_raw_and_in_order(world: World) {
    let script = Script::new("pay").step(kept());
    let request = world.post("/charge").key("k").script(&script).to_bytes();
    let first = world.raw(&request).await;
    let second = world.raw(&request).await;
    second.assert_replays(&first);
    assert_eq!(
        lines(&world, &second, &[MARKER, "date"]),
        lines(&world, &first, &["date"])
    );
    let links = [&b"</a>; rel=\"next\", </b>"[..], b"</c>"];
    assert_eq!(second.all("link"), links);
    assert_eq!(second.all("x-latin"), [b"caf\xe9"]);
}

/// Headers that speak of the first exchange, with those that a prefix covers.
const OF_ONE_EXCHANGE: &[&str] = &[
    "access-control-allow-credentials",
    "access-control-allow-origin",
    "access-control-expose-headers",
    "age",
    "alt-svc",
    "authentication-info",
    "nel",
    "ratelimit",
    "ratelimit-policy",
    "ratelimit-remaining",
    "report-to",
    "request-id",
    "server",
    "server-timing",
    "set-cookie",
    "strict-transport-security",
    "traceparent",
    "tracestate",
    "via",
    "www-authenticate",
    "x-ratelimit-remaining",
    "x-request-id",
];

fn with_headers(names: &[&str]) -> Script {
    let step = names
        .iter()
        .fold(Step::default(), |step, name| step.header(name, "1"));
    Script::new("pay").step(step.header("x-application", "1"))
}

/// B10-05, P-27
async fn headers_of_the_first_exchange_are_not_replayed(world: World) {
    let script = with_headers(OF_ONE_EXCHANGE);
    let call = world.post("/charge").key("k").script(&script);
    let first = call.clone().send().await;
    let second = call.send().await;
    second.assert_replays(&first);
    for name in OF_ONE_EXCHANGE {
        assert_eq!(first.all(name), [b"1"], "{name}");
        assert!(second.all(name).is_empty(), "{name}");
    }
    assert_eq!(second.header("x-application"), Some("1"));
}

/// B10-05
async fn headers_of_the_first_exchange_are_replayed_if_the_application_keeps_them(world: World) {
    let world = world
        .again(Setup {
            keep_headers: OF_ONE_EXCHANGE.to_vec(),
            ..Setup::default()
        })
        .await;
    let script = with_headers(OF_ONE_EXCHANGE);
    let call = world.post("/charge").key("k").script(&script);
    call.clone().send().await;
    let second = call.send().await;
    for name in OF_ONE_EXCHANGE {
        assert_eq!(second.all(name), [b"1"], "{name}");
    }
}

/// B10-05. `Transfer-Encoding` is not among them: axum cannot send it beside a known length.
async fn headers_that_frame_a_message_are_never_replayed(world: World) {
    let step = Step::default()
        .header("connection", "X-One-Hop, close")
        .header("x-one-hop", "1")
        .header("keep-alive", "timeout=5")
        .header("proxy-authenticate", "Basic")
        .header("proxy-authorization", "Basic")
        .header("proxy-connection", "close")
        .header("te", "trailers")
        .header("trailer", "x-sum")
        .header("upgrade", "h2c")
        .header("x-application", "1")
        .bytes("paid");
    let script = Script::new("pay").step(step);
    let call = world.post("/charge").key("k").script(&script);
    let call = call.set("connection", "close");
    world.raw(call.to_bytes()).await;
    let second = world.raw(call.to_bytes()).await;
    let mut kept = lines(&world, &second, &["connection", "content-length", "date"]);
    kept.sort_unstable();
    assert_eq!(kept, [(MARKER, &b"true"[..]), ("x-application", b"1")]);
    // Of this connection, since the request asked for it, and of this message.
    assert_eq!(second.header("connection"), Some("close"));
    assert_eq!(second.header("content-length"), Some("4"));
    assert_eq!(&*second.body, b"paid");
}

/// B10-05
async fn a_header_is_not_replayed_if_the_application_drops_it(world: World) {
    let world = world
        .again(Setup {
            drop_headers: vec!["X-Internal"],
            ..Setup::default()
        })
        .await;
    let script = with_headers(&["x-internal"]);
    let call = world.post("/charge").key("k").script(&script);
    let first = call.clone().send().await;
    let second = call.send().await;
    assert_eq!(first.header("x-internal"), Some("1"));
    assert_eq!(second.header("x-internal"), None);
    assert_eq!(second.header("x-application"), Some("1"));
}

/// B10-05
async fn the_date_is_that_of_the_replay(world: World) {
    let step = Step::default().header("date", "Thu, 01 Jan 1970 00:00:00 GMT");
    let script = Script::new("pay").step(step);
    let call = world.post("/charge").key("k").script(&script);
    let first = call.clone().send().await;
    let second = call.send().await;
    assert_eq!(first.header("date"), Some("Thu, 01 Jan 1970 00:00:00 GMT"));
    assert!(
        second
            .header("date")
            .is_some_and(|date| date.ends_with(" GMT")),
        "{second:?}"
    );
    assert_ne!(second.header("date"), first.header("date"));
}
