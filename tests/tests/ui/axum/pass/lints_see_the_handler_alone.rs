#![deny(warnings)]

use axum::{Router, extract::Path, routing::post};
use idem_axum::idempotent;

#[idempotent(scope = "user")]
#[expect(dead_code)]
async fn not_used() {}

#[idempotent(scope = "user")]
#[expect(unused_variables)]
async fn argument_not_used(Path(id): Path<u32>, body: String) -> String {
    body
}

#[idempotent(scope = "user")]
#[expect(unused_mut)]
async fn not_mutated(mut body: String) -> String {
    body
}

#[idempotent(scope = "user")]
#[expect(non_snake_case)]
async fn notSnakeCase(Body: String) -> String {
    Body
}

pub fn router() -> Router {
    Router::new()
        .route("/1/{id}", post(argument_not_used))
        .route("/2", post(not_mutated))
        .route("/3", post(notSnakeCase))
}
