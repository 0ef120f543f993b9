extern crate idem_axum as renamed;

pub mod facade {
    pub use idem_axum as idem;
}

use axum::{Router, routing::post};
use facade::idem::idempotent;

#[idempotent(
    crate = "crate::axum::crate_under_another_name::facade::idem",
    ttl = "1s"
)]
async fn from_the_root() {}

#[idempotent(crate = "self::facade::idem")]
async fn from_here() {}

#[idempotent(crate = "facade::idem")]
async fn relative() {}

#[idempotent(crate = "::idem_axum")]
async fn absolute() {}

#[renamed::idempotent(crate = "crate::axum::crate_under_another_name::renamed")]
async fn renamed_crate() {}

pub fn router() -> Router {
    Router::new()
        .route("/1", post(from_the_root))
        .route("/2", post(from_here))
        .route("/3", post(relative))
        .route("/4", post(absolute))
        .route("/5", post(renamed_crate))
}
