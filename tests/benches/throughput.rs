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

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use axum::{Extension, Json, Router, http::StatusCode, routing::post, serve::ListenerExt};
use idem_axum::{Idempotency, MemoryStore, Principal, idempotent};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime::{Builder, Runtime},
};

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
    let server = serve(idem.clone());
    let runtime = single_threaded();
    let mut connections = runtime.block_on(async {
        let mut connections = Vec::new();
        for number in 0..CONNECTIONS {
            connections.push(Connection::open(server.addr, number).await);
        }
        connections[0].make_records().await;
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

/// Serves on a thread of its own.
fn serve(idem: Idempotency) -> Server {
    let (sender, server) = mpsc::channel();
    thread::spawn(move || {
        single_threaded().block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
            let _ = sender.send(Server {
                addr: listener.local_addr().expect("it is bound"),
                thread: Path::new("/proc")
                    .join(fs::read_link("/proc/thread-self").unwrap_or_default()),
            });
            let protected = Router::new()
                .route("/layered", post(plain))
                .route("/annotated", post(annotated))
                .route("/brief", post(brief))
                .layer(idem);
            let router = Router::new()
                .route("/plain", post(plain))
                .merge(protected)
                .layer(Extension(Principal::new("ada")));
            let listener = listener.tap_io(|stream| {
                stream.set_nodelay(true).expect("it is open");
            });
            axum::serve(listener, router).await.expect("it serves");
        });
    });
    server.recv().expect("the server has begun")
}

/// A server, and where the system tells about its thread.
struct Server {
    addr: SocketAddr,
    thread: PathBuf,
}

impl Server {
    /// How long its thread has had a processor; zero where the system does not tell.
    fn worked(&self) -> Duration {
        let told = fs::read_to_string(self.thread.join("schedstat")).unwrap_or_default();
        let nanoseconds = told.split(' ').next().and_then(|first| first.parse().ok());
        Duration::from_nanos(nanoseconds.unwrap_or_default())
    }
}

fn single_threaded() -> Runtime {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime")
}

/// Sends requests of one case over all connections at once, for one slice of time.
fn measure(
    runtime: &Runtime,
    connections: &mut Vec<Connection>,
    case: Case,
    idem: &Idempotency,
    server: &Server,
) -> Slice {
    let before = idem.counts();
    let worked = server.worked();
    let begin = Instant::now();
    let latencies = runtime.block_on(async {
        let until = begin + SLICE;
        let running = connections
            .drain(..)
            .map(|connection| tokio::spawn(connection.send_until(case, until)));
        let running: Vec<_> = running.collect();
        let mut latencies = Vec::new();
        for ended in running {
            let (connection, mut more) = ended.await.expect("no panic");
            connections.push(connection);
            latencies.append(&mut more);
        }
        latencies
    });
    let elapsed = begin.elapsed();
    let worked = server.worked().saturating_sub(worked);
    let after = idem.counts();

    let sent = u32::try_from(latencies.len()).expect("fewer than four thousand million");
    let requests = f64::from(sent);
    let sent = u64::from(sent);
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

/// A connection that is kept alive.
struct Connection {
    stream: TcpStream,
    number: usize,
    sent: u64,
    buffer: Vec<u8>,
}

impl Connection {
    async fn open(addr: SocketAddr, number: usize) -> Self {
        let stream = TcpStream::connect(addr).await.expect("the server listens");
        stream.set_nodelay(true).expect("it is open");
        Self {
            stream,
            number,
            sent: 0,
            buffer: Vec::with_capacity(4096),
        }
    }

    /// Makes the records that are replayed.
    async fn make_records(&mut self) {
        let many = CASES.iter().find(|case| case.keys == Keys::Many);
        for _ in 0..KEYS {
            self.exchange(*many.expect("it is there")).await;
        }
    }

    async fn send_until(mut self, case: Case, until: Instant) -> (Self, Vec<Duration>) {
        let mut latencies = Vec::with_capacity(10_000);
        loop {
            let begin = Instant::now();
            if begin >= until {
                return (self, latencies);
            }
            self.exchange(case).await;
            latencies.push(begin.elapsed());
        }
    }

    async fn exchange(&mut self, case: Case) {
        let request = self.request(case);
        let written = self.stream.write_all(request.as_bytes()).await;
        written.expect("the connection is open");
        self.take_answer().await;
    }

    fn request(&mut self, case: Case) -> String {
        self.sent += 1;
        let number = match case.keys {
            Keys::None => None,
            Keys::One => Some(0),
            Keys::Many => Some(self.sent % KEYS),
            Keys::Fresh => Some(self.sent),
        };
        // Replays share their keys; fresh ones are of this connection alone.
        let connection = match case.keys {
            Keys::Fresh => self.number + 1,
            Keys::None | Keys::One | Keys::Many => 0,
        };
        let key = number.map_or_else(String::new, |number| {
            format!("Idempotency-Key: 8e03978e-40d5-43e8-{connection:04x}-{number:012x}\r\n")
        });
        format!(
            "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n{key}\r\n{BODY}",
            case.path,
            BODY.len(),
        )
    }

    async fn take_answer(&mut self) {
        self.buffer.clear();
        loop {
            let read = self.stream.read_buf(&mut self.buffer).await.expect("open");
            assert!(read > 0, "the server closed the connection");
            if is_whole(&self.buffer) {
                assert!(
                    self.buffer.starts_with(b"HTTP/1.1 201 "),
                    "{:?}",
                    self.buffer.escape_ascii()
                );
                return;
            }
        }
    }
}

/// Whether an answer is there, with all of its body.
fn is_whole(answer: &[u8]) -> bool {
    const LENGTH: &[u8] = b"content-length: ";
    let find = |needle: &[u8]| {
        answer
            .windows(needle.len())
            .position(|window| window == needle)
    };
    let Some(end) = find(b"\r\n\r\n") else {
        return false;
    };
    let start = find(LENGTH).expect("its length is known") + LENGTH.len();
    let digits = answer[start..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit());
    let length = digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0'));
    answer.len() >= end + 4 + length
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
            let figures = rounds.iter().map(|round| figure(&round[number], &round[0]));
            let mut figures: Vec<f64> = figures.collect();
            figures.sort_by(f64::total_cmp);
            figures
        };
        let ratios = all(|ours, plain| ours.per_second / plain.per_second);
        let mut latencies: Vec<Duration> = rounds
            .iter()
            .flat_map(|round| round[number].latencies.iter().copied())
            .collect();
        latencies.sort_unstable();
        let quantile =
            |percent: usize| latencies[(latencies.len() - 1) * percent / 100].as_micros();
        println!(
            "{:<26} {:>8.0} {:>6.3} {:>6.3} {:>6.2}   {:>8.2} {:>6.3}   {:>7} {:>7}",
            case.name,
            median(&all(|ours, _| ours.per_second)),
            median(&ratios),
            ratios[0],
            case.goal,
            median(&all(|ours, _| ours.work)) * 1e6,
            median(&all(|ours, plain| plain.work / ours.work)),
            quantile(50),
            quantile(99),
        );
    }
}

/// The middle one of figures in order.
fn median(figures: &[f64]) -> f64 {
    figures[figures.len() / 2]
}
