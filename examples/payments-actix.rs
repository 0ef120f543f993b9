//! A payment service on actix-web: repeat a request as often as you like, it is paid once.
//!
//! `cargo run --example payments-actix`; `ADDR`, `DRAIN`, `LEASE`, `LEDGER`, `STORE` and `TTL` come from
//! the environment.

#![forbid(unsafe_code)]

use std::{
    error::Error, io, panic::AssertUnwindSafe, process::ExitCode, sync::Arc, time::Duration,
};

use actix_web::{
    App, HttpMessage, HttpResponse, HttpServer,
    body::MessageBody,
    dev::{Server, ServiceRequest, ServiceResponse},
    error::{
        ErrorBadRequest, ErrorForbidden, ErrorInternalServerError, ErrorNotFound,
        ErrorServiceUnavailable, ErrorUnauthorized,
    },
    get,
    http::header::{AUTHORIZATION, LOCATION},
    middleware::{Next, from_fn},
    post, rt,
    web::{self, Data, Json, Path, Query, ReqData},
};
use futures_util::FutureExt;
use idem_actix::{Attempt, Idempotency, IdempotencyKey, KeyRules, Principal, idempotent};
use idem_examples::{
    ledger::{Ledger, NewPayment, Payment},
    pace::Pace,
    process::{self, GRACE, Signals},
    settings::Settings,
    support::{Found, OPERATION, SUPPORT},
    transfer::{Envelope, MAX_KEY_LEN, NewTransfer, Transfer},
};
use tokio::time::timeout;

#[actix_web::main]
async fn main() -> ExitCode {
    process::exit_code(run().await)
}

/// Serves until a signal. Returns how many attempts were left.
async fn run() -> Result<usize, Box<dyn Error>> {
    process::log();
    let settings = Settings::from_env()?;
    let store = settings.open_store().await?;
    let ledger = settings.open_ledger()?;

    // All of it is made once, and the workers share it.
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

    let signals = Signals::catch()?;
    let engines = [payments.clone(), transfers.clone()];
    let server = HttpServer::new(move || {
        App::new()
            .app_data(Data::new(ledger.clone()))
            .app_data(Data::new(payments.clone()))
            .service(pay)
            .service(refund)
            .service(list)
            .service(look_up)
            .service(
                web::scope("/api/v1/transfer/command")
                    // The engine of the scope wins there.
                    .app_data(Data::new(transfers.clone()))
                    .service(transfer),
            )
            .wrap(from_fn(authenticate))
            .wrap(from_fn(answer_panics))
    })
    // HTTP/1.1, and HTTP/2 without TLS.
    .bind_auto_h2c(settings.addr)?
    .disable_signals()
    // In whole seconds: `serve` is more exact.
    .shutdown_timeout(settings.drain.as_secs().saturating_add(2));
    for addr in server.addrs() {
        process::announce(addr);
    }
    let left = serve(server.run(), engines, signals, settings.drain).await?;
    Ok(left)
}

/// Pays.
#[post("/v1/payments")]
#[idempotent(scope = "user")]
async fn pay(
    ledger: Data<Ledger>,
    caller: ReqData<Caller>,
    pace: Query<Pace>,
    attempt: Attempt,
    Json(new): Json<NewPayment>,
) -> actix_web::Result<HttpResponse> {
    pace.keep().await;
    let payment = match Payment::charge(new) {
        Ok(payment) => payment,
        // A business failure is an answer: it is stored and replayed like a success.
        Err(declined) => return Ok(HttpResponse::PaymentRequired().json(declined)),
    };
    ledger
        .book(&caller.0, payment.clone())
        .map_err(|error| failed(&error))?;
    // Support staff find the payment by it.
    attempt.reference(payment.id.to_string());
    Ok(created("/v1/payments", &payment))
}

/// Pays back.
#[post("/v1/refunds")]
#[idempotent(scope = "user")]
async fn refund(pace: Query<Pace>, Json(new): Json<NewPayment>) -> HttpResponse {
    pace.keep().await;
    match Payment::charge(new) {
        Ok(refund) => created("/v1/refunds", &refund),
        Err(declined) => HttpResponse::PaymentRequired().json(declined),
    }
}

/// The payments that were really made by this caller.
#[get("/v1/payments")]
async fn list(
    ledger: Data<Ledger>,
    caller: ReqData<Caller>,
) -> actix_web::Result<Json<Vec<Payment>>> {
    let payments = ledger.of(&caller.0).map_err(|error| failed(&error))?;
    Ok(Json(payments))
}

