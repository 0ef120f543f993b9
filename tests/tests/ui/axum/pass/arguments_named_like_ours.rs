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
async fn captured(captured: String) -> String {
    captured
}

#[idempotent]
async fn handler(arg0: String) -> String {
    arg0
}

#[idempotent]
async fn answer(handler: String) -> String {
    handler
}

#[idempotent]
async fn arg0(answer: String) -> String {
    answer
}

fn main() {
    let router: Router = Router::new().route("/1", post(create)).route("/2", post(captured));
    let router = router.route("/3", post(handler)).route("/4", post(answer));
    let _ = router.route("/5", post(arg0));
}
