//! Payments and refunds.

use axum::{
    Extension, Json,
    extract::{Query, State},
    http::{StatusCode, header::LOCATION},
    response::{IntoResponse, Response},
};
use idem_axum::idempotent;
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
    Json(new): Json<NewPayment>,
) -> Result<Response, Response> {
    pace.keep().await?;
    let payment = charge(new)?;
    ledger.book(&caller.0, payment.clone());
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
) -> Json<Vec<Payment>> {
    Json(ledger.of(&caller.0))
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
