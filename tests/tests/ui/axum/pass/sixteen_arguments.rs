use axum::http::Method as M;
use axum::{Router, routing::post};
use idem_axum::idempotent;

#[idempotent]
#[rustfmt::skip]
#[expect(clippy::too_many_arguments)]
async fn create(
    _: M, _: M, _: M, _: M, _: M, _: M, _: M, _: M,
    _: M, _: M, _: M, _: M, _: M, _: M, _: M, _: String,
) {}

pub fn router() -> Router {
    Router::new().route("/1", post(create))
}
