use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::{Json, Router, routing::post};
use idem_axum::idempotent;

#[idempotent]
async fn unit() {}

#[idempotent]
async fn opaque() -> impl IntoResponse + use<> {
    (StatusCode::CREATED, "created")
}

#[idempotent]
async fn opaque_ok(body: String) -> Result<impl IntoResponse, (StatusCode, String)> {
    let id: u32 = body.parse().map_err(|_| (StatusCode::BAD_REQUEST, body))?;
    Ok(Json(id))
}

#[idempotent]
async fn opaque_inside() -> Result<Json<impl serde::Serialize>, Redirect> {
    if true {
        Err(Redirect::to("/"))
    } else {
        Ok(Json("created"))
    }
}

#[idempotent]
async fn by_reference(body: String) -> &'static str {
    let Some('a') = body.chars().next() else {
        return "refused";
    };
    "created"
}

#[idempotent]
async fn response() -> axum::response::Result<Response> {
    Err(StatusCode::CONFLICT)?
}

pub fn router() -> Router {
    Router::new()
        .route("/1", post(unit))
        .route("/2", post(opaque))
        .route("/3", post(opaque_ok))
        .route("/4", post(opaque_inside))
        .route("/5", post(by_reference))
        .route("/6", post(response))
}
