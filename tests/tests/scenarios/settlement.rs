//! How an attempt ends: what is kept of it, what may run again, and what nobody may run again.

use bytes::Bytes;
use idem_core::{Store, store::State};
use idem_tests::{
    Script, Setup, Step, StoreCall, World, logs, scenarios,
    script::{Body, Crash},
};

scenarios![
    business_answers_are_kept,
    answers_of_the_moment_are_released,
    the_handlers_word_wins_over_the_status,
    every_exit_after_the_claim_has_its_end_state,
    a_failure_without_effect_is_repaired_by_the_retry,
    a_failure_after_the_effect_runs_again,
    a_failure_that_the_handler_keeps_never_runs_again,
    a_kept_mistake_is_not_the_answer_to_the_corrected_request,
    a_refusal_before_the_handler_leaves_the_key_free,
    a_rejected_argument_leaves_the_key_free,
    an_unreadable_record_is_refused_and_left_alone,
    a_completion_that_fails_is_sent_again_before_the_answer,
    an_answer_is_not_held_back_until_its_record_is_stored,
    a_release_that_fails_is_sent_again,
];

/// What a key is good for after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// The answer is replayed.
    Kept,
    /// Nothing runs again; the answer was not kept.
    Done,
    /// The same request runs again, at once, and no other does.
    Bound,
    /// Any request runs.
    Free,
    /// Nothing runs until somebody decides.
    Unknown,
}

impl Fate {
    /// The call that settles it.
    fn settled_by(self) -> StoreCall {
        match self {
            Self::Kept | Self::Done => StoreCall::Complete,
            Self::Bound | Self::Free | Self::Unknown => StoreCall::Release,
        }
    }

    fn state(self) -> Option<State> {
        match self {
            Self::Kept | Self::Done => Some(State::Completed),
            Self::Bound => Some(State::Released),
            Self::Free => None,
            Self::Unknown => Some(State::Unknown),
        }
    }
}

/// Runs a handler once, and fails unless this becomes of its key.
async fn assert_fate(world: &World, path: &str, name: &str, step: Step, fate: Fate) {
    let line = format!("{path} {name}");
    let script = Script::new(&line).step(step).then(Step::default());
    let call = world.post(path).key(name.replace(' ', "-"));
    let settled = world.store.done(fate.settled_by());
    let first = call.clone().script(&script).try_send().await;
    world.store.until_done(fate.settled_by(), settled + 1).await;

    let record = world.record(&format!("POST {path}"), &name.replace(' ', "-"));
    let summary = world.store.inspect(&record).await.expect("it is there");
    let state = summary.map(|summary| summary.state);
    assert_eq!(state, fate.state(), "{line}");

    let other = format!("other {line}");
    if fate != Fate::Free {
        let refused = call.clone().script(&Script::new(&other)).send().await;
        refused.assert_refused(409, "key-reused");
        assert_eq!(world.app.runs(&other), 0, "{line}");
    }
    let again = || call.clone().script(&script).send();
    let runs = match fate {
        Fate::Kept => {
            again().await.assert_replays(&first.expect("an answer"));
            1
        }
        Fate::Done => {
            again().await.assert_refused(409, "response-unavailable");
            1
        }
        Fate::Unknown => {
            again().await.assert_refused(409, "outcome-unknown");
            1
        }
        Fate::Bound => {
            let second = again().await;
            assert_eq!((second.status, second.replayed()), (201, false), "{line}");
            again().await.assert_replays(&second);
            2
        }
        Fate::Free => {
            let second = call.script(&Script::new(&other)).send().await;
            assert_eq!((second.status, second.replayed()), (201, false), "{line}");
            1
        }
    };
    assert_eq!(world.app.runs(&line), runs, "{line}");
}

/// B06-05
async fn business_answers_are_kept(world: World) {
    for status in [
        200, 201, 202, 204, 207, 303, 400, 402, 403, 404, 409, 410, 418, 422,
    ] {
        let name = status.to_string();
        assert_fate(&world, "/charge", &name, Step::status(status), Fate::Kept).await;
    }
}

/// B06-05, B06-07
async fn answers_of_the_moment_are_released(world: World) {
    for status in [401, 408, 425, 429, 500, 501, 502, 503, 504, 599] {
        let step = Step::status(status).header("retry-after", "1");
        assert_fate(&world, "/charge", &status.to_string(), step, Fate::Bound).await;
    }
}

/// B06-01, B06-05, B06-07
async fn the_handlers_word_wins_over_the_status(world: World) {
    for status in [200, 402, 429, 500] {
        for (outcome, fate) in [
            ("keep", Fate::Kept),
            ("release", Fate::Bound),
            ("forget", Fate::Free),
            ("unknown", Fate::Unknown),
        ] {
            let name = format!("{status} {outcome}");
            let step = Step::status(status).outcome(outcome);
            assert_fate(&world, "/charge", &name, step, fate).await;
        }
    }
}

