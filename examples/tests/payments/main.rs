//! The payment services as processes: what the README shows, what each route does, how they stop.
#![forbid(unsafe_code)]

mod readme;
mod routes;
mod shutdown;

use std::{
    env,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

/// Longer than anything takes that a test waits for.
const PATIENCE: Duration = Duration::from_secs(20);

/// The example, on a port of its own; ended when dropped.
struct Service {
    process: Child,
    addr: String,
    /// What it logs, line by line; closed when it ends.
    log: Receiver<String>,
    /// Open as long as the process writes to it.
    _stdout: BufReader<ChildStdout>,
}

impl Service {
    fn start(environment: &[(&str, &str)]) -> Self {
        let mut process = command(environment)
            .spawn()
            .expect("the example is built with the tests of its package");
        let stderr = process.stderr.take().expect("it is piped");
        let (say, log) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                // Nobody listens to a service that was dropped.
                let _ = say.send(line);
            }
        });
        let stdout = process.stdout.take().expect("it is piped");
        let mut stdout = BufReader::new(stdout);
        let mut first = String::new();
        stdout
            .read_line(&mut first)
            .expect("it says where it listens");
        let addr = first.trim_end().strip_prefix("listening on http://");
        let addr = addr.expect("that is what it says first").to_owned();
        Self {
            process,
            addr,
            log,
            _stdout: stdout,
        }
    }

    /// A POST of JSON by `ada`.
    fn post(&self, path: &str, key: &str, body: &'static str) -> reqwest::RequestBuilder {
        reqwest::Client::new()
            .post(format!("http://{}{path}", self.addr))
            .bearer_auth("ada")
            .header("idempotency-key", key)
            .header("content-type", "application/json")
            .timeout(Duration::from_secs(10))
            .body(body)
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
        let until = Instant::now() + PATIENCE;
        loop {
            let line = self
                .log
                .recv_timeout(until.saturating_duration_since(Instant::now()));
            match line {
                Ok(line) if line.contains(words) => return line,
                Ok(_) => {}
                Err(error) => panic!("`{words}` is not in the log: {error}"),
            }
        }
    }

    /// Waits until it ends by itself.
    fn end(&mut self) -> ExitStatus {
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.log.recv_timeout(left) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("it still runs"),
            }
        }
        self.process.wait().expect("it was started")
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The example, on a port that is free.
fn command(environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new(example("payments-axum"));
    command
        .env("ADDR", "127.0.0.1:0")
        .env("NO_COLOR", "1")
        .env("RUST_LOG", "info")
        .envs(environment.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn example(name: &str) -> PathBuf {
    let test = env::current_exe().expect("the path of this test");
    let target = test
        .parent()
        .and_then(|deps| deps.parent())
        .expect("it is in target/…/deps");
    target.join("examples").join(name)
}
