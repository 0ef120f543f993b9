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
    let script = Script::new("spans-1").step(Step::default().gate("g"));
    let call = traced(&world, "spans-1").script(&script);
    let call = tokio::spawn(call.send());
    world.app.gate("g").arrived(1).await;
    world.app.gate("g").open();
    assert_eq!(call.await.expect("it ends").status, 201);
    assert_spans("spans-1");
}

/// B12-02
async fn a_handler_whose_client_left_keeps_the_span_of_its_request(world: World) {
    let setup = Setup {
        wait: Some(Duration::from_secs(10)),
        ..Setup::default()
    };
    let world = world.again(setup).await;
    let script = Script::new("spans-2").step(Step::default().gate("g"));
    let call = traced(&world, "spans-2").script(&script);
    let retry = call.clone().set("x-request-id", "retry");
    let call = tokio::spawn(call.send());
    world.app.gate("g").arrived(1).await;
    call.abort();
    world.until(|counts| counts.detached == 1).await;
    world.app.gate("g").open();
    assert!(retry.send().await.replayed());
    assert_spans("spans-2");
}

/// B12-02
async fn each_request_has_its_own_span_whoever_ran_the_handler(world: World) {
    let script = Script::new("spans-3");
    let post = world.post("/traced").key("k").script(&script);
    for request in ["spans-3-first", "spans-3-second"] {
        let answer = post.clone().set("x-request-id", request).send().await;
        assert_eq!(answer.status, 201);
    }
    assert_eq!(lines_of("spans-3-first", "executed, kept").len(), 1);
    assert_eq!(lines_of("spans-3-second", "handler has").len(), 0);
    assert_eq!(lines_of("spans-3-second", ": replayed").len(), 1);
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
