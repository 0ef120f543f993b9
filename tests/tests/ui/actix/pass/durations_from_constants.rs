use std::time::Duration;

use actix_web::web::{ServiceConfig, post};
use idem_actix::idempotent;

const TTL: Duration = Duration::from_mins(1);

mod limits {
    pub(super) struct Limits;

    impl Limits {
        pub(super) const LEASE: super::Duration = super::Duration::from_secs(3);
    }
}

#[idempotent(ttl = TTL, lease = limits::Limits::LEASE, wait = Duration::from_millis(1 + 2))]
async fn create() -> &'static str {
    "created"
}

#[idempotent(ttl = if cfg!(test) { TTL } else { TTL.saturating_mul(2) })]
async fn update() -> &'static str {
    "created"
}

pub fn configure(config: &mut ServiceConfig) {
    config
        .route("/1", post().to(create))
        .route("/2", post().to(update));
}
