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
    time::Duration,
};

/// The example, on a port of its own; ended when dropped.
struct Service {
    process: Child,
    addr: String,
    /// Open as long as the process writes to it.
    _stdout: BufReader<ChildStdout>,
}

impl Service {
    fn start(environment: &[(&str, &str)]) -> Self {
        let mut process = Command::new(example("payments-axum"))
            .env("ADDR", "127.0.0.1:0")
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the example is built with the tests of its package");
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
        let process = self.process.id().to_string();
        let sent = Command::new("kill")
            .args(["-s", name, &process])
            .status()
            .expect("a shell");
        assert!(sent.success());
    }

    fn wait(&mut self) -> ExitStatus {
        self.process.wait().expect("it was started")
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
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
