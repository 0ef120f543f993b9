//! What the attribute costs: requests per second over real loopback HTTP, as ratios to the same
//! handler without it.
//!
//! Every round measures every case, in turn and in another order, and compares within the round,
//! so that a machine that slows down slows all of them. The server has one thread, the clients
//! another. `cargo bench -p idem-tests` takes about half a minute; its goals are those of a quiet
//! machine and are printed, not asserted. Whether each case did what it says is asserted.
//!
//! On a busy machine look at the processor time of the server's thread, which Linux tells: it does
//! not count the time in which the thread had no processor.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "the figures are what it is for")]

use std::time::{Duration, Instant};

use axum::{Extension, Json, Router, http::StatusCode, routing::post};
use idem_axum::{Idempotency, MemoryStore, Principal, idempotent};
use idem_tests::measure::{
    Client, Served, factor, median, quantile, repeat, serve, single_threaded, sorted,
};
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;

const CONNECTIONS: usize = 16;
const ROUNDS: usize = 15;
const SLICE: Duration = Duration::from_millis(300);
/// How many keys the replays of many keys go through.
const KEYS: u64 = 1_000;
const BODY: &str = r#"{"amount":100,"currency":"EUR"}"#;

#[derive(Deserialize)]
struct NewPayment {
    amount: u64,
    currency: String,
}

#[derive(Serialize)]
struct Payment {
    id: u64,
    amount: u64,
    currency: String,
    status: &'static str,
}

async fn plain(Json(new): Json<NewPayment>) -> (StatusCode, Json<Payment>) {
    let payment = Payment {
        id: 7,
        amount: new.amount,
        currency: new.currency,
        status: "captured",
    };
    (StatusCode::CREATED, Json(payment))
}

#[idempotent]
async fn annotated(new: Json<NewPayment>) -> (StatusCode, Json<Payment>) {
    plain(new).await
}

/// Its records expire while it runs, so that the store is as full at its end as at its beginning.
#[idempotent(ttl = "2s")]
async fn brief(new: Json<NewPayment>) -> (StatusCode, Json<Payment>) {
    plain(new).await
}

/// One thing to measure.
#[derive(Debug, Clone, Copy)]
struct Case {
    name: &'static str,
    path: &'static str,
    keys: Keys,
    goal: f64,
}

/// Which keys a case sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keys {
    None,
    One,
    Many,
    Fresh,
}

const CASES: [Case; 6] = [
    Case {
        name: "plain handler",
        path: "/plain",
        keys: Keys::None,
        goal: 1.0,
    },
    // The same handler in a router that has the layer: what any layer of the framework costs.
    Case {
        name: "plain handler in the layer",
        path: "/layered",
        keys: Keys::None,
        goal: 1.0,
    },
    Case {
        name: "attribute, no key",
        path: "/annotated",
        keys: Keys::None,
        goal: 0.99,
    },
    Case {
        name: "replay, one key",
        path: "/annotated",
        keys: Keys::One,
        goal: 0.90,
    },
    Case {
        name: "replay, 1 000 keys",
        path: "/annotated",
        keys: Keys::Many,
        goal: 0.90,
    },
    Case {
        name: "first execution",
        path: "/brief",
        keys: Keys::Fresh,
        goal: 0.85,
    },
];

/// What one case did in one round.
struct Slice {
    per_second: f64,
    /// How long the server's thread worked for a request, in seconds.
    work: f64,
    latencies: Vec<Duration>,
}

fn main() {
    let idem = Idempotency::new(MemoryStore::new());
    let server = serve({
        let idem = idem.clone();
        async move || router(idem)
    });
    let runtime = single_threaded();
    let mut connections = runtime.block_on(async {
        Connection::open(&server, 0).await.make_records().await;
        let mut connections = Vec::new();
        for number in 0..CONNECTIONS {
            connections.push(Connection::open(&server, number).await);
        }
        connections
    });

    let mut rounds: Vec<Vec<Slice>> = Vec::new();
    // The first round warms up.
    for round in 0..=ROUNDS {
        let mut slices: Vec<Option<Slice>> = CASES.iter().map(|_| None).collect();
        for turn in 0..CASES.len() {
            let case = (turn + round) % CASES.len();
            let slice = measure(&runtime, &mut connections, CASES[case], &idem, &server);
            slices[case] = Some(slice);
        }
        if round > 0 {
            rounds.push(slices.into_iter().flatten().collect());
        }
    }
    report(&rounds);
}

