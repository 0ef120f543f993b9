//! Ending: what runs comes to its end within a limit, new keyed requests are refused meanwhile.
//!
//! The exit code says one thing: 0, every attempt came to its end; 2, attempts were left. What is
//! left lapses, and an equal request then runs again.

use std::{io, time::Duration};

use axum::Router;
use idem_axum::Idempotency;
use tokio::{
    net::TcpListener,
    signal::unix::{Signal, SignalKind, signal},
    sync::oneshot,
    time::timeout,
};

/// The exit code when attempts were left.
pub(crate) const ATTEMPTS_LEFT: i32 = 2;

/// How long answers may still be on their way after the limit.
const GRACE: Duration = Duration::from_secs(1);

/// Ctrl-C and SIGTERM.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// From here on neither ends the process by itself.
    pub(crate) fn catch() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// The next one of either kind.
    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Serves until a signal, then ends within `limit` and a grace, or at once at a second signal.
/// Returns how many attempts were left.
pub(crate) async fn serve(
    listener: TcpListener,
    app: Router,
    engines: [Idempotency; 2],
    mut signals: Signals,
    limit: Duration,
) -> io::Result<usize> {
    let (close, closed) = oneshot::channel();
    let server = axum::serve(listener, app).with_graceful_shutdown(async {
        // It is sent, or this function is over.
        let _: Result<(), _> = closed.await;
    });
    let mut server = tokio::spawn(server.into_future());
    tokio::select! {
        // Only a panic ends it before it is closed.
        ended = &mut server => ended??,
        () = signals.next() => {}
    }

    let [payments, transfers] = &engines;
    let end = async {
        // In this order: both engines are closed when the server and the log hear of it. The
        // server has the same time, for requests without a key and answers on their way.
        let (.., ended) = tokio::join!(
            biased;
            drain("payments", payments, limit),
            drain("transfers", transfers, limit),
            async {
                tracing::info!("shutting down");
                let _ = close.send(());
                timeout(limit.saturating_add(GRACE), server).await
            },
        );
        if ended.is_err() {
            tracing::warn!("connections are still open; ending anyway");
        }
    };
    tokio::select! {
        () = end => {}
        () = signals.next() => tracing::warn!("a second signal; ending at once"),
    }

    // What ended within the grace is not left.
    let now = Duration::ZERO;
    let left = payments.drain(now).await.left + transfers.drain(now).await.left;
    if left > 0 {
        tracing::warn!(left, "attempts are left to lapse");
    }
    Ok(left)
}

async fn drain(engine: &str, idem: &Idempotency, limit: Duration) {
    let drained = idem.drain(limit).await;
    let (finished, left) = (drained.finished, drained.left);
    tracing::info!(engine, finished, left, "drained");
}
