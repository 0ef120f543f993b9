//! Handlers that are associated functions, whose policy is known only when they run.

use idem_tests::{Call, Script, Setup, World, scenarios};

scenarios![
    an_associated_handler_runs_once_for_a_key,
    an_associated_handler_refuses_another_body_under_one_key,
    an_associated_handler_without_a_key_runs_each_time_and_stores_nothing,
    an_associated_handler_demands_a_key,
    an_associated_handler_demands_a_form_of_keys,
    an_associated_handler_has_its_own_scope_and_operation,
    an_associated_handler_runs_nothing_for_a_malformed_key,
    an_associated_handler_reads_the_key_from_the_header_of_the_application,
    an_associated_handler_refuses_a_body_beyond_the_limit,
    an_associated_handler_refuses_in_the_words_of_the_application,
    an_associated_handler_is_as_it_is_under_a_safe_method,
];

const UUID: &str = "8e03978e-40d5-43e8-bc93-6894a57f9324";

fn pay(world: &World, path: &str) -> Call {
    world.post(path).script(&Script::new("pay"))
}

async fn an_associated_handler_runs_once_for_a_key(world: World) {
    let call = pay(&world, "/associated").key("1");
    let first = call.clone().send().await;
    assert_eq!((first.status, first.replayed()), (201, false));
    call.clone().send().await.assert_replays(&first);
    let other = call.user("bob").send().await;
    assert_eq!((other.status, other.replayed()), (201, false));
    assert_eq!(world.app.effects("pay"), 2);
}

async fn an_associated_handler_refuses_another_body_under_one_key(world: World) {
    let first = pay(&world, "/associated").key("1").send().await;
    assert_eq!(first.status, 201);
    let other = world.post("/associated").script(&Script::new("other"));
    let other = other.key("1").send().await;
    other.assert_refused(409, "key-reused");
    assert_eq!((world.app.effects("pay"), world.app.runs("other")), (1, 0));
}

async fn an_associated_handler_without_a_key_runs_each_time_and_stores_nothing(world: World) {
    for runs in 1..=2 {
        let answer = pay(&world, "/associated").nobody().send().await;
        assert_eq!((answer.status, answer.replayed()), (201, false));
        assert_eq!(world.app.effects("pay"), runs);
    }
    assert_eq!(world.records().await, 0);
    assert_eq!(world.counts().unprotected, 2);
}

async fn an_associated_handler_demands_a_key(world: World) {
    let call = pay(&world, "/associated-required");
    let refused = call.clone().send().await;
    refused.assert_refused(400, "key-missing");
    assert_eq!(world.app.runs("pay"), 0);
    let first = call.clone().key("1").send().await;
    assert_eq!(first.status, 201);
    call.key("1").send().await.assert_replays(&first);
    let put = world.call("PUT", "/associated-required");
    assert_eq!(put.script(&Script::new("put")).send().await.status, 201);
}

async fn an_associated_handler_demands_a_form_of_keys(world: World) {
    let call = pay(&world, "/associated-uuid").set("x-tenant", "acme");
    let refused = call.clone().key("1").send().await;
    refused.assert_refused(400, "key-invalid");
    assert_eq!(world.app.runs("pay"), 0);
    let first = call.clone().key(UUID).send().await;
    assert_eq!(first.status, 201);
    call.key(UUID).send().await.assert_replays(&first);
    assert_eq!(world.app.effects("pay"), 1);
}

async fn an_associated_handler_has_its_own_scope_and_operation(world: World) {
    let call = pay(&world, "/associated-uuid").key(UUID);
    let refused = call.clone().send().await;
    refused.assert_refused(500, "not-configured");
    assert_eq!(world.app.runs("pay"), 0);
    let call = call.set("x-tenant", "acme");
    let first = call.clone().send().await;
    assert_eq!(first.status, 201);
    call.clone().user("bob").send().await.assert_replays(&first);
    let other = call.set("x-tenant", "globex").send().await;
    assert!(!other.replayed());
    assert_eq!(world.app.effects("pay"), 2);
}

async fn an_associated_handler_runs_nothing_for_a_malformed_key(world: World) {
    for key in ["", "a b", "\""] {
        let refused = pay(&world, "/associated").key(key).send().await;
        refused.assert_refused(400, "key-invalid");
    }
    let twice = pay(&world, "/associated")
        .key("a")
        .add("idempotency-key", "a");
    twice.send().await.assert_refused(400, "key-invalid");
    assert_eq!(world.app.runs("pay"), 0);
}

async fn an_associated_handler_reads_the_key_from_the_header_of_the_application(world: World) {
    let setup = Setup {
        header: Some("X-Event-Id"),
        ..Setup::default()
    };
    let world = world.again(setup).await;
    let call = pay(&world, "/associated").set("x-event-id", "1");
    let first = call.clone().send().await;
    assert_eq!(first.status, 201);
    call.send().await.assert_replays(&first);
    let unprotected = pay(&world, "/associated").key("1").send().await;
    assert!(!unprotected.replayed());
    assert_eq!(world.app.effects("pay"), 2);
}

async fn an_associated_handler_refuses_a_body_beyond_the_limit(world: World) {
    let setup = Setup {
        max_request_body: Some(100),
        ..Setup::default()
    };
    let world = world.again(setup).await;
    let script = Script::new(&"x".repeat(200));
    let call = world.post("/associated").script(&script);
    let refused = call.clone().key("1").send().await;
    refused.assert_refused(413, "request-too-large");
    assert_eq!(world.counts().rejected, 1);
    // What is not claimed is not read.
    assert_eq!(call.clone().send().await.status, 201);
    let safe = world.call("GET", "/associated").key("1").script(&script);
    assert_eq!(safe.send().await.status, 201);
}

async fn an_associated_handler_refuses_in_the_words_of_the_application(world: World) {
    let setup = Setup {
        envelope: true,
        ..Setup::default()
    };
    let world = world.again(setup).await;
    for (code, path, key) in [
        ("key-missing", "/associated-required", None),
        ("key-invalid", "/associated-uuid", Some("1")),
        ("not-configured", "/associated-uuid", Some(UUID)),
    ] {
        let call = pay(&world, path).set("x-nonce", code);
        let call = match key {
            Some(key) => call.key(key),
            None => call,
        };
        let envelope = call.send().await.json();
        assert_eq!(envelope["code"], code);
        assert_eq!(envelope["nonce"], code);
        assert_eq!(envelope["uri"], path);
    }
}

async fn an_associated_handler_is_as_it_is_under_a_safe_method(world: World) {
    for runs in 1..=2 {
        let call = world.call("GET", "/associated").key("1");
        let answer = call.script(&Script::new("pay")).send().await;
        assert_eq!((answer.status, answer.replayed()), (201, false));
        assert_eq!(world.app.effects("pay"), runs);
    }
    assert_eq!(world.records().await, 0);
}
