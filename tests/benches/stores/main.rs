//! What the stores cost: operations per second over a real Redis and a real Postgres, as ratios to
//! the commands or statements that an application without a store would send.
//!
//! Every round measures every case, in turn and in another order, and compares within the round, so
//! that a machine that slows down slows all of them. Sixteen tasks work at once, on one thread: that
//! of the benchmark for the store alone, that of the server over HTTP, whose clients have another.
//! Postgres has `fsync` on, for all cases. `cargo bench -p idem-tests --bench stores` takes about
//! two minutes, and half of it with `redis` or `postgres` behind `--`. Its goals are those of a quiet
//! machine and are printed, not asserted. Asserted is what each case did, as the server tells.
//!
//! On a busy machine look at the processor time of the thread, and of the server's processes.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "the figures are what it is for")]

mod postgres;
mod redis;
mod report;
mod stage;

use std::{
    mem,
    time::{Duration, Instant},
};

use idem_tests::measure::{Client, Served, Threads, factor, repeat, serve, single_threaded};
use tokio::runtime::Runtime;

use self::{
    report::{Slice, report},
    stage::{Bare, Id, Stage},
};

/// How many tasks, or connections over HTTP.
const TASKS: usize = 16;
const ROUNDS: usize = 15;
const SLICE: Duration = Duration::from_millis(300);
/// How many completed keys each task goes through.
const KEYS: u64 = 64;
/// How long the records live that are replayed.
const KEPT: Duration = Duration::from_hours(1);
/// How long new ones live: they expire while the benchmark runs, so that Redis is as full at its end
/// as at its beginning.
const BRIEF: Duration = Duration::from_secs(2);
const REQUEST: &str = r#"{"amount":100,"currency":"EUR"}"#;

/// One thing to measure. Its floor is the case before it.
#[derive(Debug, Clone, Copy)]
struct Case {
    name: &'static str,
    over: Over,
    what: What,
    side: Side,
    /// Of the ratio to the floor.
    goal: Option<f64>,
}

/// What is between the tasks and the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    /// Nothing.
    Nothing,
    /// An axum server.
    Http,
}

/// What is done again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// Reading the outcome of a key that is completed.
    Replay,
    /// Claiming a new key, and completing it.
    First,
}

/// Whose commands are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    /// Those of the floor.
    Bare,
    /// Those of our store.
    Ours,
}

/// A server, and what is asked of it.
trait Backend {
    /// Its floor.
    type Bare: Bare;

