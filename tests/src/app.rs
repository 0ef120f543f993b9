//! The sample application, apart from any framework: it does what a [`Script`] says and writes a
//! ledger, which is the truth of every scenario.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use tokio::sync::watch;

use crate::{
    gate::{Gate, Gates},
    in_time,
    script::{Body, Crash, Script, Seen, Step},
};

/// The state that all handlers share with the test.
#[derive(Debug, Clone, Default)]
pub struct App(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    ledger: Mutex<Vec<String>>,
    runs: Mutex<HashMap<String, usize>>,
    gates: Gates,
    serial: AtomicUsize,
    forbidden: Mutex<Vec<String>>,
    refusals: Mutex<VecDeque<u16>>,
    requests: watch::Sender<usize>,
}

/// What a handler is to answer.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The headers, in order.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body.
    pub body: Body,
    /// What it says about its own answer.
    pub outcome: Option<String>,
    /// What the handler calls the thing that it made.
    pub reference: Option<String>,
}

impl App {
    /// How often this line stands in the ledger.
    pub fn effects(&self, line: &str) -> usize {
        lock(&self.0.ledger)
            .iter()
            .filter(|written| *written == line)
            .count()
    }

    /// How many lines the ledger has.
    pub fn total(&self) -> usize {
        lock(&self.0.ledger).len()
    }

    /// How often a handler began with this line.
    pub fn runs(&self, line: &str) -> usize {
        lock(&self.0.runs).get(line).copied().unwrap_or_default()
    }

    /// The gate of this name.
    pub fn gate(&self, name: &str) -> Gate {
        self.0.gates.gate(name)
    }

    /// Takes a user's right to call anything.
    pub fn forbid(&self, user: &str) {
        lock(&self.0.forbidden).push(user.to_owned());
    }

    /// Gives it back.
    pub fn allow(&self, user: &str) {
        lock(&self.0.forbidden).retain(|name| name != user);
    }

    /// Whether a user may call.
    pub fn may(&self, user: &str) -> bool {
        !lock(&self.0.forbidden).iter().any(|name| name == user)
    }

    /// Counts a request in, as long as the service is busy with it.
    pub fn begin(&self) -> Request {
        self.0.requests.send_modify(|requests| *requests += 1);
        Request(self.clone())
    }

    /// Waits until the service is busy with so many requests. One whose client left, and whose
    /// handler goes on, is none any more.
    ///
    /// # Panics
    /// If that does not come to be.
    pub async fn until_requests(&self, number: usize) {
        let mut requests = self.0.requests.subscribe();
        let reached = requests.wait_for(|requests| *requests == number);
        // The sender lives in `self`.
        let _ = in_time("the number of requests", reached).await;
    }

    /// Has the next guarded request refused with this status, by what stands before the handler.
    pub fn refuse(&self, status: u16) {
        lock(&self.0.refusals).push_back(status);
    }

    /// The status that a guarded request is to be refused with, once.
    pub fn refusal(&self) -> Option<u16> {
        lock(&self.0.refusals).pop_front()
    }

    /// Does what the script says, as a handler would.
    ///
    /// # Panics
    /// Where the script says so.
    pub async fn perform(&self, script: Script, seen: Seen) -> Reply {
        let run = {
            let mut runs = lock(&self.0.runs);
            let run = runs.entry(script.line.clone()).or_default();
            *run += 1;
            *run
        };
        tracing::info!(line = script.line, "handler has begun");
        let step = &script.steps[(run - 1).min(script.steps.len() - 1)];
        let crash = || panic!("the script of {} says so", script.line);
        if step.panic == Some(Crash::AtOnce) {
            crash();
        }
        if let Some(name) = &step.gate {
            self.gate(name).pass().await;
        }
        if !step.takes.is_zero() {
            tokio::time::sleep(step.takes).await;
        }
        if !step.blocks.is_zero() {
            thread::sleep(step.blocks);
        }
        if step.effect {
            lock(&self.0.ledger).push(script.line.clone());
        }
        tracing::info!(line = script.line, "handler has done its work");
        match step.panic {
            Some(Crash::AfterEffect) => crash(),
            Some(Crash::InDrop) => drop(OnDrop(crash)),
            Some(Crash::AtOnce) | None => {}
        }
        self.reply(step, &seen)
    }

    fn reply(&self, step: &Step, seen: &Seen) -> Reply {
        let body = match &step.body {
            Body::Unique => {
                let number = self.0.serial.fetch_add(1, Ordering::Relaxed);
                Body::Bytes(format!("answer {number}").into_bytes())
            }
            Body::Seen => Body::Bytes(serde_json::to_vec(seen).expect("strings and numbers")),
            Body::Large(length) => Body::Bytes(vec![b'x'; *length]),
            other => other.clone(),
        };
        Reply {
            status: step.status,
            headers: step.headers.clone(),
            body,
            outcome: step.outcome.clone(),
            reference: step.reference.clone(),
        }
    }
}

/// A request that the service is busy with.
#[derive(Debug)]
pub struct Request(App);

impl Drop for Request {
    fn drop(&mut self) {
        self.0.0.requests.send_modify(|requests| *requests -= 1);
    }
}

/// A guard that does something in its destructor.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        self.0();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
