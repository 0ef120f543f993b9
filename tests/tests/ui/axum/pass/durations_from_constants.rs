use std::time::Duration;

use axum::{Router, routing::post};
use idem_axum::idempotent;

const TTL: Duration = Duration::from_mins(1);

mod limits {
    pub(super) struct Limits;

    impl Limits {
        pub(super) const LEASE: super::Duration = super::Duration::from_secs(3);
    }
}

#[idempotent(ttl = TTL, lease = limits::Limits::LEASE, wait = Duration::from_millis(1 + 2))]
async fn create() {}

#[idempotent(ttl = if cfg!(test) { TTL } else { TTL.saturating_mul(2) })]
async fn update() {}

pub fn router() -> Router {
    Router::new()
        .route("/1", post(create))
        .route("/2", post(update))
}
