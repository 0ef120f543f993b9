//! A payment service on axum: repeat a request as often as you like, it is paid once.
//!
//! `cargo run --example payments-axum`; `ADDR`, `DRAIN`, `LEASE`, `LEDGER`, `STORE` and `TTL` come from
//! the environment.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "prints the lines to try")]

mod auth;
mod payments;
mod shutdown;
mod support;
mod transfers;

use std::{
    error::Error,
    process::{self, ExitCode},
    sync::Arc,
};

use axum::{Router, middleware, routing};
use idem_axum::Idempotency;
use idem_examples::{ledger::Ledger, settings::Settings};
use shutdown::Signals;
use tokio::net::TcpListener;
use tower_http::catch_panic::CatchPanicLayer;
use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt};

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", with_causes(&*error));
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::registry()
        .with(filter)
        .with(fmt::layer().with_writer(std::io::stderr))
        .init();
    let settings = Settings::from_env()?;

    let store = settings.store.open().await;
    let store = store.map_err(|error| format!("`STORE`: {}", with_causes(&error)))?;
    let ledger = match settings.ledger.clone() {
        Some(path) => Ledger::in_file(path).map_err(|error| format!("`LEDGER`: {error}"))?,
        None => Ledger::in_memory(),
    };
    let payments = Idempotency::builder(Arc::clone(&store))
        .lease(settings.lease)
        .ttl(settings.ttl)
        .build()?;
    let transfers = transfers::engine(store, &settings)?;

    let signals = Signals::catch()?;
    let listener = TcpListener::bind(settings.addr).await?;
    let addr = listener.local_addr()?;
    println!("{}", lines_to_try(&addr.to_string()));

    let app = app(ledger, &payments, transfers.clone());
    let engines = [payments, transfers];
    let left = shutdown::serve(listener, app, engines, signals, settings.drain).await?;
    if left > 0 {
        // Returning would wait for a handler that blocks its thread.
        process::exit(shutdown::ATTEMPTS_LEFT);
    }
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
        .merge(support::router(payments.clone()))
        // The engine of the nested router wins there.
        .nest(
            "/api/v1/transfer/command",
            transfers::router().layer(transfers),
        )
        .layer(payments.clone())
        .layer(middleware::from_fn(auth::authenticate))
        .layer(CatchPanicLayer::new())
}

/// An error prints its own level only.
fn with_causes(error: &dyn Error) -> String {
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        said = format!("{said}: {error}");
        cause = error.source();
    }
    said
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

  # what support staff see of a key
  curl http://{addr}/support/payments/ada/order-17 -H 'Authorization: Bearer support'
"#
    )
}