/// B07-05, P-13
///
/// The client that leaves is in `interruption`, and the shutdown in `shutdown`.
async fn every_exit_after_the_claim_has_its_end_state(world: World) {
    let world = world
        .again(Setup {
            max_stored_body: Some(1_000),
            max_stored_headers: Some(1_000),
            ..Setup::default()
        })
        .await;
    let large = || Body::Large(1_001);
    let chunks = || vec!["half".to_owned(), "half".to_owned()];
    for (name, step, fate) in [
        ("success", Step::default(), Fate::Kept),
        ("error", Step::status(500), Fate::Bound),
        ("panic", Step::crash(Crash::AtOnce), Fate::Bound),
        ("late panic", Step::crash(Crash::AfterEffect), Fate::Bound),
        ("panic in drop", Step::crash(Crash::InDrop), Fate::Bound),
        ("large body", Step::default().body(large()), Fate::Done),
        ("large error", Step::status(500).body(large()), Fate::Bound),
        (
            "long header",
            Step::default().header("x-long", [b'x'; 1_001]),
            Fate::Done,
        ),
        (
            "broken body",
            Step::default().body(Body::Broken("half".to_owned())),
            Fate::Done,
        ),
        (
            "broken error",
            Step::status(500).body(Body::Broken("half".to_owned())),
            Fate::Bound,
        ),
        (
            "declared body",
            Step::default().body(Body::Declared(chunks())),
            Fate::Kept,
        ),
    ] {
        for path in ["/charge", "/fallible"] {
            assert_fate(&world, path, name, step.clone(), fate).await;
        }
    }
}

/// B06-05
async fn a_failure_without_effect_is_repaired_by_the_retry(world: World) {
    let failure = Step::status(503).without_effect();
    let script = Script::new("pay").step(failure).then(Step::default());
    let call = world.post("/charge").key("k").script(&script);
    assert_eq!(call.clone().send().await.status, 503);
    let second = call.clone().send().await;
    assert_eq!((second.status, second.replayed()), (201, false));
    call.send().await.assert_replays(&second);
    assert_eq!((world.app.runs("pay"), world.app.effects("pay")), (2, 1));
}

/// B06-01: what the documentation says of a released failure.
async fn a_failure_after_the_effect_runs_again(world: World) {
    for (path, failure) in [
        ("/charge", Step::status(500)),
        ("/fallible", Step::status(500)),
        ("/charge", Step::crash(Crash::AfterEffect)),
    ] {
        let world = world.again(Setup::default()).await;
        let script = Script::new("pay").step(failure).then(Step::default());
        let call = world.post(path).key("k").script(&script);
        if let Ok(first) = call.clone().try_send().await {
            assert_eq!((first.status, first.replayed()), (500, false));
        }
        assert_eq!(call.send().await.status, 201);
        assert_eq!(world.app.effects("pay"), 2);
        assert_eq!(world.counts().takeovers, 1);
    }
}

/// B06-01, B06-05, B06-09
async fn a_failure_that_the_handler_keeps_never_runs_again(world: World) {
    for path in ["/charge", "/fallible"] {
        let step = Step::status(500).outcome("keep");
        let script = Script::new(path).step(step);
        let call = world.post(path).key("k").script(&script);
        let first = call.clone().send().await;
        assert_eq!((first.status, first.replayed()), (500, false));
        for _ in 0..3 {
            call.clone().send().await.assert_replays(&first);
        }
        assert_eq!(world.app.effects(path), 1);
    }
}

/// B06-06
async fn a_kept_mistake_is_not_the_answer_to_the_corrected_request(world: World) {
    let wrong = Script::new("wrong").step(Step::status(400));
    let call = world.post("/charge").key("k");
    let mistake = call.clone().script(&wrong).send().await;
    assert_eq!(mistake.status, 400);
    let corrected = call.clone().script(&Script::new("right")).send().await;
    corrected.assert_refused(409, "key-reused");
    assert_eq!(corrected.json()["original_state"], "completed");
    assert_eq!(corrected.header("retry-after"), None);
    call.script(&wrong).send().await.assert_replays(&mistake);
    assert_eq!((world.app.runs("wrong"), world.app.runs("right")), (1, 0));
}

/// B06-07
///
/// In front of the router, around the route, and as an argument of the handler.
async fn a_refusal_before_the_handler_leaves_the_key_free(world: World) {
    for place in ["layer", "route-layer", "argument"] {
        for status in [401, 403, 408, 425, 429] {
            let key = format!("{place}-{status}");
            let call = world.post(&format!("/guarded/{place}")).key(&key);
            let wrong = Script::new("refused");
            world.app.refuse(status);
            let refused = call.clone().script(&wrong).send().await;
            assert_eq!(refused.status, status, "{place}");

            // Another request may have the key: nothing was claimed.
            let script = Script::new(&key);
            let first = call.clone().script(&script).send().await;
            assert_eq!((first.status, first.replayed()), (201, false), "{key}");

            // And a replay is refused like any other request.
            world.app.refuse(status);
            assert_eq!(call.clone().script(&script).send().await.status, status);
            call.script(&script).send().await.assert_replays(&first);
            assert_eq!(world.app.runs(&key), 1);
        }
    }
    assert_eq!(world.app.runs("refused"), 0);
}

