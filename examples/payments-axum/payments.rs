//! Payments and refunds.

use std::io;

use axum::{
    Extension, Json,
    extract::{Query, State},
    http::{StatusCode, header::LOCATION},
    response::{IntoResponse, Response},
};
use idem_axum::{Attempt, idempotent};
use idem_examples::ledger::{Card, Ledger, NewPayment, Payment};
use serde::Deserialize;
use serde_json::json;

use crate::auth::Caller;

/// How a request asks for a slow handler: `?slow=2s`.
#[derive(Debug, Deserialize)]
pub(crate) struct Pace {
    slow: Option<String>,
}

impl Pace {
    async fn keep(&self) -> Result<(), Response> {
        let Some(slow) = &self.slow else {
            return Ok(());
        };
        let pause = humantime::parse_duration(slow).map_err(|error| {
            (StatusCode::BAD_REQUEST, format!("slow: {error}\n")).into_response()
        })?;
        tokio::time::sleep(pause).await;
        Ok(())
    }
}

/// Pays.
#[idempotent(scope = "user")]
pub(crate) async fn create(
    State(ledger): State<Ledger>,
    Extension(caller): Extension<Caller>,
    Query(pace): Query<Pace>,
    attempt: Attempt,
    Json(new): Json<NewPayment>,
) -> Result<Response, Response> {
    pace.keep().await?;
    let payment = charge(new)?;
    ledger
        .book(&caller.0, payment.clone())
        .map_err(|error| failed(&error))?;
    // Support staff find the payment by it.
    attempt.reference(payment.id.to_string());
    Ok(created("/v1/payments", &payment))
}

/// Pays back.
#[idempotent(scope = "user")]
pub(crate) async fn refund(
    Query(pace): Query<Pace>,
    Json(new): Json<NewPayment>,
) -> Result<Response, Response> {
    pace.keep().await?;
    Ok(created("/v1/refunds", &charge(new)?))
}

/// The payments that were really made by this caller.
pub(crate) async fn list(
    State(ledger): State<Ledger>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Vec<Payment>>, Response> {
    let payments = ledger.of(&caller.0).map_err(|error| failed(&error))?;
    Ok(Json(payments))
}

/// The ledger failed: a 5xx is no outcome, and the next equal request runs.
fn failed(error: &io::Error) -> Response {
    tracing::error!(%error, "the ledger failed");
    StatusCode::INTERNAL_SERVER_ERROR.into_response()
}

fn charge(new: NewPayment) -> Result<Payment, Response> {
    match new.card {
        Card::Ok => Ok(Payment::make(new)),
        // A business failure is an answer: it is stored and replayed like a success.
        Card::Declined => {
            let answer = Json(json!({ "error": "card declined" }));
            Err((StatusCode::PAYMENT_REQUIRED, answer).into_response())
        }
        Card::Crash => panic!("the card reader is on fire"),
    }
}

fn created(at: &str, payment: &Payment) -> Response {
    let location = [(LOCATION, format!("{at}/{}", payment.id))];
    (StatusCode::CREATED, location, Json(payment)).into_response()
}
