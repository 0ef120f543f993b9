#![deny(warnings)]

use axum::extract::Extension as E;
use axum::{Router, routing::post};
use idem_axum::idempotent;

#[idempotent]
#[expect(clippy::too_many_arguments)]
async fn create(
    E(headers): E<u32>,
    E(req): E<u32>,
    E(request): E<u32>,
    E(captured): E<u32>,
    E(args): E<u32>,
    E(arg0): E<u32>,
    E(handler): E<u32>,
    E(answer): E<u32>,
    E(store): E<u32>,
    E(key): E<u32>,
    E(run): E<u32>,
) -> String {
    let sum = headers + req + request + captured + args + arg0 + handler + answer + store + key;
    format!("{}", sum + run)
}

#[idempotent]
async fn prefixed(idem_captured: E<u32>, idem_arg0: E<u32>, idem_handler: String) -> String {
    let idem_answer = idem_captured.0 + idem_arg0.0;
    format!("{idem_answer} {idem_handler}")
}

pub fn router() -> Router {
    Router::new()
        .route("/1", post(create))
        .route("/2", post(prefixed))
        .layer(E(1_u32))
}
