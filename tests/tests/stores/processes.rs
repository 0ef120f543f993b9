//! Two processes over one store.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use idem_core::{Record, Store as _, store::Claim};
use idem_services::{Postgres, Redis};
use idem_tests::{
    StoreKind,
    race::{Race, Tally, open},
};

use crate::on_both;

on_both![
    of_fifty_claims_by_two_processes_one_has_each_fresh_key,
    of_fifty_claims_by_two_processes_one_has_each_lapsed_key,
    of_fifty_claims_by_two_processes_one_has_each_expired_key,
];

/// How many keys there are, and how many claims of each are sent at once.
const KEYS: usize = 200;
const CLAIMS: usize = 50;

/// Where the records of a test are.
async fn place(kind: StoreKind) -> (String, String) {
    let place = format!("race_{:016x}", rand::random::<u64>());
    let url = match kind {
        StoreKind::Redis => Redis::shared().await.url(),
        StoreKind::Postgres => Postgres::shared().await.url(),
        StoreKind::Memory => panic!("processes do not share the embedded store"),
    };
    (url, place)
}

/// A process that claims half of them.
struct Claimer {
    process: Child,
    start: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Claimer {
    /// Starts one and waits until it is ready.
    fn ready(url: &str, place: &str) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_claimer"))
            .args([url, place, &KEYS.to_string(), &(CLAIMS / 2).to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it is built with this test");
        let start = process.stdin.take().expect("it is piped");
        let mut answers = BufReader::new(process.stdout.take().expect("it is piped"));
        let mut ready = String::new();
        answers.read_line(&mut ready).expect("it says so");
        assert_eq!(ready, "ready\n");
        Self {
            process,
            start,
            answers,
        }
    }

    /// Has it claim the next key.
    fn go(&mut self) {
        self.start.write_all(b"\n").expect("it waits for it");
    }

    /// How its claims of that key were answered.
    fn tally(&mut self) -> Tally {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("it is text");
        serde_json::from_str(&line).expect("a tally")
    }
}

impl Drop for Claimer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Both processes at once, key by key: one claim has it, and nobody is left without an answer.
async fn one_has_each_key(url: String, place: String) {
    let raced = tokio::task::spawn_blocking(move || {
        let mut claimers = [(); 2].map(|()| Claimer::ready(&url, &place));
        let mut wins = [0; 2];
        for key in 0..KEYS {
            claimers.iter_mut().for_each(Claimer::go);
            let [ours, theirs] = claimers.each_mut().map(Claimer::tally);
            let acquired = ours.acquired + theirs.acquired;
            let in_progress = ours.in_progress + theirs.in_progress;
            assert_eq!(
                (acquired, in_progress),
                (1, CLAIMS - 1),
                "{key}: {ours:?} {theirs:?}"
            );
            wins[usize::from(theirs.acquired == 1)] += 1;
        }
        wins
    });
    let wins = raced.await.expect("no panic");
    eprintln!("keys won by each process: {wins:?}");
    assert!(
        wins.iter().all(|wins| *wins > 0),
        "they never met: {wins:?}"
    );
}

/// B01-01, B13-05
async fn of_fifty_claims_by_two_processes_one_has_each_fresh_key(kind: StoreKind) {
    let (url, place) = place(kind).await;
    // The table is there before both look for it.
    drop(open(&url, &place).await);
    one_has_each_key(url, place).await;
}

/// B01-01, P-20
async fn of_fifty_claims_by_two_processes_one_has_each_lapsed_key(kind: StoreKind) {
    let (url, place) = place(kind).await;
    let store = open(&url, &place).await;
    let lease = Duration::from_millis(20);
    for key in 0..KEYS {
        let race = Race::key(key).with_lease(lease);
        let claimed = store.claim(&race.claim()).await;
        assert!(matches!(claimed, Ok(Claim::Acquired { .. })), "{claimed:?}");
    }
    // The lease of the last one ends with its time, and nothing tells.
    tokio::time::sleep(lease * 2).await;
    one_has_each_key(url, place).await;
}

/// B01-01
async fn of_fifty_claims_by_two_processes_one_has_each_expired_key(kind: StoreKind) {
    let (url, place) = place(kind).await;
    let store = open(&url, &place).await;
    let ttl = Duration::from_millis(20);
    for key in 0..KEYS {
        let race = Race::key(key);
        let claimed = store.claim(&race.claim()).await;
        let Ok(Claim::Acquired { grant }) = claimed else {
            panic!("the key is new: {claimed:?}")
        };
        let lease = race.lease(grant);
        let completed = store.complete(&lease, &Record::new(201, "paid"), ttl).await;
        let _ = completed.expect("the store answers");
    }
    tokio::time::sleep(ttl * 2).await;
    one_has_each_key(url, place).await;
}
