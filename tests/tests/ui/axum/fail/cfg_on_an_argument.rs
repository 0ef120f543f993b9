use axum::http::Method;
use idem_axum::idempotent;

#[idempotent]
async fn create(#[cfg(unix)] _: Method, _: String) {}

fn main() {}
