use axum::{Router, routing::post};
use idem_axum::idempotent;

#[idempotent(
    scope = "tenant",
    ttl = "7d",
    lease = "300ms",
    wait = "15m",
    required,
    header = "X-Event-Id",
    key_format = "uuid",
    operation = "payments.create",
    on_lapse = "unknown",
    crate = "::idem_axum"
)]
async fn create() {}

#[idempotent(scope = "user", required = "any", on_lapse = "takeover", ttl = "24h")]
async fn update() {}

#[idempotent(scope = "endpoint", ttl = r"30s")]
async fn delete() {}

pub fn router() -> Router {
    Router::new()
        .route("/1", post(create))
        .route("/2", post(update))
        .route("/3", post(delete))
}
