//! Which requests are protected: by their method, and by whether they must carry a key.

use idem_core::{Counts, Required};
use idem_tests::{Script, Setup, World, scenarios};

scenarios![
    a_safe_method_runs_each_time_and_its_key_is_ignored,
    the_key_of_a_safe_method_is_not_even_read,
    a_safe_method_leaves_the_key_to_the_others,
    every_other_method_runs_once_for_a_key,
    a_key_is_demanded_of_the_methods_that_the_handler_names,
    a_refusal_of_a_missing_key_says_which_header_to_send,
    without_a_key_a_request_runs_each_time_and_is_counted,
];

const SAFE: &[&str] = &["GET", "HEAD", "OPTIONS", "TRACE"];

/// Methods are compared as they were sent: `post` is a method of its own.
const UNSAFE: &[&str] = &[
    "POST", "PUT", "PATCH", "DELETE", "QUERY", "LINK", "FROB", "post", "get",
];

/// B09-08, B09-10
async fn a_safe_method_runs_each_time_and_its_key_is_ignored(world: World) {
    for path in ["/charge", "/required", "/required-any"] {
        for method in SAFE {
            let line = format!("{method} {path}");
            let call = world.call(method, path).script(&Script::new(&line));
            for call in [call.clone(), call.clone().key("k"), call.key("k")] {
                let answer = call.send().await;
                assert_eq!((answer.status, answer.replayed()), (201, false), "{line}");
            }
            assert_eq!(world.app.effects(&line), 3);
        }
    }
    assert_eq!(world.counts(), Counts::default());
}

/// B09-08
async fn the_key_of_a_safe_method_is_not_even_read(world: World) {
    for method in SAFE {
        let call = world.call(method, "/charge").script(&Script::new(method));
        for call in [
            call.clone().key("a").add("idempotency-key", "a"),
            call.clone().key("a").add("idempotency-key", "b"),
            call.clone().key("\"a"),
            call.clone().key("k".repeat(300)),
            call.key("k").nobody(),
        ] {
            assert_eq!(call.send().await.status, 201, "{method}");
        }
        assert_eq!(world.app.effects(method), 5);
    }
}

/// B09-08. The handler is registered for GET and POST, and HEAD goes the way of GET.
async fn a_safe_method_leaves_the_key_to_the_others(world: World) {
    let script = Script::new("pay");
    let call = |method| world.call(method, "/read").key("k").script(&script);
    for method in ["GET", "HEAD"] {
        assert_eq!(call(method).send().await.status, 201);
    }
    let first = call("POST").send().await;
    assert_eq!((first.status, first.replayed()), (201, false));
    call("POST").send().await.assert_replays(&first);
    let read = call("GET").send().await;
    assert!(!read.replayed());
    assert_eq!(world.app.effects("pay"), 4);
}

/// B09-10
async fn every_other_method_runs_once_for_a_key(world: World) {
    for method in UNSAFE {
        let call = world.call(method, "/charge").key("k");
        let call = call.script(&Script::new(method));
        let first = call.clone().send().await;
        assert_eq!(first.status, 201, "{method}");
        call.send().await.assert_replays(&first);
        assert_eq!(world.app.effects(method), 1, "{method}");
    }
}

/// B09-10, B14-02
async fn a_key_is_demanded_of_the_methods_that_the_handler_names(world: World) {
    use Required::{Any, Creating, Never};
    // What the engine says, where the handler is, and what holds.
    for (engine, path, required) in [
        (None, "/charge", Never),
        (Some(Creating), "/charge", Creating),
        (Some(Any), "/charge", Any),
        (None, "/required", Creating),
        (Some(Any), "/required", Creating),
        (None, "/required-any", Any),
        (Some(Creating), "/required-any", Any),
    ] {
        let world = world
            .again(Setup {
                required: engine,
                ..Setup::default()
            })
            .await;
        for method in SAFE.iter().chain(UNSAFE) {
            let call = world.call(method, path).script(&Script::new(method));
            let demanded = match required {
                Never => false,
                Creating => ["POST", "PATCH"].contains(method),
                Any => UNSAFE.contains(method),
            };
            let answer = call.clone().send().await;
            if demanded {
                answer.assert_refused(400, "key-missing");
            } else {
                assert_eq!(answer.status, 201, "{method} {path}, engine {engine:?}");
            }
            assert_eq!(world.app.runs(method), usize::from(!demanded));
            assert_eq!(call.key("k").send().await.status, 201);
        }
    }
}

/// B14-02
async fn a_refusal_of_a_missing_key_says_which_header_to_send(world: World) {
    let engine = world
        .again(Setup {
            required: Some(Required::Creating),
            header: Some("X-Payment-Key"),
            ..Setup::default()
        })
        .await;
    for (world, path, header) in [
        (&world, "/required", "idempotency-key"),
        (&engine, "/charge", "x-payment-key"),
        (&engine, "/event", "x-event-id"),
    ] {
        let call = world.post(path).script(&Script::new("pay"));
        let answer = call.clone().send().await;
        answer.assert_refused(400, "key-missing");
        let problem = answer.json();
        assert_eq!(
            problem["detail"],
            format!("send it in the header `{header}`")
        );
        assert_eq!(
            problem["type"],
            "https://docs.rs/idem-core/latest/idem_core/refusal/key-missing"
        );
        let before = world.app.runs("pay");
        assert_eq!(call.set(header, "k").send().await.status, 201);
        assert_eq!(world.app.runs("pay"), before + 1);
    }
}

/// B14-02
async fn without_a_key_a_request_runs_each_time_and_is_counted(world: World) {
    let call = world.post("/charge").script(&Script::new("pay"));
    for _ in 0..3 {
        let answer = call.clone().send().await;
        assert_eq!((answer.status, answer.replayed()), (201, false));
    }
    assert_eq!(world.app.effects("pay"), 3);
    let counts = world.counts();
    assert_eq!((counts.unprotected, counts.executed), (3, 0));
}
