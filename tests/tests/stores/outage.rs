//! The store stops, hangs, and comes back.

use std::time::{Duration, Instant};

use idem_tests::{Answer, Call, Script, Setup, Step, StoreKind};

use crate::{Own, WITHIN, on_both, service};

on_both![
    a_hung_store_is_answered_for_in_time_and_blocks_nothing_afterwards,
    a_dead_store_is_answered_for_in_time_and_comes_back,
    an_outcome_that_a_hung_store_did_not_take_is_stored_when_it_is_back,
    an_outcome_that_a_dead_store_did_not_take_is_stored_when_it_is_back,
    a_handler_keeps_its_key_through_a_restart_of_the_store,
];

/// Sends it; gives the answer and how long it took.
async fn timed(call: &Call) -> (Answer, Duration) {
    let began = Instant::now();
    let answer = call.clone().send().await;
    (answer, began.elapsed())
}

/// What a client is told while the store is silent, in time; and that nothing ran.
async fn refused_in_time(what: &str, call: &Call) {
    let (answer, took) = timed(call).await;
    answer.assert_refused(503, "store-unavailable");
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert!(took < WITHIN, "{what}: {took:?}");
    eprintln!("{what}: 503 after {} ms", took.as_millis());
}

/// Sends it until it is not refused with 503; gives the answer and how long that took.
async fn until_available(call: &Call) -> (Answer, Duration) {
    let began = Instant::now();
    loop {
        let answer = call.clone().send().await;
        if answer.status != 503 {
            return (answer, began.elapsed());
        }
        assert!(began.elapsed() < Duration::from_secs(20), "never came back");
    }
}

/// P-04, P-08, B04-04
async fn a_hung_store_is_answered_for_in_time_and_blocks_nothing_afterwards(kind: StoreKind) {
    let own = Own::start(kind).await;
    let world = service(kind, &own.url(), Setup::default()).await;
    let script = Script::new("pay");
    let call = |key: &str| world.post("/charge").key(key).script(&script);
    let kept = call("kept").send().await;
    assert_eq!(kept.status, 201);

    own.server().pause();
    for key in ["new-0", "new-1", "new-2", "new-3"] {
        refused_in_time("hung, new key", &call(key)).await;
    }
    refused_in_time("hung, completed key", &call("kept")).await;
    assert_eq!(world.app.runs("pay"), 1);

    // Claims that were given up may land now, and are taken back.
    own.server().resume();
    let (replay, took) = until_available(&call("kept")).await;
    replay.assert_replays(&kept);
    eprintln!("hung store is back: replay after {} ms", took.as_millis());
    for key in ["new-0", "new-1", "new-2", "new-3"] {
        let began = Instant::now();
        let answer = loop {
            let answer = call(key).send().await;
            if answer.status == 201 {
                break answer;
            }
            // For a moment it may be blocked by a claim that is not taken back yet.
            answer.assert_refused(409, "in-progress");
            assert!(
                began.elapsed() < Duration::from_secs(10),
                "{key} is blocked"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        eprintln!("{key}: runs after {} ms", began.elapsed().as_millis());
        call(key).send().await.assert_replays(&answer);
    }
    assert_eq!(world.app.runs("pay"), 5);
}

/// P-04, B04-04
async fn a_dead_store_is_answered_for_in_time_and_comes_back(kind: StoreKind) {
    let own = Own::start(kind).await;
    let world = service(kind, &own.url(), Setup::default()).await;
    let script = Script::new("pay");
    let call = |key: &str| world.post("/charge").key(key).script(&script);
    let kept = call("kept").send().await;
    assert_eq!(kept.status, 201);

    own.server().kill();
    refused_in_time("dead, new key", &call("new")).await;
    refused_in_time("dead, completed key", &call("kept")).await;
    let bare = world.post("/charge").script(&script).send().await;
    assert_eq!((bare.status, world.app.runs("pay")), (201, 2));

    own.restart().await;
    let (answer, took) = until_available(&call("new")).await;
    eprintln!("dead store is back: runs after {} ms", took.as_millis());
    assert_eq!((answer.status, answer.replayed()), (201, false));
    call("new").send().await.assert_replays(&answer);
    // It was written before it was acknowledged.
    call("kept").send().await.assert_replays(&kept);
    assert_eq!(world.app.runs("pay"), 3);
}

/// How the store fails while the handler runs.
enum Fails {
    Hangs,
    Dies,
}

/// B04-04: between claim and completion.
async fn an_outcome_that_a_hung_store_did_not_take_is_stored_when_it_is_back(kind: StoreKind) {
    stored_when_it_is_back(kind, Fails::Hangs).await;
}

/// B04-04: between claim and completion.
async fn an_outcome_that_a_dead_store_did_not_take_is_stored_when_it_is_back(kind: StoreKind) {
    stored_when_it_is_back(kind, Fails::Dies).await;
}

async fn stored_when_it_is_back(kind: StoreKind, fails: Fails) {
    let own = Own::start(kind).await;
    let world = service(kind, &own.url(), Setup::default()).await;
    let script = Script::new("pay").step(Step::default().gate("paid"));
    let call = world.post("/charge").key("k").script(&script);
    let paying = {
        let call = call.clone();
        tokio::spawn(async move { timed(&call).await })
    };
    world.app.gate("paid").arrived(1).await;
    match fails {
        Fails::Hangs => own.server().pause(),
        Fails::Dies => own.server().kill(),
    }
    world.app.gate("paid").open();
    // The client is told the truth, though it cannot be stored yet.
    let (first, took) = paying.await.expect("no panic");
    assert_eq!((first.status, first.replayed()), (201, false));
    assert!(took < WITHIN + Duration::from_secs(2), "{took:?}");
    eprintln!("answer without a record after {} ms", took.as_millis());

    match fails {
        Fails::Hangs => own.server().resume(),
        Fails::Dies => own.restart().await,
    }
    // Until the outcome is there, a retry is told that it runs.
    let began = Instant::now();
    let replay = loop {
        let answer = call.clone().send().await;
        if answer.replayed() {
            break answer;
        }
        assert!(matches!(answer.status, 409 | 503), "{answer:?}");
        assert!(began.elapsed() < Duration::from_secs(20), "never stored");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    eprintln!(
        "replayed {} ms after the return",
        began.elapsed().as_millis()
    );
    replay.assert_replays(&first);
    // That it was late is told, and that it is there.
    let counts = world.until(|counts| counts.completions_late == 1).await;
    assert_eq!((world.app.runs("pay"), counts.completions_lost), (1, 0));
}

/// The lease outlives an outage that is shorter.
async fn a_handler_keeps_its_key_through_a_restart_of_the_store(kind: StoreKind) {
    let own = Own::start(kind).await;
    let setup = Setup {
        lease: Some(Duration::from_secs(15)),
        ..Setup::default()
    };
    let world = service(kind, &own.url(), setup).await;
    let script = Script::new("pay").step(Step::default().gate("slow"));
    let call = world.post("/charge").key("k").script(&script);
    let paying = tokio::spawn(call.clone().send());
    world.app.gate("slow").arrived(1).await;
    own.server().kill();
    own.restart().await;

    let (other, _) = until_available(&call).await;
    other.assert_refused(409, "in-progress");
    world.app.gate("slow").open();
    let first = paying.await.expect("no panic");
    assert_eq!(first.status, 201);
    call.send().await.assert_replays(&first);
    assert_eq!((world.app.runs("pay"), world.counts().leases_lost), (1, 0));
}
