//! What must not be told: a key, a caller, a body, in no log line, no event and no refusal.

use std::sync::Arc;

use idem_core::observe::Observer;
use idem_tests::{Heard, Script, Setup, Step, World, logs, scenarios, script::Crash};

use crate::refusals::one_of_each;

scenarios![
    no_log_line_has_a_key_a_caller_or_a_body,
    no_event_has_a_key_a_caller_or_a_body,
    no_refusal_has_a_key_a_caller_or_a_body,
    no_refusal_has_what_is_stored_under_the_key,
    a_log_line_names_the_record_by_a_digest,
];

/// A key, a caller and a text in the body that stand in no other scenario.
struct Secrets([String; 3]);

impl Secrets {
    fn of(world: &World) -> Self {
        let port = world.addr.port();
        Self([
            format!("alice{port}@example.com-4111111111111111"),
            // What follows a dot would be a token.
            format!("carol{port}@example"),
            format!("DE89370400440532013000/{port}"),
        ])
    }

    fn texts(&self) -> [&str; 3] {
        self.0.each_ref().map(String::as_str)
    }

    /// Fails if one of them is in `text`.
    #[track_caller]
    fn assert_not_in(&self, text: &str) {
        for secret in self.texts() {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
}

/// Brings about all that can happen to a keyed request, the secrets in each.
async fn everything(world: &World, secrets: &Secrets) -> Arc<Heard> {
    let heard = Arc::new(Heard::default());
    let setup = || Setup {
        observer: Some(Arc::clone(&heard) as Arc<dyn Observer>),
        catch_panic: true,
        ..Setup::default()
    };
    let [key, user, line] = secrets.texts();
    one_of_each(world, setup(), secrets.texts()).await;

    let world = world.again(setup()).await;
    let call = |name: &str, step: Step| {
        let script = Script::new(&format!("{line} {name}")).step(step);
        let call = world.post("/charge").user(user);
        call.key(format!("{key}-{name}"))
            .script(&script.then(Step::default()))
    };
    let fresh = call("fresh", Step::default());
    assert_eq!(fresh.clone().send().await.status, 201);
    assert!(fresh.send().await.replayed());
    for outcome in ["release", "forget", "unknown"] {
        let settled = call(outcome, Step::status(500).outcome(outcome));
        assert_eq!(settled.clone().send().await.status, 500);
        settled.send().await;
    }
    for crash in [Crash::AtOnce, Crash::AfterEffect, Crash::InDrop] {
        let crashed = call(&format!("{crash:?}"), Step::crash(crash));
        assert_eq!(crashed.clone().send().await.status, 500);
        // Another attempt, which is told too.
        assert_eq!(crashed.send().await.status, 201);
    }
    let script = Script::new(line);
    let unprotected = world.post("/charge").user(user).script(&script);
    assert_eq!(unprotected.send().await.status, 201);
    for path in ["/flaky", "/unregistered", "/lost"] {
        let call = world.post(path).user(user).key(key).script(&script);
        assert_eq!(call.send().await.status, 500);
    }
    heard
}

/// B11-02
async fn no_log_line_has_a_key_a_caller_or_a_body(world: World) {
    let secrets = Secrets::of(&world);
    everything(&world, &secrets).await;
    // The handler may say what it does, and what it panics with is told by others.
    let of_the_application = [" idem_tests::", " panic: ", " tower_http::catch_panic: "];
    for secret in secrets.texts() {
        let mut lines = logs::lines_with(secret);
        lines.retain(|line| {
            !of_the_application
                .iter()
                .any(|target| line.contains(target))
        });
        assert_eq!(lines, Vec::<String>::new());
    }
}

/// B11-02. Labels of metrics are made of events.
async fn no_event_has_a_key_a_caller_or_a_body(world: World) {
    let secrets = Secrets::of(&world);
    let heard = everything(&world, &secrets).await.all();
    assert!(heard.len() > 30, "{heard:?}");
    for told in heard {
        secrets.assert_not_in(&format!("{told:?}"));
    }
}

/// B11-02
async fn no_refusal_has_a_key_a_caller_or_a_body(world: World) {
    let secrets = Secrets::of(&world);
    for (_, _, answer) in one_of_each(&world, Setup::default(), secrets.texts()).await {
        secrets.assert_not_in(&format!("{answer:?}"));
    }
}

/// B11-02
async fn no_refusal_has_what_is_stored_under_the_key(world: World) {
    let step = Step::status(402)
        .bytes("stored body")
        .header("x-stored", "stored header");
    let script = Script::new("pay").step(step);
    let call = world.post("/charge").key("k");
    assert_eq!(call.clone().script(&script).send().await.status, 402);
    let reused = call.clone().script(&script.clone().extra(1)).send().await;
    reused.assert_refused(409, "key-reused");
    assert!(!format!("{reused:?}").contains("stored"));
    assert!(!format!("{reused:?}").contains("402"));
}

/// B11-02. It takes the place of the key where lines must be brought together.
async fn a_log_line_names_the_record_by_a_digest(world: World) {
    let heard = Arc::new(Heard::default());
    let world = world
        .again(Setup {
            observer: Some(Arc::clone(&heard) as Arc<dyn Observer>),
            ..Setup::default()
        })
        .await;
    let call = world.post("/charge").key("k");
    let script = Script::new("pay");
    call.clone().script(&script).send().await;
    call.clone().script(&script).send().await;
    call.script(&script.extra(1)).send().await;
    let records: Vec<_> = heard.all().into_iter().map(|told| told.record).collect();
    assert_eq!(records.len(), 3);
    assert_eq!((&records[0], &records[0]), (&records[1], &records[2]));
    let digest = records[0].as_deref().expect("a record");
    assert!(digest.len() == 8 && digest.bytes().all(|digit| digit.is_ascii_hexdigit()));
    let logs = world.logs();
    let lines = logs.iter().filter(|line| line.contains(digest));
    let told = ["executed, kept", "replayed", "rejected"];
    for (line, told) in lines.zip(told) {
        assert!(
            line.contains(told) && line.contains("POST /charge"),
            "{line}"
        );
    }
    assert_eq!(
        logs.iter().filter(|line| line.contains(digest)).count(),
        told.len()
    );
}
