//! A payment service on axum with the embedded store: repeat a request as often as you like, it is
//! paid once.
//!
//! `cargo run --example payments-axum`; `ADDR`, `LEASE` and `TTL` come from the environment.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "prints the lines to try")]

mod auth;
mod payments;
mod transfers;

use std::{error::Error, time::Duration};

use axum::{Router, middleware, routing};
use idem_axum::{Idempotency, MemoryStore};
use idem_examples::{ledger::Ledger, settings::Settings};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::watch,
};
use tower_http::catch_panic::CatchPanicLayer;
use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt};

/// How long a shutdown waits for handlers that run.
const DRAIN: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::registry()
        .with(filter)
        .with(fmt::layer().with_writer(std::io::stderr))
        .init();
    let settings = Settings::from_env()?;

    let store = MemoryStore::new();
    let payments = Idempotency::builder(store.clone())
        .lease(settings.lease)
        .ttl(settings.ttl)
        .build()?;
    let transfers = transfers::engine(store, &settings)?;

    let listener = TcpListener::bind(settings.addr).await?;
    let addr = listener.local_addr()?;
    println!("{}", lines_to_try(&addr.to_string()));

    let stopping = stop_signal()?;
    let mut stopped = stopping.clone();
    let server = axum::serve(
        listener,
        app(Ledger::default(), &payments, transfers.clone()),
    )
    .with_graceful_shutdown(async move {
        // The sender never goes away before it has sent.
        let _ = stopped.wait_for(|stop| *stop).await;
    });
    // New keyed requests are refused while those that run come to their end.
    let (result, ()) = tokio::join!(server, drain(stopping, [payments, transfers]));
    result?;
    Ok(())
}

fn app(ledger: Ledger, payments: &Idempotency, transfers: Idempotency) -> Router {
    Router::new()
        .route(
            "/v1/payments",
            routing::post(payments::create).get(payments::list),
        )
        .route("/v1/refunds", routing::post(payments::refund))
        .with_state(ledger)
        // The engine of the nested router wins there.
        .nest(
            "/api/v1/transfer/command",
            transfers::router().layer(transfers),
        )
        .layer(payments.clone())
        .layer(middleware::from_fn(auth::authenticate))
        .layer(CatchPanicLayer::new())
}

/// Turns true at Ctrl-C or SIGTERM.
fn stop_signal() -> std::io::Result<watch::Receiver<bool>> {
    let (stop, stopping) = watch::channel(false);
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        tracing::info!("shutting down");
        stop.send_replace(true);
    });
    Ok(stopping)
}

async fn drain(mut stopping: watch::Receiver<bool>, engines: [Idempotency; 2]) {
    let _ = stopping.wait_for(|stop| *stop).await;
    for idem in engines {
        let drained = idem.drain(DRAIN).await;
        tracing::info!(finished = drained.finished, left = drained.left, "drained");
    }
}

fn lines_to_try(addr: &str) -> String {
    format!(
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
"#
    )
}
