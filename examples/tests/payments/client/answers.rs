//! Answers that the payment service does not give at will, from a server that says what it is told.

use std::{
    fs, io,
    net::{Ipv4Addr, TcpListener},
    path::PathBuf,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use futures_util::stream;
use idem_examples::journal::{self, Operation};
use tokio::runtime::Builder;
use uuid::Uuid;

use super::{BODY, NAME, PAY, Payer};

type Answer = fn() -> Response;

/// A server that gives one answer after the other, and the last one for ever.
struct Server {
    script: Arc<Mutex<Script>>,
    payer: Payer,
}

struct Script {
    answers: Vec<Answer>,
    seen: Vec<Seen>,
    journal: PathBuf,
}

/// A request, and what its client had written down by then.
struct Seen {
    head: HeaderMap,
    body: String,
    journal: String,
}

impl Server {
    fn start(answers: &[Answer]) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let addr = listener.local_addr().expect("it is bound");
        let payer = Payer::at(format!("http://{addr}/"));
        let script = Arc::new(Mutex::new(Script {
            answers: answers.to_vec(),
            seen: Vec::new(),
            journal: payer.journal.clone(),
        }));
        let app = Router::new().fallback(answer);
        let app = app.with_state(Arc::clone(&script));
        // On a thread of its own: the tests wait for processes.
        thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                listener.set_nonblocking(true).expect("a socket");
                let listener = tokio::net::TcpListener::from_std(listener);
                axum::serve(listener.expect("a socket"), app).await
            })
        });
        Self { script, payer }
    }

    /// From now on it gives this answer.
    fn tell(&self, answer: Answer) {
        self.script.lock().expect("no panic").answers = vec![answer];
    }

    /// What came since this was asked last.
    fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.script.lock().expect("no panic").seen)
    }
}

async fn answer(
    State(script): State<Arc<Mutex<Script>>>,
    head: HeaderMap,
    body: String,
) -> Response {
    let mut script = script.lock().expect("no panic");
    let journal = fs::read_to_string(&script.journal).unwrap_or_default();
    script.seen.push(Seen {
        head,
        body,
        journal,
    });
    let answer = match script.answers.len() {
        1 => script.answers[0],
        _ => script.answers.remove(0),
    };
    answer()
}

fn paid() -> Response {
    (StatusCode::CREATED, "paid").into_response()
}

fn busy() -> Response {
    StatusCode::SERVICE_UNAVAILABLE.into_response()
}

fn declined() -> Response {
    (StatusCode::PAYMENT_REQUIRED, "declined").into_response()
}

fn declined_before() -> Response {
    ([("idempotent-replayed", "true")], declined()).into_response()
}

/// An answer that ends in the middle.
fn broken() -> Response {
    let parts = [Ok("pa"), Err(io::Error::other("the cable"))];
    (StatusCode::CREATED, Body::from_stream(stream::iter(parts))).into_response()
}

/// An answer that does not end.
fn endless() -> Response {
    let parts = stream::pending::<io::Result<&str>>();
    (StatusCode::CREATED, Body::from_stream(parts)).into_response()
}

fn moved() -> Response {
    (StatusCode::TEMPORARY_REDIRECT, [("location", "/")]).into_response()
}

