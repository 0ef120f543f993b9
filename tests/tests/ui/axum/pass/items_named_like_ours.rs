#![allow(dead_code, non_camel_case_types, non_upper_case_globals)]

use axum::{Router, routing::post};
use idem_axum::idempotent;

const arg0: u32 = 0;
static answer: u32 = 0;
struct handler;

#[idempotent]
async fn captured(captured: String) -> String {
    captured
}

#[idempotent]
async fn run(body: String) -> String {
    body
}

#[idempotent]
async fn into_response(args: String) -> String {
    args
}

fn main() {
    let router: Router = Router::new().route("/", post(captured));
    let _ = router
        .route("/run", post(run))
        .route("/into_response", post(into_response));
}
