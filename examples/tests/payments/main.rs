//! The programs as processes: what the README shows, what each route of the payment services does,
//! how they stop, what a client makes of it, and what several of them do over one store.
//!
//! A test of a service is written once, over [`Framework`]; [`frameworks!`] and [`rows!`] run it on each.
#![forbid(unsafe_code)]

mod client;
mod readme;
mod routes;
mod shutdown;
mod stores;

use std::{
    env,
    io::{BufRead, BufReader, Read},
    path::PathBuf,
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use futures_util::future::{Either, select};
use reqwest::{Client, Error, RequestBuilder, Response};

/// Runs each named test, an `async fn(Framework)`, on every framework; after `blocking:` a
/// `fn(Framework)`.
macro_rules! frameworks {
    ($($name:ident),* $(,)? $(; blocking: $($blocking:ident),* $(,)?)?) => {
        frameworks!(@framework axum, Axum, [$($name)*], [$($($blocking)*)?]);
        frameworks!(@framework actix, Actix, [$($name)*], [$($($blocking)*)?]);
    };
    (@framework $module:ident, $framework:ident, [$($name:ident)*], [$($blocking:ident)*]) => {
        mod $module {
            $(
                #[tokio::test]
                async fn $name() {
                    super::$name($crate::Framework::$framework).await;
                }
            )*
            $(
                #[test]
                fn $blocking() {
                    super::$blocking($crate::Framework::$framework);
                }
            )*
        }
    };
}
use frameworks;

/// Which of the payment services a test runs.
#[derive(Debug, Clone, Copy)]
enum Framework {
    Axum,
    Actix,
}

impl Framework {
    fn other(self) -> Self {
        match self {
            Self::Axum => Self::Actix,
            Self::Actix => Self::Axum,
        }
    }

    /// The example, on a port that is free.
    fn command(self, environment: &[(&str, &str)]) -> Command {
        let mut command = Command::new(example(match self {
            Self::Axum => "payments-axum",
            Self::Actix => "payments-actix",
        }));
        command
            .env("ADDR", "127.0.0.1:0")
            .env("NO_COLOR", "1")
            .env("RUST_LOG", "info")
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Starts the example.
    fn start(self, environment: &[(&str, &str)]) -> Service {
        Service::started(self.command(environment))
    }
}

/// Longer than anything takes that a test waits for.
const PATIENCE: Duration = Duration::from_secs(20);

/// An example, on a port of its own; ended when dropped.
struct Service {
    process: Child,
    addr: String,
    log: Log,
    /// Open as long as the process writes to it.
    _stdout: BufReader<ChildStdout>,
}

impl Service {
    fn started(mut command: Command) -> Self {
        let mut process = command
            .spawn()
            .expect("the example is built with the tests of its package");
        let stderr = process.stderr.take().expect("it is piped");
        let stdout = process.stdout.take().expect("it is piped");
        let mut stdout = BufReader::new(stdout);
        let mut first = String::new();
        stdout
            .read_line(&mut first)
            .expect("it says where it listens");
        let log = Log::read(stderr);
        let Some(addr) = first.trim_end().strip_prefix("listening on http://") else {
            let _ = process.kill();
            panic!("it does not start: {first:?} {:?}", log.end());
        };
        Self {
            process,
            addr: addr.to_owned(),
            log,
            _stdout: stdout,
        }
    }

    /// A POST of JSON by `ada`.
    fn post(&self, path: &str, key: &str, body: &'static str) -> RequestBuilder {
        self.post_by(&Client::new(), path, key, body)
    }

    /// The same by a client that is given.
    fn post_by(
        &self,
        client: &Client,
        path: &str,
        key: &str,
        body: &'static str,
    ) -> RequestBuilder {
        client
            .post(format!("http://{}{path}", self.addr))
            .bearer_auth("ada")
            .header("idempotency-key", key)
            .header("content-type", "application/json")
            .timeout(Duration::from_secs(10))
            .body(body)
    }

    /// A payment that has begun; its client is attached until this is dropped.
    async fn running(
        &self,
        path: &str,
        key: &str,
        body: &'static str,
    ) -> impl Future<Output = Result<Response, Error>> + use<> {
        self.running_by(&Client::new(), path, key, body).await
    }

    /// The same by a client that is given.
    async fn running_by(
        &self,
        client: &Client,
        path: &str,
        key: &str,
        body: &'static str,
    ) -> impl Future<Output = Result<Response, Error>> + use<> {
        let send = || Box::pin(self.post_by(client, path, key, body).send());
        // Of two equal requests one runs, which the other is told at once.
        let (first, running) = match select(send(), send()).await {
            Either::Left((answer, other)) | Either::Right((answer, other)) => (answer, other),
        };
        assert_eq!(first.expect("an answer").status(), 409);
        running
    }

    /// Sends a signal by name.
    fn signal(&self, name: &str) {
        // The shell's own `kill`: a small system may have no other.
        let kill = format!("kill -s {name} {}", self.process.id());
        let sent = Command::new("sh").args(["-c", &kill]).status();
        let sent = sent.expect("a shell");
        assert!(sent.success());
    }

    /// Waits for the next line of the log with these words.
    fn log(&self, words: &str) -> String {
        self.log.next(words)
    }

    /// Waits until it ends by itself.
    fn end(&mut self) -> ExitStatus {
        self.log.end();
        self.process.wait().expect("it was started")
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A client that speaks HTTP/2 without TLS.
fn http2() -> Client {
    let client = Client::builder().http2_prior_knowledge().build();
    client.expect("nothing but the protocol is set")
}

/// What a process says on its standard error, line by line; closed when it ends.
struct Log(Receiver<String>);

impl Log {
    fn read(stderr: impl Read + Send + 'static) -> Self {
        let (say, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                // Nobody listens to a process that was dropped.
                let _ = say.send(line);
            }
        });
        Self(lines)
    }

    /// Waits for the next line with these words.
    fn next(&self, words: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.0.recv_timeout(left) {
                Ok(line) if line.contains(words) => return line,
                Ok(_) => {}
                Err(error) => panic!("`{words}` is not in the log: {error}"),
            }
        }
    }

    /// Waits until the process ends by itself. Returns the lines that nobody waited for.
    fn end(&self) -> Vec<String> {
        let until = Instant::now() + PATIENCE;
        let mut rest = Vec::new();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.0.recv_timeout(left) {
                Ok(line) => rest.push(line),
                Err(RecvTimeoutError::Disconnected) => return rest,
                Err(RecvTimeoutError::Timeout) => panic!("it still runs"),
            }
        }
    }
}

fn example(name: &str) -> PathBuf {
    let test = env::current_exe().expect("the path of this test");
    let target = test
        .parent()
        .and_then(|deps| deps.parent())
        .expect("it is in target/…/deps");
    target.join("examples").join(name)
}