fn conflict() -> Response {
    (StatusCode::CONFLICT, r#"{"code": "outcome-unknown"}"#).into_response()
}

#[test]
fn every_attempt_sends_the_key_and_the_bytes_that_were_written_down_first() {
    let server = Server::start(&[busy, broken, endless, paid]);
    let ended = server.payer.run(&PAY, &[("TIMEOUT", "1s")]);
    ended.expect(0, "invoice-17: done, 201\npaid\n");
    let seen = server.seen();
    assert_eq!(seen.len(), 4);

    let key = seen[0].head["idempotency-key"].to_str().expect("ASCII");
    let version = Uuid::parse_str(key).map(|key| key.get_version_num());
    assert_eq!(version, Ok(4));
    for attempt in &seen {
        assert_eq!(attempt.head["idempotency-key"], key);
        assert_eq!(attempt.head["content-type"], "application/json");
        assert_eq!(attempt.head["authorization"], "Bearer ada");
        assert_eq!(attempt.body, BODY);
        let written: Operation = serde_json::from_str(&attempt.journal).expect("one line");
        assert_eq!(
            (written.name.as_str(), written.key.to_string()),
            (NAME, key.to_owned())
        );
        assert_eq!(written.request.body, BODY);
    }
}

#[test]
fn giving_up_leaves_the_operation_in_the_journal() {
    let server = Server::start(&[busy]);
    let ended = server.payer.run(&PAY, &[("GIVE_UP_AFTER", "1s")]);
    ended.expect(2, "invoice-17: unknown, 503\n");
    let seen = server.seen();
    assert!(seen.len() > 1, "it has tried once");
    let key = server.payer.remembered().key.to_string();
    assert_eq!(seen[0].head["idempotency-key"], key.as_str());

    // It is nobody's to send again but his who asks for it.
    server.tell(paid);
    let listed = server.payer.run(&["--list"], &[]);
    listed.expect(
        0,
        &format!("invoice-17: unknown (503), key {key}, {BODY}\n"),
    );
    server.payer.run(&[], &[]).expect(0, "");
    assert_eq!(server.seen().len(), 0);

    let ended = server.payer.run(&PAY, &[]);
    ended.expect(0, "invoice-17: done, 201\npaid\n");
    let seen = server.seen();
    assert_eq!((seen.len(), seen[0].body.as_str()), (1, BODY));
    assert_eq!(seen[0].head["idempotency-key"], key.as_str());
    assert_eq!(server.payer.run(&["--list"], &[]).said, "");
}

#[test]
fn the_pauses_double_and_have_a_random_part() {
    let server = Server::start(&[busy]);
    let ended = server.payer.run(&PAY, &[("GIVE_UP_AFTER", "1s")]);
    let pauses = ended.log.iter().map(|line| {
        let pause = line.strip_prefix("invoice-17: 503; again in ");
        let pause = pause.and_then(|pause| pause.strip_suffix("ms"));
        pause.expect(line).parse::<f64>().expect("a number")
    });
    let (mut least, mut random) = (10.0, false);
    for pause in pauses {
        assert!((least..=2.0 * least).contains(&pause), "{:?}", ended.log);
        random |= pause > least;
        least *= 2.0;
    }
    assert!(random, "{:?}", ended.log);
}

#[test]
fn nothing_is_waited_for_that_comes_after_the_end() {
    let later = || (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "3600")]).into_response();
    let server = Server::start(&[later]);
    let ended = server.payer.run(&PAY, &[]);
    ended.expect(2, "invoice-17: unknown, 503\n");
    assert_eq!(server.seen().len(), 1);
}

#[test]
fn an_answer_that_does_not_change_ends_it_at_once() {
    let answers: [(Answer, &str); 3] = [
        (declined, "refused, 402\ndeclined\n"),
        (moved, "refused, 307\n"),
        (conflict, "refused, 409 outcome-unknown\n"),
    ];
    for (answer, said) in answers {
        let server = Server::start(&[answer]);
        let ended = server.payer.run(&PAY, &[]);
        ended.expect(1, &format!("invoice-17: {said}"));
        assert_eq!(server.seen().len(), 1, "{said}");
    }
}

#[test]
fn a_refusal_after_an_attempt_is_believed_when_it_is_a_replay() {
    let server = Server::start(&[busy, declined, declined_before]);
    let ended = server.payer.run(&PAY, &[]);
    ended.expect(2, "invoice-17: unknown, 402\n");
    let ended = server.payer.run(&PAY, &[]);
    ended.expect(1, "invoice-17: refused, 402\ndeclined\n");
}

#[test]
fn an_operation_whose_outcome_may_be_forgotten_is_not_repeated() {
    let server = Server::start(&[paid]);
    let mut old = server.payer.started();
    old.created -= Duration::from_hours(23);
    server.payer.write(old);
    let ended = server.payer.run(&[], &[]);
    ended.expect(2, "invoice-17: unknown, too old to be repeated\n");
    assert_eq!(server.seen().len(), 0);
    let answer = "too old to be repeated".to_owned();
    let state = journal::State::Unknown { answer };
    assert_eq!(server.payer.remembered().state, state);
}

#[test]
fn a_setting_of_the_client_that_is_wrong_is_named() {
    let server = Server::start(&[paid]);
    for (name, value) in [
        ("URL", "https://127.0.0.1/"),
        ("TOKEN", "two\nlines"),
        ("JOURNAL", "/nowhere/journal"),
        ("TIMEOUT", "soon"),
        ("PAUSE", "1"),
        ("GIVE_UP_AFTER", "never"),
        ("REPEAT_WITHIN", "a day"),
    ] {
        let ended = server.payer.run(&PAY, &[(name, value)]);
        let named = ended.log.concat().to_lowercase();
        assert!(named.contains(&name.to_lowercase()), "{name}: {named}");
        assert_eq!(ended.code, Some(1), "{name}");
    }
    assert_eq!(server.seen().len(), 0);
}