/// B06-07, B07-05
async fn a_rejected_argument_leaves_the_key_free(world: World) {
    for (body, status) in [("{", 400), ("{}", 422)] {
        let call = world.post("/charge").key(status.to_string());
        for _ in 0..2 {
            assert_eq!(call.clone().json(body).send().await.status, status);
        }
        let first = call.script(&Script::new(body)).send().await;
        assert_eq!((first.status, first.replayed()), (201, false));
    }
}

/// B06-02
async fn an_unreadable_record_is_refused_and_left_alone(world: World) {
    let script = Script::new("pay").step(Step::default().header("location", "/payments/7"));
    let key = world.own("unreadable");
    let call = world.post("/charge").key(&key).script(&script);
    let record = world.record("POST /charge", &key);
    let first = call.clone().send().await;
    let swap = async |bytes: &Bytes| world.store.swap_response(&record, bytes.clone()).await;
    let sound = swap(&Bytes::new()).await.expect("a stored response");
    let change = |at: usize, byte: u8| {
        let mut bytes = sound.to_vec();
        bytes[at] = byte;
        bytes
    };
    // Version, flags and two bytes of status; then the number of header lines, and for each the
    // lengths of its name and value, and both.
    let name = sound.windows(8).position(|bytes| bytes == b"location");
    let name = name.expect("a stored header line");
    let damaged = [
        ("empty", Vec::new()),
        ("of an unknown version", change(0, 2)),
        ("with an unknown flag", change(1, 0x80)),
        ("without a body, and yet with one", change(1, 1)),
        (
            "without a status",
            [&sound[..2], &[0, 0], &sound[4..]].concat(),
        ),
        ("with too many headers", change(4, 0xff)),
        ("with too long a name", change(name - 6, 0xff)),
        ("with too long a value", change(name - 4, 0xff)),
        ("with a name that is none", change(name, b' ')),
        ("with a value that is none", change(name + 8, b'\n')),
        ("truncated", sound[..name + 4].to_vec()),
    ];
    let errors = || logs::errors_with(&record.to_string()).len();
    for (what, bytes) in damaged {
        let bytes = Bytes::from(bytes);
        swap(&sound).await;
        swap(&bytes).await;
        let there = swap(&bytes).await;
        let before = errors();
        call.clone()
            .send()
            .await
            .assert_refused(500, "record-unreadable");
        assert!(errors() > before, "{what}: not logged");
        assert_eq!(swap(&bytes).await, there, "{what}: was touched");
    }
    assert_eq!(world.app.runs("pay"), 1);
    swap(&sound).await;
    call.send().await.assert_replays(&first);
}

/// B06-04
async fn a_completion_that_fails_is_sent_again_before_the_answer(world: World) {
    let script = Script::new("pay");
    let call = world.post("/charge").key("k").script(&script);
    world.store.fail(StoreCall::Complete, 2);
    let first = call.clone().send().await;
    assert_eq!((first.status, first.replayed()), (201, false));
    assert_eq!(world.counts().completions_retried, 2);
    call.send().await.assert_replays(&first);
    assert_eq!(world.app.effects("pay"), 1);
}

/// B06-04
async fn an_answer_is_not_held_back_until_its_record_is_stored(world: World) {
    let script = Script::new("pay");
    let call = world.post("/charge").key("k").script(&script);
    world.store.hold(StoreCall::Complete);
    let first = call.clone().send().await;
    assert_eq!((first.status, first.replayed()), (201, false));
    for _ in 0..2 {
        call.clone().send().await.assert_refused(409, "in-progress");
    }

    world.store.pass(StoreCall::Complete);
    let counts = world.until(|counts| counts.completions_late == 1).await;
    call.send().await.assert_replays(&first);
    assert_eq!((world.app.effects("pay"), counts.completions_lost), (1, 0));
}

/// B06-04, P-12
async fn a_release_that_fails_is_sent_again(world: World) {
    let script = Script::new("pay")
        .step(Step::status(503))
        .then(Step::default());
    let call = world.post("/charge").key("k").script(&script);
    world.store.fail(StoreCall::Release, 1);
    assert_eq!(call.clone().send().await.status, 503);
    assert_eq!(call.send().await.status, 201);
    assert_eq!(
        (world.app.runs("pay"), world.counts().releases_failed),
        (2, 0)
    );
}
