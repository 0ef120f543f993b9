use axum::http::Method as M;
use idem_axum::idempotent;

#[idempotent]
#[rustfmt::skip]
async fn create(
    #[cfg(unix)] _: M, #[cfg(windows)] _: M, #[cfg(test)] _: M, #[cfg(not(unix))] _: M,
    #[cfg(not(windows))] _: M, #[cfg(not(test))] _: M, #[cfg(all())] _: M, #[cfg(any())] _: M,
) {}

fn main() {}
