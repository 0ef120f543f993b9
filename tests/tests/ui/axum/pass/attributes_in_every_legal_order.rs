#![deny(warnings)]

use axum::{Router, extract::Path, routing::post};
use idem_axum::idempotent;

#[utoipa::path(post, path = "/1/{id}")]
#[idempotent]
#[axum::debug_handler]
#[tracing::instrument(skip_all, err)]
async fn uidt(Path(id): Path<u32>, body: String) -> Result<String, String> {
    Ok(format!("{id} {body}"))
}

#[utoipa::path(post, path = "/2/{id}")]
#[idempotent]
#[tracing::instrument(skip_all, err)]
#[axum::debug_handler]
async fn uitd(Path(id): Path<u32>, body: String) -> Result<String, String> {
    Ok(format!("{id} {body}"))
}

#[utoipa::path(post, path = "/3/{id}")]
#[tracing::instrument(skip_all, err)]
#[idempotent]
#[axum::debug_handler]
async fn utid(Path(id): Path<u32>, body: String) -> Result<String, String> {
    Ok(format!("{id} {body}"))
}

#[tracing::instrument(skip_all, err)]
#[utoipa::path(post, path = "/4/{id}")]
#[idempotent]
#[axum::debug_handler]
async fn tuid(Path(id): Path<u32>, body: String) -> Result<String, String> {
    Ok(format!("{id} {body}"))
}

#[derive(utoipa::OpenApi)]
#[openapi(paths(uidt, uitd, utid, tuid))]
struct Api;

pub fn router() -> Router {
    let paths = <Api as utoipa::OpenApi>::openapi().paths.paths;
    assert_eq!(paths.len(), 4);
    Router::new()
        .route("/1/{id}", post(uidt))
        .route("/2/{id}", post(uitd))
        .route("/3/{id}", post(utid))
        .route("/4/{id}", post(tuid))
}