/// Makes a transfer.
#[post("/create")]
#[idempotent(scope = "user", required)]
async fn transfer(Json(new): Json<NewTransfer>) -> HttpResponse {
    HttpResponse::Created().json(Envelope::success(Transfer::make(new)))
}

/// Tells support staff what became of a key.
#[get("/support/payments/{caller}/{key}")]
async fn look_up(
    payments: Data<Idempotency>,
    asks: ReqData<Caller>,
    path: Path<(String, String)>,
) -> actix_web::Result<Json<Found>> {
    if asks.0 != SUPPORT {
        return Err(ErrorForbidden("support alone may ask\n"));
    }
    let (caller, key) = path.into_inner();
    let key = IdempotencyKey::parse(key.as_bytes(), &KeyRules::default())
        .map_err(|error| ErrorBadRequest(format!("{error}\n")))?;
    let caller = idem_actix::Caller::User(caller);
    let found = payments.lookup(&caller, OPERATION, &key).await;
    let found = found.map_err(|error| {
        tracing::error!(%error, "look-up failed");
        ErrorServiceUnavailable("")
    })?;
    let unknown = || ErrorNotFound("there is no record of this key\n");
    Ok(Json(found.ok_or_else(unknown)?.into()))
}

fn created(at: &str, payment: &Payment) -> HttpResponse {
    let location = (LOCATION, format!("{at}/{}", payment.id));
    HttpResponse::Created()
        .insert_header(location)
        .json(payment)
}

/// The ledger failed: a 5xx is no outcome, and the next equal request runs.
fn failed(error: &io::Error) -> actix_web::Error {
    tracing::error!(%error, "the ledger failed");
    ErrorInternalServerError("")
}

/// Who calls.
#[derive(Debug, Clone)]
struct Caller(String);

/// Takes `Authorization: Bearer <name>` for the caller's name: a stand-in, which believes whatever
/// it is told. A real service verifies a token here and puts the account that it belongs to into
/// the `Principal`, never the token itself.
async fn authenticate(
    request: ServiceRequest,
    next: Next<impl MessageBody>,
) -> actix_web::Result<ServiceResponse<impl MessageBody>> {
    let header = request
        .headers()
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let name = header
        .and_then(|value| value.strip_prefix("Bearer "))
        .map(str::trim);
    let Some(name) = name.filter(|name| !name.is_empty()).map(str::to_owned) else {
        let text = "say who you are: Authorization: Bearer <name>\n";
        return Err(ErrorUnauthorized(text));
    };
    request
        .extensions_mut()
        .insert(Principal::new(name.as_str()));
    request.extensions_mut().insert(Caller(name));
    next.call(request).await
}

/// Answers where the connection would be closed.
async fn answer_panics(
    request: ServiceRequest,
    next: Next<impl MessageBody>,
) -> actix_web::Result<ServiceResponse<impl MessageBody>> {
    let answer = AssertUnwindSafe(next.call(request)).catch_unwind().await;
    answer.unwrap_or_else(|_| Err(ErrorInternalServerError("")))
}

/// Serves until a signal, then ends within `limit` and a grace: what runs comes to its end, new keyed
/// requests are refused meanwhile. Returns how many attempts were left.
async fn serve(
    server: Server,
    [payments, transfers]: [Idempotency; 2],
    mut signals: Signals,
    limit: Duration,
) -> io::Result<usize> {
    let handle = server.handle();
    let mut server = rt::spawn(server);
    tokio::select! {
        // Only a fault ends it before it is stopped.
        ended = &mut server => ended??,
        () = signals.next() => {}
    }

    let shutdown = async {
        // In this order: both engines are closed when the log hears of it, and have nothing left to
        // wait for when the server stops. It goes on with requests without a key.
        tokio::join!(
            biased;
            process::log_drain("payments", payments.drain(limit)),
            process::log_drain("transfers", transfers.drain(limit)),
            async { tracing::info!("shutting down") },
        );
        let _ = idem_actix::shutdown(handle, &payments, Duration::ZERO).await;
    };
    let shutdown = async {
        if timeout(limit.saturating_add(GRACE), shutdown)
            .await
            .is_err()
        {
            tracing::warn!("connections are still open; ending anyway");
        }
    };
    signals.or_at_once(shutdown).await;

    // What ended within the grace is not left.
    let now = Duration::ZERO;
    Ok(payments.drain(now).await.left + transfers.drain(now).await.left)
}
