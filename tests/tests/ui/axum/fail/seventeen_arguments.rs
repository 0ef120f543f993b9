use axum::http::Method as M;
use idem_axum::idempotent;

#[idempotent]
#[rustfmt::skip]
async fn create(
    _: M, _: M, _: M, _: M, _: M, _: M, _: M, _: M,
    _: M, _: M, _: M, _: M, _: M, _: M, _: M, _: M,
    _: String,
) {}

fn main() {}
