//! What a handler is to do, sent as the body of its request.
//!
//! So one handler serves every scenario, and a scenario shows in one place what happens.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The steps of one operation: the first run of the handler does the first step, the second run
/// the second; the last one is repeated.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Script {
    /// What a run writes into the ledger.
    pub line: String,
    /// One for each run.
    pub steps: Vec<Step>,
    /// Anything that makes another request of it.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub extra: Value,
}

impl Script {
    /// Writes `line` into the ledger and answers 201 with a body that no other run has.
    pub fn new(line: &str) -> Self {
        Self {
            line: line.to_owned(),
            steps: vec![Step::default()],
            extra: Value::Null,
        }
    }

    /// Does this instead.
    #[must_use]
    pub fn step(mut self, step: Step) -> Self {
        self.steps = vec![step];
        self
    }

    /// Does this in the next run.
    #[must_use]
    pub fn then(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// Makes another request of it, for the same ledger line.
    #[must_use]
    pub fn extra(mut self, extra: impl Into<Value>) -> Self {
        self.extra = extra.into();
        self
    }
}

/// What one run does: wait at a gate, write into the ledger, answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Step {
    /// Where it waits before its effect.
    #[serde(default)]
    pub gate: Option<String>,
    /// For how long it blocks its thread before its effect.
    #[serde(default)]
    pub blocks: Duration,
    /// For how long it waits before its effect.
    #[serde(default)]
    pub takes: Duration,
    /// Whether and where it panics.
    #[serde(default)]
    pub panic: Option<Crash>,
    /// Whether it writes into the ledger.
    pub effect: bool,
    /// The status of its answer.
    pub status: u16,
    /// The headers of its answer, in order; a value is bytes.
    #[serde(default)]
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body of its answer.
    pub body: Body,
    /// What it says about its own answer: `keep`, `release`, `forget`, `unknown`.
    #[serde(default)]
    pub outcome: Option<String>,
    /// What it calls the thing that it made.
    #[serde(default)]
    pub reference: Option<String>,
}

/// Where a handler panics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Crash {
    /// Before it awaits anything and before its effect.
    AtOnce,
    /// After its effect.
    AfterEffect,
    /// In the destructor of a guard, after its effect.
    InDrop,
}

/// The body of an answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Body {
    /// A text with a number that no other run has.
    Unique,
    /// These bytes.
    Bytes(Vec<u8>),
    /// So many bytes.
    Large(usize),
    /// These chunks, without a length.
    Chunks(Vec<String>),
    /// A chunk, and then a failure.
    Broken(String),
    /// A chunk, and then nothing, for ever.
    Endless(String),
    /// These chunks, with their length declared in a header.
    Declared(Vec<String>),
    /// The first chunk, and the others once this gate is open, without a length.
    Gated(Vec<String>, String),
    /// A chunk, so many times, without a length.
    Repeated(String, usize),
    /// A chunk of known length, and the trailer `x-sum: 7`.
    Trailed(String),
    /// A chunk without a length, and the same trailer.
    ChunkTrailed(String),
    /// What the handler saw of its request, as JSON.
    Seen,
}

impl Default for Step {
    fn default() -> Self {
        Self {
            gate: None,
            blocks: Duration::ZERO,
            takes: Duration::ZERO,
            panic: None,
            effect: true,
            status: 201,
            headers: Vec::new(),
            body: Body::Unique,
            outcome: None,
            reference: None,
        }
    }
}

impl Step {
    /// Answers with this status.
    pub fn status(status: u16) -> Self {
        Self {
            status,
            ..Self::default()
        }
    }

    /// Panics.
    pub fn crash(crash: Crash) -> Self {
        Self {
            panic: Some(crash),
            ..Self::default()
        }
    }

    /// Waits at this gate before its effect.
    #[must_use]
    pub fn gate(mut self, name: &str) -> Self {
        self.gate = Some(name.to_owned());
        self
    }

    /// Blocks its thread before its effect, as no handler should.
    #[must_use]
    pub fn blocks(mut self, time: Duration) -> Self {
        self.blocks = time;
        self
    }

    /// Waits before its effect.
    #[must_use]
    pub fn takes(mut self, time: Duration) -> Self {
        self.takes = time;
        self
    }

    /// Has no effect.
    #[must_use]
    pub fn without_effect(mut self) -> Self {
        self.effect = false;
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers
            .push((name.to_owned(), value.as_ref().to_vec()));
        self
    }

    /// Answers with this body.
    #[must_use]
    pub fn body(mut self, body: Body) -> Self {
        self.body = body;
        self
    }

    /// Answers with these bytes.
    #[must_use]
    pub fn bytes(self, bytes: impl AsRef<[u8]>) -> Self {
        self.body(Body::Bytes(bytes.as_ref().to_vec()))
    }

    /// Says this about its own answer.
    #[must_use]
    pub fn outcome(mut self, outcome: &str) -> Self {
        self.outcome = Some(outcome.to_owned());
        self
    }

    /// Calls the thing that it made this.
    #[must_use]
    pub fn reference(mut self, reference: &str) -> Self {
        self.reference = Some(reference.to_owned());
        self
    }
}

/// What a handler saw of its request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The method.
    pub method: String,
    /// The path as the client sent it, with its query.
    pub uri: String,
    /// The route template.
    pub route: Option<String>,
    /// The captured path parameters.
    pub params: BTreeMap<String, String>,
    /// The protocol version.
    pub version: String,
    /// Who calls, as the authentication said.
    pub user: Option<String>,
    /// The address that the connection comes from.
    pub peer: Option<String>,
    /// The number of the attempt.
    pub attempt: u32,
    /// The fence of the attempt.
    pub fence: u64,
    /// The key for the next service, `charge`.
    pub downstream: String,
}
