#![deny(warnings)]

use axum::{Router, extract::Path, routing::post};
use idem_axum::idempotent;

#[utoipa::path(post, path = "/a/{id}")]
#[idempotent]
#[axum::debug_handler]
#[tracing::instrument(skip_all, fields(id = %id))]
async fn a(Path(id): Path<u32>, body: String) -> String {
    format!("{id} {body}")
}

#[utoipa::path(post, path = "/b/{id}")]
#[idempotent]
#[tracing::instrument(skip(body), err)]
#[axum::debug_handler]
async fn b(Path(id): Path<u32>, body: String) -> Result<String, String> {
    Ok(format!("{id} {body}"))
}

#[utoipa::path(post, path = "/c/{id}")]
#[tracing::instrument(skip_all)]
#[idempotent]
#[axum::debug_handler]
async fn c(Path(id): Path<u32>, body: String) -> String {
    format!("{id} {body}")
}

#[tracing::instrument(skip_all)]
#[utoipa::path(post, path = "/d/{id}")]
#[idempotent]
#[axum::debug_handler]
async fn d(Path(id): Path<u32>, body: String) -> String {
    format!("{id} {body}")
}

#[derive(utoipa::OpenApi)]
#[openapi(paths(a, b, c, d))]
struct Api;

fn main() {
    let _: Router = Router::new()
        .route("/a/{id}", post(a))
        .route("/b/{id}", post(b))
        .route("/c/{id}", post(c))
        .route("/d/{id}", post(d));
    let paths = <Api as utoipa::OpenApi>::openapi().paths.paths;
    assert_eq!(paths.len(), 4);
}
