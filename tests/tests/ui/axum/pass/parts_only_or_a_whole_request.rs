use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, Method};
use axum::{Router, routing::post};
use idem_axum::idempotent;

#[idempotent]
async fn parts(_: Method, _: HeaderMap) {}

#[idempotent]
async fn request(_: Method, _: Request) {}

#[idempotent]
async fn body(_: Body) {}

#[idempotent]
async fn bytes(_: Bytes) {}

pub fn router() -> Router {
    Router::new()
        .route("/1", post(parts))
        .route("/2", post(request))
        .route("/3", post(body))
        .route("/4", post(bytes))
}
