use actix_web::web::{ServiceConfig, post};
use idem_actix::idempotent;

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
    crate = "::idem_actix"
)]
async fn create() -> &'static str {
    "created"
}

#[idempotent(scope = "user", required = "any", on_lapse = "takeover", ttl = "24h")]
async fn update() -> &'static str {
    "created"
}

#[idempotent(scope = "endpoint", ttl = r"30s")]
async fn delete() -> &'static str {
    "created"
}

pub fn configure(config: &mut ServiceConfig) {
    config
        .route("/1", post().to(create))
        .route("/2", post().to(update))
        .route("/3", post().to(delete));
}
