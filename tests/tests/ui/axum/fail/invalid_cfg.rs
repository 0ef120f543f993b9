use axum::http::Method as M;
use idem_axum::idempotent;

#[idempotent]
async fn create(#[cfg(unix, test)] _: M, #[cfg()] _: M, #[cfg] _: M, #[cfg(unix,)] _: M) {}

fn main() {}
