//! The client as a process: one operation, one key, one payment, whatever happens in between.

mod answers;
pub(super) mod interrupted;

use std::{
    env, fs,
    io::Read,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use idem_examples::journal::{Journal, Operation, Request};
use uuid::Uuid;

use super::{Log, example};

const NAME: &str = "invoice-17";
pub(super) const PAY: [&str; 3] = [NAME, "1200", "EUR"];

/// What the client makes of [`PAY`].
pub(super) const BODY: &str = r#"{"amount":1200,"currency":"EUR","card":"ok"}"#;

/// Somebody who pays at one URL, with a journal of his own; it is removed when dropped.
pub(super) struct Payer {
    url: String,
    journal: PathBuf,
}

impl Payer {
    fn at(url: impl Into<String>) -> Self {
        let journal = format!("{}.jsonl", Uuid::new_v4());
        Self {
            url: url.into(),
            journal: PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(journal),
        }
    }

    /// Starts the client. Its pauses are short.
    pub(super) fn start(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Client {
        let mut process = Command::new(example("client"))
            .args(arguments)
            .env("URL", &self.url)
            .env("JOURNAL", &self.journal)
            .env("PAUSE", "10ms")
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the example is built with the tests of its package");
        let stderr = process.stderr.take().expect("it is piped");
        Client {
            process,
            log: Log::read(stderr),
        }
    }

    fn run(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Ended {
        self.start(arguments, environment).end()
    }

    /// The journal of a client that was killed after it had written down a payment.
    fn started(&self) -> Operation {
        let url = self.url.clone();
        let body = BODY.to_owned();
        let operation = Operation::new(NAME.to_owned(), Request { url, body });
        self.write(operation.clone());
        operation
    }

    fn write(&self, operation: Operation) {
        let mut journal = Journal::open(&self.journal).expect("nobody else has it");
        journal.write(operation).expect("written");
    }

    /// The one key of the journal, which a client may be writing.
    pub(super) fn key(&self) -> Uuid {
        let text = fs::read_to_string(&self.journal).expect("a client has written it");
        let lines = text
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'));
        let mut keys = lines.map(|line| {
            let operation: Operation = serde_json::from_str(line).expect("an operation");
            operation.key
        });
        let key = keys.next().expect("it is written down before it is sent");
        assert!(keys.all(|other| other == key), "{text}");
        key
    }

    /// What the journal says when no client runs.
    fn remembered(&self) -> Operation {
        let journal = Journal::open(&self.journal).expect("nobody else has it");
        journal.find(NAME).expect("it was written").clone()
    }
}

impl Drop for Payer {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.journal);
    }
}

/// A client that runs; ended when dropped.
pub(super) struct Client {
    process: Child,
    log: Log,
}

impl Client {
    /// Waits for the next line of the log with these words.
    pub(super) fn log(&self, words: &str) -> String {
        self.log.next(words)
    }

    /// Waits until it ends by itself.
    pub(super) fn end(mut self) -> Ended {
        let log = self.log.end();
        let mut said = String::new();
        let stdout = self.process.stdout.as_mut().expect("it is piped");
        stdout.read_to_string(&mut said).expect("text");
        let status = self.process.wait().expect("it was started");
        Ended {
            code: status.code(),
            said,
            log,
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A client that has ended.
pub(super) struct Ended {
    code: Option<i32>,
    said: String,
    /// The lines that nobody waited for.
    log: Vec<String>,
}

impl Ended {
    #[track_caller]
    pub(super) fn expect(&self, code: i32, said: &str) {
        assert_eq!(self.code, Some(code), "{} {:?}", self.said, self.log);
        assert!(self.said.starts_with(said), "{} {:?}", self.said, self.log);
    }
}
