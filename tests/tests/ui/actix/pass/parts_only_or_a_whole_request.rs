use actix_web::http::{Method, Uri};
use actix_web::web::{Bytes, Payload, ServiceConfig, post};
use actix_web::{HttpRequest, Result};
use idem_actix::{Attempt, idempotent};

#[idempotent]
async fn parts(_: Method, _: Uri, _: Attempt) -> &'static str {
    "created"
}

#[idempotent]
async fn request(request: HttpRequest, payload: Payload) -> Result<String> {
    let body = payload.to_bytes().await?;
    Ok(format!("{} {}", request.method(), body.len()))
}

#[idempotent]
async fn payload(_: Payload) -> &'static str {
    "created"
}

#[idempotent]
async fn bytes(_: Bytes) -> &'static str {
    "created"
}

#[idempotent]
async fn body_first(body: Bytes, request: HttpRequest, method: Method) -> String {
    format!("{} {method} {}", body.len(), request.path())
}

pub fn configure(config: &mut ServiceConfig) {
    config
        .route("/1", post().to(parts))
        .route("/2", post().to(request))
        .route("/3", post().to(payload))
        .route("/4", post().to(bytes))
        .route("/5", post().to(body_first));
}