fn router(idem: Idempotency) -> Router {
    let protected = Router::new()
        .route("/layered", post(plain))
        .route("/annotated", post(annotated))
        .route("/brief", post(brief))
        .layer(idem);
    Router::new()
        .route("/plain", post(plain))
        .merge(protected)
        .layer(Extension(Principal::new("ada")))
}

/// Sends requests of one case over all connections at once, for one slice of time.
fn measure(
    runtime: &Runtime,
    connections: &mut Vec<Connection>,
    case: Case,
    idem: &Idempotency,
    server: &Served,
) -> Slice {
    let before = idem.counts();
    let worked = server.thread.worked();
    let begin = Instant::now();
    let exchange = move |connection: Connection| connection.exchange(case);
    let running = repeat(std::mem::take(connections), SLICE, exchange);
    let (back, latencies) = runtime.block_on(running);
    *connections = back;
    let elapsed = begin.elapsed();
    let worked = server.thread.worked().saturating_sub(worked);
    let after = idem.counts();

    let requests = factor(latencies.len());
    let sent = u64::try_from(latencies.len()).expect("it is 64 bits");
    let (executed, replayed) = match case.keys {
        Keys::None => (0, 0),
        Keys::One | Keys::Many => (0, sent),
        Keys::Fresh => (sent, 0),
    };
    let did = (
        after.executed - before.executed,
        after.replayed - before.replayed,
    );
    assert_eq!(did, (executed, replayed), "{case:?}");
    Slice {
        per_second: requests / elapsed.as_secs_f64(),
        work: worked.as_secs_f64() / requests,
        latencies,
    }
}

/// A client, and the keys that it sends.
struct Connection {
    client: Client,
    number: usize,
    sent: u64,
}

impl Connection {
    async fn open(server: &Served, number: usize) -> Self {
        Self {
            client: Client::open(server.addr).await,
            number,
            sent: 0,
        }
    }

    /// Makes the records that are replayed.
    async fn make_records(mut self) {
        let many = CASES.iter().find(|case| case.keys == Keys::Many);
        for _ in 0..KEYS {
            self = self.exchange(*many.expect("it is there")).await;
        }
    }

    async fn exchange(mut self, case: Case) -> Self {
        let key = self.key(case.keys);
        self.client.post(case.path, &key, BODY).await;
        self
    }

    /// The header line with its next key.
    fn key(&mut self, keys: Keys) -> String {
        self.sent += 1;
        let number = match keys {
            Keys::None => None,
            Keys::One => Some(0),
            Keys::Many => Some(self.sent % KEYS),
            Keys::Fresh => Some(self.sent),
        };
        // Replays share their keys; fresh ones are of this connection alone.
        let connection = match keys {
            Keys::Fresh => self.number + 1,
            Keys::None | Keys::One | Keys::Many => 0,
        };
        number.map_or_else(String::new, |number| {
            format!("Idempotency-Key: 8e03978e-40d5-43e8-{connection:04x}-{number:012x}\r\n")
        })
    }
}

fn report(rounds: &[Vec<Slice>]) {
    println!(
        "\n{CONNECTIONS} connections, {ROUNDS} rounds of {} ms; ratios to the plain handler of the round\n",
        SLICE.as_millis()
    );
    println!(
        "{:<26} {:>8} {:>6} {:>6} {:>6}   {:>8} {:>6}   {:>7} {:>7}",
        "", "req/s", "ratio", "worst", "goal", "work µs", "ratio", "p50 µs", "p99 µs"
    );
    for (number, case) in CASES.iter().enumerate() {
        let all = |figure: fn(&Slice, &Slice) -> f64| {
            sorted(rounds.iter().map(|round| figure(&round[number], &round[0])))
        };
        let ratios = all(|ours, plain| ours.per_second / plain.per_second);
        let mut latencies: Vec<Duration> = rounds
            .iter()
            .flat_map(|round| round[number].latencies.iter().copied())
            .collect();
        latencies.sort_unstable();
        println!(
            "{:<26} {:>8.0} {:>6.3} {:>6.3} {:>6.2}   {:>8.2} {:>6.3}   {:>7} {:>7}",
            case.name,
            median(&all(|ours, _| ours.per_second)),
            median(&ratios),
            ratios[0],
            case.goal,
            median(&all(|ours, _| ours.work)) * 1e6,
            median(&all(|ours, plain| plain.work / ours.work)),
            quantile(&latencies, 50),
            quantile(&latencies, 99),
        );
    }
}
