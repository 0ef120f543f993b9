//! A service as a process: its log, what it says when it listens, the signals that end it, its exit code.
//!
//! The exit code says one thing: 0, every attempt came to its end; 2, attempts were left. What is
//! left lapses, and an equal request then runs again.

use std::{
    error::Error,
    io,
    net::SocketAddr,
    process::{self, ExitCode},
    time::Duration,
};

use idem_core::Drained;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt};

/// The exit code when attempts were left.
const ATTEMPTS_LEFT: i32 = 2;

/// How long answers may still be on their way after the limit of a shutdown.
pub const GRACE: Duration = Duration::from_secs(1);

/// Logs to the standard error what `RUST_LOG` asks for.
pub fn log() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::registry()
        .with(filter)
        .with(fmt::layer().with_writer(io::stderr))
        .init();
}

/// Ctrl-C and SIGTERM.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// From here on neither ends the process by itself.
    ///
    /// # Errors
    /// That of the system.
    pub fn catch() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// The next one of either kind.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// Lets a shutdown come to its end, unless there is another signal before.
    pub async fn or_at_once(mut self, shutdown: impl Future<Output = ()>) {
        tokio::select! {
            () = shutdown => {}
            () = self.next() => tracing::warn!("a second signal; ending at once"),
        }
    }
}

/// Logs what the drain of an engine achieves.
pub async fn log_drain(engine: &str, drain: impl Future<Output = Drained>) {
    let Drained { finished, left } = drain.await;
    tracing::info!(engine, finished, left, "drained");
}

/// What `main` returns of a service that has ended and has left so many attempts.
pub fn exit_code(ended: Result<usize, Box<dyn Error>>) -> ExitCode {
    match ended {
        Ok(0) => ExitCode::SUCCESS,
        Ok(left) => {
            tracing::warn!(left, "attempts are left to lapse");
            // Returning would wait for a handler that blocks its thread.
            process::exit(ATTEMPTS_LEFT);
        }
        Err(error) => {
            eprintln!("{}", with_causes(&*error));
            ExitCode::FAILURE
        }
    }
}

/// An error prints its own level only.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        said = format!("{said}: {error}");
        cause = error.source();
    }
    said
}

/// Says where a service listens, and what to try there.
#[expect(clippy::print_stdout, reason = "prints the lines to try")]
pub fn announce(addr: SocketAddr) {
    println!(
        r#"listening on http://{addr}

  # pay; repeat the line as often as you like, it is paid once
  curl -i http://{addr}/v1/payments -H 'Authorization: Bearer ada' \
    -H 'Idempotency-Key: order-17' --json '{{"amount": 1200, "currency": "EUR", "card": "ok"}}'

  # the same key for another payment is refused
  curl -i http://{addr}/v1/payments -H 'Authorization: Bearer ada' \
    -H 'Idempotency-Key: order-17' --json '{{"amount": 9900, "currency": "EUR", "card": "ok"}}'

  # a slow one: repeat it within five seconds, and after
  curl -i 'http://{addr}/v1/payments?slow=5s' -H 'Authorization: Bearer ada' \
    -H 'Idempotency-Key: order-18' --json '{{"amount": 500, "currency": "EUR", "card": "ok"}}'

  # what was really paid
  curl http://{addr}/v1/payments -H 'Authorization: Bearer ada'

  # what support staff see of a key
  curl http://{addr}/support/payments/ada/order-17 -H 'Authorization: Bearer support'
"#
    );
}
