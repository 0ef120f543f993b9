//! What support staff ask: was this payment made, when, and which one is it?

use std::time::{Duration, SystemTime};

use axum::{
    Extension, Json, Router,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing,
};
use idem_axum::{
    Caller, Idempotency, IdempotencyKey, KeyRules,
    store::{State as RecordState, Summary},
};
use jiff::Timestamp;
use serde::Serialize;

use crate::auth;

/// The one who may ask. A real service has a role for it.
const SUPPORT: &str = "support";

/// What is asked about: method and route of the handler that pays.
const OPERATION: &str = "POST /v1/payments";

/// Their routes.
pub(crate) fn router(payments: Idempotency) -> Router {
    Router::new()
        .route("/support/payments/{caller}/{key}", routing::get(look_up))
        .with_state(payments)
}

/// What became of a key.
#[derive(Debug, Serialize)]
struct Found {
    state: &'static str,
    attempts: u32,
    /// What a decision about this record must name.
    fence: u64,
    created: Option<Timestamp>,
    completed: Option<Timestamp>,
    expires_in_seconds: u64,
    status: Option<u16>,
    /// The payment.
    reference: Option<String>,
}

async fn look_up(
    State(payments): State<Idempotency>,
    Extension(asks): Extension<auth::Caller>,
    Path((caller, key)): Path<(String, String)>,
) -> Result<Json<Found>, Response> {
    if asks.0 != SUPPORT {
        return Err((StatusCode::FORBIDDEN, "support alone may ask\n").into_response());
    }
    let key = IdempotencyKey::parse(key.as_bytes(), &KeyRules::default())
        .map_err(|error| (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response())?;
    let found = payments
        .lookup(&Caller::User(caller), OPERATION, &key)
        .await;
    let found = found.map_err(|error| {
        tracing::error!(%error, "look-up failed");
        StatusCode::SERVICE_UNAVAILABLE.into_response()
    })?;
    let unknown = || (StatusCode::NOT_FOUND, "there is no record of this key\n").into_response();
    Ok(Json(found.ok_or_else(unknown)?.into()))
}

impl From<Summary> for Found {
    fn from(summary: Summary) -> Self {
        Self {
            state: match summary.state {
                RecordState::InProgress => match summary.lease_left {
                    Some(Duration::ZERO) => "lapsed",
                    Some(_) | None => "in_progress",
                },
                RecordState::Completed => "completed",
                RecordState::Released => "released",
                RecordState::Unknown => "unknown",
            },
            attempts: summary.grant.attempt,
            fence: summary.grant.fence.get(),
            created: timestamp(summary.created),
            completed: summary.completed.and_then(timestamp),
            expires_in_seconds: summary.expires_in.as_secs(),
            status: summary.status,
            reference: summary.reference,
        }
    }
}

fn timestamp(time: SystemTime) -> Option<Timestamp> {
    Timestamp::try_from(time).ok()
}
