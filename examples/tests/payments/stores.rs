//! Processes over a store that outlives them: what they have paid is in the ledger that they share.

mod clocks;
mod interrupted;
mod replicas;
mod support;
mod takeover;

use std::{env, fs, path::PathBuf, thread, time::Duration};

use idem_examples::ledger::{Ledger, Payment};
use idem_services::{Postgres, Redis};
use reqwest::{
    Response,
    header::{DATE, HeaderMap},
};
use serde_json::Value;
use uuid::Uuid;

use super::{Framework, Service};

/// Runs each named test, an `async fn(Row)`, on every framework and store.
macro_rules! rows {
    ($($name:ident),* $(,)?) => {
        rows!(@framework axum, Axum, [$($name)*]);
        rows!(@framework actix, Actix, [$($name)*]);
    };
    (@framework $module:ident, $framework:ident, $names:tt) => {
        mod $module {
            $crate::stores::rows!(@store redis, $framework, Redis, $names);
            $crate::stores::rows!(@store postgres, $framework, Postgres, $names);
        }
    };
    (@store $module:ident, $framework:ident, $store:ident, [$($name:ident)*]) => {
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    let row = $crate::stores::Row {
                        framework: $crate::Framework::$framework,
                        store: $crate::stores::Kind::$store,
                    };
                    super::super::$name(row).await;
                }
            )*
        }
    };
}
use rows;

const PAYMENTS: &str = "/v1/payments";
const PAY: &str = r#"{"amount": 1200, "currency": "EUR", "card": "ok"}"#;

/// The time between two looks at what another process has to let go of.
const INTERVAL: Duration = Duration::from_millis(20);

/// What a test runs on.
#[derive(Debug, Clone, Copy)]
struct Row {
    framework: Framework,
    store: Kind,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Redis,
    Postgres,
}

/// A store of the test's own and a ledger, whose file is removed when dropped.
struct Place {
    framework: Framework,
    store: String,
    ledger: PathBuf,
    /// Runs as long as the test needs it.
    _redis: Option<Redis>,
}

impl Place {
    async fn new(Row { framework, store }: Row) -> Self {
        match store {
            Kind::Redis => {
                let redis = Redis::start(&[]).await;
                Self::at(framework, redis.url(), Some(redis))
            }
            Kind::Postgres => {
                let postgres = Postgres::shared().await;
                let name = format!("payments_{}", Uuid::new_v4().simple());
                let url = postgres.create_database(&name, &[]).await;
                Self::at(framework, url, None)
            }
        }
    }

    /// A ledger beside a store at this URL.
    fn at(framework: Framework, store: String, redis: Option<Redis>) -> Self {
        let ledger = format!("{}.ledger", Uuid::new_v4());
        Self {
            framework,
            store,
            ledger: PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(ledger),
            _redis: redis,
        }
    }

    /// The settings of a service, and these.
    fn with<'a>(&'a self, environment: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        let ledger = self.ledger.to_str().expect("it is text");
        let ours = [("STORE", self.store.as_str()), ("LEDGER", ledger)];
        [&ours, environment].concat()
    }

    fn start(&self, environment: &[(&str, &str)]) -> Service {
        self.framework.start(&self.with(environment))
    }

    /// Starts two at once, so that both find a store in which nothing is.
    fn replicas(&self, environment: &[(&str, &str)]) -> [Service; 2] {
        thread::scope(|scope| {
            let start = || scope.spawn(|| self.start(environment));
            let starting = [start(), start()];
            starting.map(|started| started.join().expect("it starts"))
        })
    }

    /// What was really paid.
    fn booked(&self) -> Vec<Payment> {
        let ledger = Ledger::in_file(self.ledger.clone()).expect("a file");
        ledger.of("ada").expect("lines of payments")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.ledger);
    }
}

/// An answer as it came, but for the time.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Answer {
    status: u16,
    headers: HeaderMap,
    body: String,
}

impl Answer {
    async fn read(response: Response) -> Self {
        let status = response.status().as_u16();
        let mut headers = response.headers().clone();
        headers.remove(DATE);
        let body = response.text().await.expect("a whole body");
        Self {
            status,
            headers,
            body,
        }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Whether the handler has run for it.
    fn is_paid(&self) -> bool {
        self.status == 201 && self.header("idempotent-replayed").is_none()
    }

    /// Whether it is this one again, byte for byte.
    fn is_replay_of(&self, paid: &Self) -> bool {
        let mut first = self.clone();
        let marker = first.headers.remove("idempotent-replayed");
        marker.is_some_and(|value| value == "true") && first == *paid
    }

    /// Whether the client is told to come back, since another request runs.
    fn is_in_progress(&self) -> bool {
        let pause = self.header("retry-after").map(str::parse::<u64>);
        self.status == 409
            && self.json()["code"] == "in-progress"
            && pause.is_some_and(|pause| pause.is_ok_and(|seconds| seconds > 0))
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }
}

fn new_key() -> String {
    Uuid::new_v4().to_string()
}

async fn pay(service: &Service, path: &str, key: &str) -> Answer {
    let response = service.post(path, key, PAY).send().await;
    Answer::read(response.expect("an answer")).await
}

/// Pays with a key until the answer is another one than that a request runs, and counts those.
async fn pay_when_free(service: &Service, path: &str, key: &str) -> (usize, Answer) {
    let mut refused = 0;
    loop {
        let answer = pay(service, path, key).await;
        if !answer.is_in_progress() {
            return (refused, answer);
        }
        refused += 1;
        tokio::time::sleep(INTERVAL).await;
    }
}

/// What support staff are told of a key of `ada`.
async fn look_up(service: &Service, key: &str) -> Answer {
    look_up_as("support", service, key).await
}

async fn look_up_as(who: &str, service: &Service, key: &str) -> Answer {
    let url = format!("http://{}/support/payments/ada/{key}", service.addr);
    let request = reqwest::Client::new().get(url).bearer_auth(who);
    Answer::read(request.send().await.expect("an answer")).await
}
