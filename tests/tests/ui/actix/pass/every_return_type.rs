use std::borrow::Cow;

use actix_web::error::{ErrorConflict, InternalError};
use actix_web::http::StatusCode;
use actix_web::web::{Bytes, Either, Html, Json, Redirect, ServiceConfig, post};
use actix_web::{CustomizeResponder, Error, HttpResponse, HttpResponseBuilder, Responder};
use idem_actix::{Outcome, OutcomeExt, WithOutcome, idempotent};

#[idempotent]
async fn response() -> HttpResponse {
    HttpResponse::Created().body("created")
}

#[idempotent]
async fn typed_response() -> HttpResponse<String> {
    HttpResponse::with_body(StatusCode::CREATED, "created".to_owned())
}

#[idempotent]
async fn builder() -> HttpResponseBuilder {
    HttpResponse::NoContent()
}

#[idempotent]
async fn opaque() -> impl Responder {
    ("created", StatusCode::CREATED)
}

#[idempotent]
async fn opaque_ok(body: String) -> Result<impl Responder, InternalError<String>> {
    match body.parse::<u32>() {
        Ok(id) => Ok(Json(id)),
        Err(_) => Err(InternalError::new(body, StatusCode::CONFLICT)),
    }
}

#[idempotent]
async fn opaque_inside() -> Result<Json<impl serde::Serialize>, Error> {
    Ok(Json("created"))
}

#[idempotent]
async fn opaque_option() -> Option<impl Responder> {
    Some(Html::new("created"))
}

#[idempotent]
async fn failure() -> actix_web::Result<HttpResponse> {
    Err(ErrorConflict("taken"))?
}

#[idempotent]
async fn by_reference(body: String) -> &'static str {
    let Some('a') = body.chars().next() else {
        return "refused";
    };
    "created"
}

#[idempotent]
async fn text() -> String {
    "created".to_owned()
}

#[idempotent]
async fn borrowed() -> Cow<'static, str> {
    "created".into()
}

#[idempotent]
async fn bytes() -> Bytes {
    Bytes::from_static(b"created")
}

#[idempotent]
async fn json() -> Json<[u32; 2]> {
    Json([1, 2])
}

#[idempotent]
async fn redirect() -> Redirect {
    Redirect::to("/")
}

#[idempotent]
async fn customized() -> CustomizeResponder<&'static str> {
    "created".customize().insert_header(("x-id", "1"))
}

#[idempotent]
async fn either() -> Either<&'static [u8], Vec<u8>> {
    Either::Right(vec![b'a'])
}

#[idempotent]
async fn nothing() -> Result<(), Error> {
    Ok(())
}

#[idempotent]
async fn worth() -> WithOutcome<(&'static str, StatusCode)> {
    Outcome::Keep.with(("failed", StatusCode::BAD_GATEWAY))
}

pub fn configure(config: &mut ServiceConfig) {
    config
        .route("/1", post().to(response))
        .route("/2", post().to(typed_response))
        .route("/3", post().to(builder))
        .route("/4", post().to(opaque))
        .route("/5", post().to(opaque_ok))
        .route("/6", post().to(opaque_inside))
        .route("/7", post().to(opaque_option))
        .route("/8", post().to(failure))
        .route("/9", post().to(by_reference))
        .route("/10", post().to(text))
        .route("/11", post().to(borrowed))
        .route("/12", post().to(bytes))
        .route("/13", post().to(json))
        .route("/14", post().to(redirect))
        .route("/15", post().to(customized))
        .route("/16", post().to(either))
        .route("/17", post().to(nothing))
        .route("/18", post().to(worth));
}