    /// What the two sides are called, for each thing that is done, and what the goals are.
    const CASES: [(What, [&'static str; 2], f64); 2];

    /// What there is to know before the figures.
    fn headline(&self) -> String;

    /// The process of the server.
    fn pid(&self) -> u32;

    /// Brings the server to rest before it is measured.
    async fn settle(&mut self, stage: &Stage<Self::Bare>);

    /// Opens the store and its floor on the runtime of whoever waits for it.
    fn open(&self) -> impl Future<Output = Stage<Self::Bare>> + Send + 'static;

    /// What the server has been asked for so far.
    async fn asked(&mut self) -> Asked;
}

/// What a server tells of the work that it was given, with what it counted.
#[derive(Debug, Default)]
struct Asked {
    /// How often it was asked for something.
    times: u64,
    /// The commands that scripts called, which nobody waited for.
    within: u64,
    /// How many bytes it logged ahead of its writes.
    logged: u64,
}

fn main() {
    let wanted = |name: &str| std::env::args().any(|argument| argument == name);
    let wants = |name, other| wanted(name) || !wanted(other);
    let runtime = single_threaded();
    if wants("redis", "postgres") {
        let redis = runtime.block_on(redis::Server::start());
        run(&runtime, redis);
    }
    if wants("postgres", "redis") {
        let postgres = runtime.block_on(postgres::Server::start());
        run(&runtime, postgres);
    }
}

fn run<B: Backend>(runtime: &Runtime, mut backend: B) {
    let cases = cases::<B>();
    let serving = backend.open();
    let server = serve(async move || serving.await.router());
    let stage = runtime.block_on(backend.open());
    let mut workers = runtime.block_on(async {
        let mut workers = Vec::new();
        for number in 0..TASKS {
            workers.push(Worker::open(&server, stage.clone(), number).await);
        }
        workers
    });
    // The records that are replayed: each case has its own.
    for case in cases.iter().filter(|case| case.what == What::Replay) {
        for worker in mem::take(&mut workers) {
            workers.push(runtime.block_on(worker.prepare(*case)));
        }
    }
    runtime.block_on(backend.settle(&stage));
    let threads = [Threads::current(), server.thread];

    let mut rounds: Vec<Vec<Slice>> = Vec::new();
    // The first round warms up.
    for round in 0..=ROUNDS {
        // By the end of the first one every connection is made, and Postgres has a process for it.
        let processes = Threads::of_process(backend.pid());
        let mut slices: Vec<Option<Slice>> = cases.iter().map(|_| None).collect();
        for turn in 0..cases.len() {
            let number = (turn + round) % cases.len();
            let case = cases[number];
            let thread = match case.over {
                Over::Nothing => &threads[0],
                Over::Http => &threads[1],
            };
            let before = runtime.block_on(backend.asked());
            let (worked, served) = (thread.worked(), processes.worked());
            let begin = Instant::now();
            let work = move |worker: Worker<B::Bare>| worker.work(case);
            let running = repeat(mem::take(&mut workers), SLICE, work);
            let (back, latencies) = runtime.block_on(running);
            workers = back;
            let elapsed = begin.elapsed();
            let worked = thread.worked().saturating_sub(worked);
            let served = processes.worked().saturating_sub(served);
            let asked = runtime.block_on(backend.asked()).since(&before);
            asked.check(case, latencies.len());

            let operations = factor(latencies.len());
            slices[number] = Some(Slice {
                per_second: operations / elapsed.as_secs_f64(),
                work: worked.as_secs_f64() / operations,
                served: served.as_secs_f64() / operations,
                asked,
                latencies,
            });
        }
        if round > 0 {
            rounds.push(slices.into_iter().flatten().collect());
        }
    }
    println!("\n{}", backend.headline());
    report(&cases, &rounds);
}

/// All cases, each floor before what is compared with it.
fn cases<B: Backend>() -> Vec<Case> {
    let mut cases = Vec::new();
    for over in [Over::Nothing, Over::Http] {
        for (what, [bare, ours], goal) in B::CASES {
            for (side, name) in [(Side::Bare, bare), (Side::Ours, ours)] {
                let judged = over == Over::Nothing && side == Side::Ours;
                cases.push(Case {
                    name,
                    over,
                    what,
                    side,
                    goal: judged.then_some(goal),
                });
            }
        }
    }
    cases
}

impl Asked {
    fn since(&self, before: &Self) -> Self {
        Self {
            times: self.times - before.times,
            within: self.within - before.within,
            logged: self.logged - before.logged,
        }
    }

    /// Checks that so many operations asked for what they had to ask for, and for nothing else.
    fn check(&self, case: Case, operations: usize) {
        let operations = u64::try_from(operations).expect("it is 64 bits");
        let each = match case.what {
            What::Replay => 1,
            What::First => 2,
        };
        assert_eq!(self.times, each * operations, "{case:?}: {self:?}");
        if case.what == What::Replay {
            assert_eq!((self.within, self.logged), (0, 0), "{case:?}");
        }
    }
}

/// One of those that work at once, with what it works on.
struct Worker<B> {
    stage: Stage<B>,
    client: Client,
    number: usize,
    done: u64,
}

impl<B: Bare> Worker<B> {
    async fn open(server: &Served, stage: Stage<B>, number: usize) -> Self {
        Self {
            client: Client::open(server.addr).await,
            stage,
            number,
            done: 0,
        }
    }

    /// Makes the records that this case replays.
    async fn prepare(mut self, case: Case) -> Self {
        for key in 0..KEYS {
            let id = self.known(key);
            match (case.over, case.side) {
                (Over::Http, Side::Ours) => self.post(case, &id).await,
                (Over::Nothing, side) => self.stage.first(side, &id, KEPT).await,
                // The handler of the floor reads what the floor alone reads.
                (Over::Http, Side::Bare) => {}
            }
        }
        self
    }

    async fn work(mut self, case: Case) -> Self {
        self.done += 1;
        let id = match case.what {
            What::Replay => self.known(self.done % KEYS),
            What::First => id(rand::random()),
        };
        match (case.over, case.what) {
            (Over::Nothing, What::Replay) => self.stage.replay(case.side, &id).await,
            (Over::Nothing, What::First) => self.stage.first(case.side, &id, BRIEF).await,
            (Over::Http, _) => self.post(case, &id).await,
        }
        self
    }

    async fn post(&mut self, case: Case, id: &Id) {
        let path = match (case.side, case.what) {
            (Side::Bare, What::Replay) => "/bare/replay",
            (Side::Bare, What::First) => "/bare/first",
            (Side::Ours, What::Replay) => "/ours/kept",
            (Side::Ours, What::First) => "/ours/brief",
        };
        let key = format!("Idempotency-Key: {}\r\n", id.escape_ascii());
        self.client.post(path, &key, REQUEST).await;
    }

    /// One of the keys of this task.
    fn known(&self, key: u64) -> Id {
        let number = u128::try_from(self.number).expect("it is 128 bits");
        id(number << 64 | u128::from(key))
    }
}

/// A key of 32 digits.
fn id(number: u128) -> Id {
    let digits = format!("{number:032x}").into_bytes();
    digits.try_into().expect("there are 32")
}
