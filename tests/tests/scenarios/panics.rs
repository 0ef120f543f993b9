//! Handlers that panic: the application answers as without us, and the key is free at once for
//! the same request.

use idem_tests::{Call, Script, Setup, Step, StoreCall, World, logs, scenarios, script::Crash};

scenarios![
    a_panic_is_answered_as_the_application_has_it,
    a_panic_closes_the_connection_and_no_other,
    a_panic_is_logged_once,
    a_panic_without_a_client_is_logged_once_and_releases_the_key,
];

const CRASHES: [Crash; 3] = [Crash::AtOnce, Crash::AfterEffect, Crash::InDrop];

/// Sends a request whose handler has panicked once; its key must be good for it and nothing else.
async fn assert_runs_again(world: &World, crash: Crash, call: Call) {
    let line = format!("{crash:?}");
    let other = call.clone().script(&Script::new("other")).send().await;
    other.assert_refused(409, "key-reused");
    let second = call.clone().send().await;
    assert_eq!((second.status, second.replayed()), (201, false), "{line}");
    call.send().await.assert_replays(&second);
    let effects = if crash == Crash::AtOnce { 1 } else { 2 };
    assert_eq!(
        (world.app.runs(&line), world.app.effects(&line)),
        (2, effects),
        "{line}"
    );
}

/// B03-05, P-12
async fn a_panic_is_answered_as_the_application_has_it(world: World) {
    let world = world
        .again(Setup {
            catch_panic: true,
            ..Setup::default()
        })
        .await;
    for crash in CRASHES {
        let line = format!("{crash:?}");
        let script = Script::new(&line)
            .step(Step::crash(crash))
            .then(Step::default());
        let call = world.post("/charge").key(&line).script(&script);
        let first = call.clone().send().await;
        assert_eq!((first.status, first.replayed()), (500, false));
        assert_runs_again(&world, crash, call).await;
    }
}

/// B03-05, P-12
async fn a_panic_closes_the_connection_and_no_other(world: World) {
    let script = Script::new("other request").step(Step::default().gate("begun"));
    let other = world.post("/charge").key("other").script(&script);
    let other = tokio::spawn(other.send());
    world.app.gate("begun").arrived(1).await;
    for crash in CRASHES {
        let line = format!("{crash:?}");
        let script = Script::new(&line)
            .step(Step::crash(crash))
            .then(Step::default());
        let call = world.post("/charge").key(&line).script(&script);
        let mut connection = world.connect().await;
        connection.send(&call).await;
        assert!(connection.answer().await.is_none());
        assert_runs_again(&world, crash, call).await;
    }
    world.app.gate("begun").open();
    assert_eq!(other.await.expect("no panic").status, 201);
}

/// B03-05
async fn a_panic_is_logged_once(world: World) {
    let world = world
        .again(Setup {
            catch_panic: true,
            ..Setup::default()
        })
        .await;
    for crash in CRASHES {
        let line = world.own(&format!("logged once {crash:?}"));
        let key = line.replace(' ', "-");
        let script = Script::new(&line).step(Step::crash(crash));
        let call = world.post("/charge").key(&key).script(&script);
        assert_eq!(call.send().await.status, 500);

        // By the panic itself and by the layer that answers it, and not by us.
        let message = format!("the script of {line} says so");
        assert_eq!(
            (
                logs::panics_with(&message).len(),
                logs::lines_with(&message).len()
            ),
            (1, 2)
        );
        let record = world.record("POST /charge", &key).to_string();
        assert!(!logs::lines_with(&record).is_empty());
        assert_eq!(logs::errors_with(&record), Vec::<String>::new());
    }
}

/// B03-05
async fn a_panic_without_a_client_is_logged_once_and_releases_the_key(world: World) {
    for crash in [Crash::AfterEffect, Crash::InDrop] {
        let world = world.again(Setup::default()).await;
        let line = world.own(&format!("left alone {crash:?}"));
        let key = line.replace(' ', "-");
        let script = Script::new(&line).step(Step::crash(crash).gate("begun"));
        let script = script.then(Step::default());
        let call = world.post("/charge").key(&key).script(&script);
        let mut connection = world.connect().await;
        connection.send(&call).await;
        world.app.gate("begun").arrived(1).await;
        drop(connection);
        world.until(|counts| counts.detached == 1).await;
        world.app.gate("begun").open();
        world.store.until_done(StoreCall::Release, 1).await;

        let second = call.send().await;
        assert_eq!((second.status, second.replayed()), (201, false));
        // The end of a task without a client has no signal but what it says.
        let record = world.record("POST /charge", &key).to_string();
        world
            .until(|_| !logs::errors_with(&record).is_empty())
            .await;
        let message = format!("the script of {line} says so");
        assert_eq!(
            (
                logs::panics_with(&message).len(),
                logs::lines_with(&message).len()
            ),
            (1, 1)
        );
        assert_eq!(logs::errors_with(&record).len(), 1);
    }
}
