//! A payment service on axum: repeat a request as often as you like, it is paid once.
//!
//! `cargo run --example payments-axum`; `ADDR`, `DRAIN`, `LEASE`, `LEDGER`, `STORE` and `TTL` come from
//! the environment.

#![forbid(unsafe_code)]

use std::{error::Error, io, process::ExitCode, sync::Arc, time::Duration};

use axum::{
    Extension, Json, Router,
    extract::{Path, Query, Request, State},
    http::{
        StatusCode,
        header::{AUTHORIZATION, LOCATION},
    },
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use idem_axum::{Attempt, Idempotency, IdempotencyKey, KeyRules, Principal, idempotent};
use idem_examples::{
    ledger::{Ledger, NewPayment, Payment},
    pace::Pace,
    process::{self, GRACE, Signals},
    settings::Settings,
    support::{Found, OPERATION, SUPPORT},
    transfer::{Envelope, MAX_KEY_LEN, NewTransfer, Transfer},
};
use tokio::{net::TcpListener, sync::oneshot, time::timeout};
use tower_http::catch_panic::CatchPanicLayer;

#[tokio::main]
async fn main() -> ExitCode {
    process::exit_code(run().await)
}

/// Serves until a signal. Returns how many attempts were left.
async fn run() -> Result<usize, Box<dyn Error>> {
    process::log();
    let settings = Settings::from_env()?;
    let store = settings.open_store().await?;
    let ledger = settings.open_ledger()?;

    let payments = Idempotency::builder(Arc::clone(&store))
        .lease(settings.lease)
        .ttl(settings.ttl)
        .build()?;
    // The gateway has an engine of its own over the same store, with shorter keys and refusals in
    // its own words.
    let transfers = Idempotency::builder(store)
        .namespace("gateway")
        .lease(settings.lease)
        .ttl(settings.ttl)
        .max_key_len(MAX_KEY_LEN)
        .reject_with(|rejection, _| Json(Envelope::refusal(rejection)))
        .build()?;
    let app = app(ledger, &payments, &transfers);

    let signals = Signals::catch()?;
    let listener = TcpListener::bind(settings.addr).await?;
    process::announce(listener.local_addr()?);
    let left = serve(
        listener,
        app,
        [payments, transfers],
        signals,
        settings.drain,
    )
    .await?;
    Ok(left)
}

fn app(ledger: Ledger, payments: &Idempotency, transfers: &Idempotency) -> Router {
    let gateway = Router::new()
        .route("/create", post(transfer))
        // The engine of the nested router wins there.
        .layer(transfers.clone());
    let support = Router::new()
        .route("/support/payments/{caller}/{key}", get(look_up))
        .with_state(payments.clone());
    Router::new()
        .route("/v1/payments", post(pay).get(list))
        .route("/v1/refunds", post(refund))
        .with_state(ledger)
        .merge(support)
        .nest("/api/v1/transfer/command", gateway)
        .layer(payments.clone())
        .layer(middleware::from_fn(authenticate))
        .layer(CatchPanicLayer::new())
}

/// Pays.
#[idempotent(scope = "user")]
async fn pay(
    State(ledger): State<Ledger>,
    Extension(caller): Extension<Caller>,
    Query(pace): Query<Pace>,
    attempt: Attempt,
    Json(new): Json<NewPayment>,
) -> Result<Response, Response> {
    pace.keep().await;
    let payment = charge(new)?;
    let booked = ledger.book(&caller.0, payment.clone());
    booked.map_err(|error| failed(&error))?;
    // Support staff find the payment by it.
    attempt.reference(payment.id.to_string());
    Ok(created("/v1/payments", &payment))
}

/// Pays back.
#[idempotent(scope = "user")]
async fn refund(
    Query(pace): Query<Pace>,
    Json(new): Json<NewPayment>,
) -> Result<Response, Response> {
    pace.keep().await;
    Ok(created("/v1/refunds", &charge(new)?))
}

/// The payments that were really made by this caller.
async fn list(
    State(ledger): State<Ledger>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Vec<Payment>>, Response> {
    let payments = ledger.of(&caller.0).map_err(|error| failed(&error))?;
    Ok(Json(payments))
}

/// Makes a transfer.
#[idempotent(scope = "user", required)]
async fn transfer(Json(new): Json<NewTransfer>) -> (StatusCode, Json<Envelope<Transfer>>) {
    let transfer = Envelope::success(Transfer::make(new));
    (StatusCode::CREATED, Json(transfer))
}

/// Tells support staff what became of a key.
async fn look_up(
    State(payments): State<Idempotency>,
    Extension(asks): Extension<Caller>,
    Path((caller, key)): Path<(String, String)>,
) -> Result<Json<Found>, Response> {
    if asks.0 != SUPPORT {
        return Err((StatusCode::FORBIDDEN, "support alone may ask\n").into_response());
    }
    let key = IdempotencyKey::parse(key.as_bytes(), &KeyRules::default())
        .map_err(|error| (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response())?;
    let caller = idem_axum::Caller::User(caller);
    let found = payments.lookup(&caller, OPERATION, &key).await;
    let found = found.map_err(|error| {
        tracing::error!(%error, "look-up failed");
        StatusCode::SERVICE_UNAVAILABLE.into_response()
    })?;
    let unknown = || (StatusCode::NOT_FOUND, "there is no record of this key\n").into_response();
    Ok(Json(found.ok_or_else(unknown)?.into()))
}

/// A business failure is an answer: it is stored and replayed like a success.
fn charge(new: NewPayment) -> Result<Payment, Response> {
    Payment::charge(new)
        .map_err(|declined| (StatusCode::PAYMENT_REQUIRED, Json(declined)).into_response())
}

fn created(at: &str, payment: &Payment) -> Response {
    let location = [(LOCATION, format!("{at}/{}", payment.id))];
    (StatusCode::CREATED, location, Json(payment)).into_response()
}

/// The ledger failed: a 5xx is no outcome, and the next equal request runs.
fn failed(error: &io::Error) -> Response {
    tracing::error!(%error, "the ledger failed");
    StatusCode::INTERNAL_SERVER_ERROR.into_response()
}

/// Who calls.
#[derive(Debug, Clone)]
struct Caller(String);

/// Takes `Authorization: Bearer <name>` for the caller's name: a stand-in, which believes whatever
/// it is told. A real service verifies a token here and puts the account that it belongs to into
/// the `Principal`, never the token itself.
async fn authenticate(mut request: Request, next: Next) -> Response {
    let header = request
        .headers()
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let name = header
        .and_then(|value| value.strip_prefix("Bearer "))
        .map(str::trim);
    let Some(name) = name.filter(|name| !name.is_empty()).map(str::to_owned) else {
        let text = "say who you are: Authorization: Bearer <name>\n";
        return (StatusCode::UNAUTHORIZED, text).into_response();
    };
    let extensions = request.extensions_mut();
    extensions.insert(Principal::new(name.as_str()));
    extensions.insert(Caller(name));
    next.run(request).await
}

/// Serves until a signal, then ends within `limit` and a grace: what runs comes to its end, new keyed
/// requests are refused meanwhile. Returns how many attempts were left.
async fn serve(
    listener: TcpListener,
    app: Router,
    [payments, transfers]: [Idempotency; 2],
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

    let shutdown = async {
        // In this order: both engines are closed when the server and the log hear of it. The
        // server has the same time, for requests without a key and answers on their way.
        let (.., ended) = tokio::join!(
            biased;
            process::log_drain("payments", payments.drain(limit)),
            process::log_drain("transfers", transfers.drain(limit)),
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
    signals.or_at_once(shutdown).await;

    // What ended within the grace is not left.
    let now = Duration::ZERO;
    Ok(payments.drain(now).await.left + transfers.drain(now).await.left)
}
