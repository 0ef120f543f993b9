//! What a client is told when its request is refused: which refusal it is, and what to do.

use std::{collections::BTreeSet, time::Duration};

use bytes::Bytes;
use idem_tests::{Answer, Script, Setup, Step, StoreCall, World, scenarios, script::Body};
use tokio::task::JoinHandle;

scenarios![
    each_refusal_has_a_status_and_a_type_of_its_own,
    the_application_says_where_the_types_point,
    no_refusal_is_marked_as_a_replay,
    a_refusal_is_a_problem_document_whatever_the_client_accepts,
    a_running_request_is_told_apart_from_a_reused_key,
    retry_after_is_no_longer_than_the_lease_and_at_least_one_second,
    retry_after_doubles_with_each_attempt_up_to_thirty_seconds,
    every_refusal_can_be_in_the_applications_own_words,
    the_application_may_set_status_and_headers_too,
    the_applications_words_are_chosen_by_the_request,
    a_refusal_comes_in_the_order_that_protects_the_application,
    without_an_engine_every_request_is_refused,
    without_an_engine_the_log_says_what_to_add,
];

/// A refusal of each kind that the engine has, with its status and its code.
pub(super) type Refused = (u16, &'static str, Answer);

/// Brings about one refusal of each kind. Every key starts with `key`, and `user` and `line` are
/// in every request that can have them.
pub(super) async fn one_of_each(
    world: &World,
    setup: Setup,
    [key, user, line]: [&str; 3],
) -> Vec<Refused> {
    let world = world
        .again(Setup {
            max_request_body: Some(4_096),
            max_stored_body: Some(100),
            ..setup
        })
        .await;
    let script = Script::new(line);
    let call = |path: &str, n: u8| {
        let call = world.post(path).user(user).set("x-nonce", "17");
        call.key(format!("{key}-{n}")).script(&script)
    };
    let step = |step: Step| script.clone().step(step);
    let twice = async |call: idem_tests::Call| {
        call.clone().send().await;
        call.send().await
    };
    let mut refused = Vec::new();

    let answer = world.post("/required").user(user).set("x-nonce", "17");
    let answer = answer.script(&script).send().await;
    refused.push((400, "key-missing", answer));
    let answer = call("/charge", 0).key(format!("{key},{key}")).send().await;
    refused.push((400, "key-invalid", answer));
    let answer = call("/charge", 0).nobody().send().await;
    refused.push((500, "not-configured", answer));
    let answer = call("/charge", 0).guest().send().await;
    refused.push((403, "caller-missing", answer));
    let large = script.clone().extra("x".repeat(4_096));
    let answer = call("/charge", 0).script(&large).send().await;
    refused.push((413, "request-too-large", answer));
    let broken = format!(
        "POST /charge HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Nonce: 17\r\n\
         Authorization: Bearer {user}\r\nIdempotency-Key: {key}\r\n\
         Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nno length\r\n"
    );
    let answer = world.raw(broken).await;
    refused.push((400, "body-incomplete", answer));

    call("/charge", 1).send().await;
    let answer = call("/charge", 1).script(&script.clone().extra(1));
    refused.push((409, "key-reused", answer.send().await));
    let unknown = call("/charge", 2).script(&step(Step::default().outcome("unknown")));
    refused.push((409, "outcome-unknown", twice(unknown).await));
    let large = call("/charge", 3).script(&step(Step::default().body(Body::Large(101))));
    refused.push((409, "response-unavailable", twice(large).await));
    call("/charge", 4).send().await;
    let record = world.record_of(user, "POST /charge", &format!("{key}-4"));
    let spoilt = world
        .store
        .swap_response(&record, Bytes::from_static(b"\xff"))
        .await;
    assert!(spoilt.is_some());
    let answer = call("/charge", 4).send().await;
    refused.push((500, "record-unreadable", answer));
    let held = call("/charge", 5).script(&step(Step::default().gate("gate")));
    let running = tokio::spawn(held.clone().send());
    world.app.gate("gate").arrived(1).await;
    refused.push((409, "in-progress", held.send().await));
    // A claim is tried three times.
    world.store.fail(StoreCall::Claim, 3);
    let answer = call("/charge", 6).send().await;
    refused.push((503, "store-unavailable", answer));
    world.app.gate("gate").open();
    assert_eq!(running.await.expect("an answer").status, 201);
    assert_eq!(world.drain(Duration::from_secs(10)).await.left, 0);
    let answer = call("/charge", 1).send().await;
    refused.push((503, "shutting-down", answer));
    refused
}

/// B09-06
async fn each_refusal_has_a_status_and_a_type_of_its_own(world: World) {
    let refused = one_of_each(&world, Setup::default(), ["k", "ada", "pay"]).await;
    let mut types = BTreeSet::new();
    for (status, code, answer) in &refused {
        answer.assert_refused(*status, code);
        let problem = answer.json();
        assert_eq!(
            problem["type"],
            format!("https://docs.rs/idem-core/latest/idem_core/refusal/{code}")
        );
        assert!(problem["title"].is_string());
        types.insert(problem["type"].to_string());
    }
    assert_eq!(types.len(), refused.len());
}

/// B09-06
async fn the_application_says_where_the_types_point(world: World) {
    for base in ["https://example.com/errors#", "urn:example:errors:"] {
        let setup = Setup {
            problem_base: Some(base),
            ..Setup::default()
        };
        for (_, code, answer) in one_of_each(&world, setup, ["k", "ada", "pay"]).await {
            assert_eq!(answer.json()["type"], format!("{base}{code}"));
        }
    }
}

/// B06-09
async fn no_refusal_is_marked_as_a_replay(world: World) {
    for (_, code, answer) in one_of_each(&world, Setup::default(), ["k", "ada", "pay"]).await {
        assert_eq!(answer.header("idempotent-replayed"), None, "{code}");
    }
}

/// P-17
async fn a_refusal_is_a_problem_document_whatever_the_client_accepts(world: World) {
    for accept in ["", "Accept: text/html\r\n", "Accept: application/cbor\r\n"] {
        let lines = format!("Idempotency-Key:\r\n{accept}");
        let call = world.post("/charge").script(&Script::new("pay"));
        let answer = world.raw(call.to_bytes_with(lines)).await;
        answer.assert_refused(400, "key-invalid");
    }
}

/// Starts a request that waits at the gate of its key.
async fn hold(world: &World, key: &str, script: &Script) -> JoinHandle<Answer> {
    let held = tokio::spawn(world.post("/charge").key(key).script(script).send());
    world.app.gate(key).arrived(1).await;
    held
}

/// P-24
async fn a_running_request_is_told_apart_from_a_reused_key(world: World) {
    let script = Script::new("pay").step(Step::default().gate("k"));
    let running = hold(&world, "k", &script).await;
    let equal = world.post("/charge").key("k").script(&script).send().await;
    let other = world.post("/charge").key("k");
    let other = other.script(&script.clone().extra(1)).send().await;
    equal.assert_refused(409, "in-progress");
    assert_eq!(equal.header("retry-after"), Some("1"));
    other.assert_refused(409, "key-reused");
    assert_eq!(other.header("retry-after"), None);
    world.app.gate("k").open();
    let first = running.await.expect("an answer");
    // What the first refusal said to do.
    let repeated = world.post("/charge").key("k").script(&script).send().await;
    repeated.assert_replays(&first);
}

/// B09-07
async fn retry_after_is_no_longer_than_the_lease_and_at_least_one_second(world: World) {
    let world = world
        .again(Setup {
            lease: Some(Duration::from_secs(30)),
            ..Setup::default()
        })
        .await;
    // The third attempt, so that the hint is four seconds.
    let script = Script::new("pay")
        .step(Step::status(500))
        .then(Step::status(500))
        .then(Step::default().gate("k"));
    let call = world.post("/charge").key("k").script(&script);
    call.clone().send().await;
    call.clone().send().await;
    let running = hold(&world, "k", &script).await;
    let mut left = 30_000;
    for (then, retry_after) in [(30_000, "4"), (3_000, "3"), (1_000, "1"), (600, "1")] {
        world.advance(Duration::from_millis(left - then)).await;
        left = then;
        let busy = call.clone().send().await;
        busy.assert_refused(409, "in-progress");
        assert_eq!(busy.header("retry-after"), Some(retry_after), "{then} ms");
    }
    world.app.gate("k").open();
    running.await.expect("an answer");
}

/// B09-07
async fn retry_after_doubles_with_each_attempt_up_to_thirty_seconds(world: World) {
    let world = world
        .again(Setup {
            lease: Some(Duration::from_mins(1)),
            ..Setup::default()
        })
        .await;
    for (attempt, retry_after) in [(1, "1"), (2, "2"), (3, "4"), (4, "8"), (5, "16"), (7, "30")] {
        let key = format!("k-{attempt}");
        let gated = Step::default().gate(&key);
        let script = match attempt {
            1 => Script::new(&key).step(gated),
            _ => (2..attempt)
                .fold(Script::new(&key).step(Step::status(500)), |script, _| {
                    script.then(Step::status(500))
                })
                .then(gated),
        };
        let call = world.post("/charge").key(&key).script(&script);
        for _ in 1..attempt {
            assert_eq!(call.clone().send().await.status, 500);
        }
        let running = hold(&world, &key, &script).await;
        let busy = call.send().await;
        busy.assert_refused(409, "in-progress");
        assert_eq!(busy.header("retry-after"), Some(retry_after), "{attempt}");
        world.app.gate(&key).open();
        running.await.expect("an answer");
    }
}

/// B09-06
async fn every_refusal_can_be_in_the_applications_own_words(world: World) {
    let setup = Setup {
        envelope: true,
        ..Setup::default()
    };
    for (status, code, answer) in one_of_each(&world, setup, ["k", "ada", "pay"]).await {
        assert_eq!(answer.status, status, "{code}");
        assert_eq!(answer.header("content-type"), Some("application/json"));
        let envelope = answer.json();
        assert_eq!(envelope["success"], false);
        assert_eq!(envelope["code"], code);
        assert_eq!(envelope["message"], "DUPLICATE_REQUEST");
        assert_eq!(envelope["retry_after"].is_u64(), answer_is_retryable(code));
        // The words are a body: status and headers stay those of the refusal.
        let seconds = envelope["retry_after"]
            .as_u64()
            .map(|seconds| seconds.to_string());
        assert_eq!(answer.header("retry-after"), seconds.as_deref(), "{code}");
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{code}");
        assert_eq!(answer.header("idempotent-replayed"), None, "{code}");
    }
}

/// R12
async fn the_application_may_set_status_and_headers_too(world: World) {
    let setup = Setup {
        envelope: true,
        ..Setup::default()
    };
    let world = world.again(setup).await;
    let call = world.post("/charge").key("a,b").script(&Script::new("pay"));
    let answer = call.set("x-refuse-with", "418").send().await;
    assert_eq!(
        (answer.status, answer.header("retry-after")),
        (418, Some("7"))
    );
}

fn answer_is_retryable(code: &str) -> bool {
    matches!(code, "in-progress" | "store-unavailable" | "shutting-down")
}

/// B09-06
async fn the_applications_words_are_chosen_by_the_request(world: World) {
    let setup = Setup {
        envelope: true,
        ..Setup::default()
    };
    for (_, code, answer) in one_of_each(&world, setup, ["k", "ada", "pay"]).await {
        let path = if code == "key-missing" {
            "/required"
        } else {
            "/charge"
        };
        assert_eq!(answer.json()["nonce"], "17", "{code}");
        assert_eq!(answer.json()["uri"], path, "{code}");
    }
}

/// B09-06. Authentication, key, caller, body, validation, record: each mistake hides the later ones.
async fn a_refusal_comes_in_the_order_that_protects_the_application(world: World) {
    let world = world
        .again(Setup {
            max_request_body: Some(4_096),
            ..Setup::default()
        })
        .await;
    let script = Script::new("pay");
    world
        .post("/guarded/argument")
        .key("k")
        .script(&script)
        .send()
        .await;
    world.app.forbid("eve");

    let reused = world.post("/guarded/argument").key("k");
    let reused = reused.script(&script.extra(1));
    reused
        .clone()
        .send()
        .await
        .assert_refused(409, "key-reused");
    let invalid = reused.json("{");
    assert_eq!(invalid.clone().send().await.status, 400);
    assert_eq!(
        invalid.clone().send().await.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
    let large = invalid.body("x".repeat(4_097));
    large
        .clone()
        .send()
        .await
        .assert_refused(413, "request-too-large");
    let empty = large.user(".token");
    empty
        .clone()
        .send()
        .await
        .assert_refused(403, "caller-missing");
    let malformed = empty.key("a,b");
    malformed
        .clone()
        .send()
        .await
        .assert_refused(400, "key-invalid");
    let forbidden = malformed.user("eve").send().await;
    assert_eq!((forbidden.status, forbidden.body.len()), (403, 0));
    assert_eq!(world.app.runs("pay"), 1);
}

/// Every kind of method.
const METHODS: &[&str] = &[
    "GET", "HEAD", "OPTIONS", "TRACE", "POST", "PUT", "PATCH", "DELETE", "QUERY", "FROB",
];

async fn without_an_engine(world: &World) -> World {
    world
        .again(Setup {
            no_engine: true,
            ..Setup::default()
        })
        .await
}

/// B09-06. With a key or without, so that the first request shows it.
async fn without_an_engine_every_request_is_refused(world: World) {
    let world = without_an_engine(&world).await;
    for method in METHODS {
        let call = world.call(method, "/charge").script(&Script::new("pay"));
        for call in [call.clone(), call.key("k")] {
            let answer = call.send().await;
            if *method == "HEAD" {
                assert_eq!(answer.status, 500);
            } else {
                answer.assert_refused(500, "not-configured");
            }
        }
    }
    assert_eq!(world.app.runs("pay"), 0);
}

/// B09-06
async fn without_an_engine_the_log_says_what_to_add(world: World) {
    let world = without_an_engine(&world).await;
    world
        .post("/charge")
        .script(&Script::new("pay"))
        .send()
        .await;
    let logs = world.logs();
    let errors: Vec<_> = logs.iter().filter(|line| line.contains("ERROR")).collect();
    let [error] = errors[..] else {
        panic!("{errors:?}");
    };
    assert!(
        error.contains("no `Idempotency` is installed; add `"),
        "{error}"
    );
    assert!(error.contains("::charge"), "{error}");
}
