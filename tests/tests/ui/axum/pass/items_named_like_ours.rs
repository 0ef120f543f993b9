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

pub fn router() -> Router {
    Router::new()
        .route("/1", post(captured))
        .route("/2", post(run))
        .route("/3", post(into_response))
}
