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

fn main() {
    let _: Router = Router::new().route("/", post(create));
}
