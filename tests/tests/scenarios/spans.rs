//! What is logged while a handler runs belongs to its request.

use std::time::Duration;

use idem_tests::{Call, Script, Setup, Step, World, logs, scenarios};

scenarios![
    each_line_of_a_handler_carries_the_span_of_its_request,
    a_handler_whose_client_left_keeps_the_span_of_its_request,
    each_request_has_its_own_span_whoever_ran_the_handler,
];

/// B12-02
async fn each_line_of_a_handler_carries_the_span_of_its_request(world: World) {
    let request = world.own("spans");
    let script = Script::new(&request).step(Step::default().gate("g"));
    let call = traced(&world, &request).script(&script);
    let call = tokio::spawn(call.send());
    world.app.gate("g").arrived(1).await;
    world.app.gate("g").open();
    assert_eq!(call.await.expect("it ends").status, 201);
    assert_spans(&request);
}

/// B12-02
async fn a_handler_whose_client_left_keeps_the_span_of_its_request(world: World) {
    let setup = Setup {
        wait: Some(Duration::from_secs(10)),
        ..Setup::default()
    };
    let world = world.again(setup).await;
    let request = world.own("spans");
    let script = Script::new(&request).step(Step::default().gate("g"));
    let call = traced(&world, &request).script(&script);
    let retry = call.clone().set("x-request-id", "retry");
    let call = tokio::spawn(call.send());
    world.app.gate("g").arrived(1).await;
    call.abort();
    world.until_left(1).await;
    world.app.gate("g").open();
    assert!(retry.send().await.replayed());
    assert_spans(&request);
}

/// B12-02
async fn each_request_has_its_own_span_whoever_ran_the_handler(world: World) {
    let post = world.post("/traced").key("k").script(&Script::new("pay"));
    let [first, second] = ["first", "second"].map(|request| world.own(request));
    for request in [&first, &second] {
        let answer = post.clone().set("x-request-id", request).send().await;
        assert_eq!(answer.status, 201);
    }
    assert_eq!(lines_of(&first, "executed, kept").len(), 1);
    assert_eq!(lines_of(&second, "handler has").len(), 0);
    assert_eq!(lines_of(&second, ": replayed").len(), 1);
}

fn traced(world: &World, request: &str) -> Call {
    let post = world.post("/traced").key(request);
    post.set("x-request-id", request)
}

/// That the handler's lines, before and after it waited, are in its own span and in that of its
/// request, and that ours are in that of the request.
#[track_caller]
fn assert_spans(request: &str) {
    let span = format!(" request{{request_id={request:?}}}:");
    for text in ["handler has begun", "handler has done its work"] {
        let lines = logs::lines_with(&format!("{text} line={request:?}"));
        let [line] = &lines[..] else {
            panic!("{text}: {lines:#?}");
        };
        assert!(line.contains(&format!("{span}traced: ")), "{line}");
    }
    assert_eq!(lines_of(request, "executed, kept").len(), 1);
}

/// The lines of a request that contain `text`.
fn lines_of(request: &str, text: &str) -> Vec<String> {
    let mut lines = logs::lines_with(&format!("request_id={request:?}"));
    lines.retain(|line| line.contains(text));
    lines
}
