//! Transfers of a gateway that has an envelope of its own: an engine of its own over the same
//! store, with shorter keys and refusals in the gateway's words.
//!
//! Its clients sign each attempt with a fresh `X-Nonce` and `X-Timestamp`. These are no part of
//! what a key stands for, so a retry is a retry.

use axum::{Json, Router, http::StatusCode, routing};
use idem_axum::{ConfigError, Idempotency, idempotent, store::Store};
use idem_examples::{
    settings::Settings,
    transfer::{Envelope, NewTransfer, Transfer},
};
use uuid::Uuid;

/// The longest key that the gateway publishes, in bytes.
const MAX_KEY_LEN: usize = 128;

/// The gateway's engine.
pub(crate) fn engine(store: impl Store, settings: &Settings) -> Result<Idempotency, ConfigError> {
    Idempotency::builder(store)
        .namespace("gateway")
        .lease(settings.lease)
        .ttl(settings.ttl)
        .max_key_len(MAX_KEY_LEN)
        .reject_with(|rejection, _| Json(Envelope::refusal(rejection)))
        .build()
}

/// The gateway's routes.
pub(crate) fn router() -> Router {
    Router::new().route("/create", routing::post(create))
}

/// Makes a transfer.
#[idempotent(scope = "user", required)]
async fn create(Json(new): Json<NewTransfer>) -> (StatusCode, Json<Envelope<Transfer>>) {
    let transfer = Transfer {
        id: Uuid::new_v4(),
        amount: new.amount,
        currency: new.currency,
    };
    (StatusCode::CREATED, Json(Envelope::success(transfer)))
}
