#![deny(warnings)]

use axum::{Router, extract::Path, routing::post};
use idem_axum::idempotent;

#[utoipa::path(post, path = "/1/{id}")]
#[idempotent]
#[axum::debug_handler]
#[tracing::instrument(skip_all, fields(id = %id))]
async fn a(Path(id): Path<u32>, body: String) -> String {
    format!("{id} {body}")
}

#[utoipa::path(post, path = "/2/{id}")]
#[idempotent]
#[tracing::instrument(skip(body), err)]
#[axum::debug_handler]
async fn b(Path(id): Path<u32>, body: String) -> Result<String, String> {
    Ok(format!("{id} {body}"))
}

#[utoipa::path(post, path = "/3/{id}")]
#[tracing::instrument(skip_all)]
#[idempotent]
#[axum::debug_handler]
async fn c(Path(id): Path<u32>, body: String) -> String {
    format!("{id} {body}")
}

#[tracing::instrument(skip_all)]
#[utoipa::path(post, path = "/4/{id}")]
#[idempotent]
#[axum::debug_handler]
async fn d(Path(id): Path<u32>, body: String) -> String {
    format!("{id} {body}")
}

#[derive(utoipa::OpenApi)]
#[openapi(paths(a, b, c, d))]
struct Api;

pub fn router() -> Router {
    let paths = <Api as utoipa::OpenApi>::openapi().paths.paths;
    assert_eq!(paths.len(), 4);
    Router::new()
        .route("/1/{id}", post(a))
        .route("/2/{id}", post(b))
        .route("/3/{id}", post(c))
        .route("/4/{id}", post(d))
}
