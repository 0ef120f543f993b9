//! Handlers on actix-web.

pub mod app;
mod module;

use std::future::{Ready, ready};

use actix_web::{
    FromRequest, HttpRequest, ResponseError,
    dev::Payload,
    http::StatusCode,
    web::{ServiceConfig, post},
};

use crate::app::Failure;

pub fn configure(config: &mut ServiceConfig) {
    config.route("/module/handler/{id}", post().to(module::handler));
}

/// Who asks.
pub struct User(pub String);

impl FromRequest for User {
    type Error = Failure;
    type Future = Ready<Result<Self, Failure>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let name = request
            .headers()
            .get("x-user")
            .and_then(|name| name.to_str().ok());
        ready(
            name.map(|name| Self(name.to_owned()))
                .ok_or(Failure::Unauthorized),
        )
    }
}

impl ResponseError for Failure {
    fn status_code(&self) -> StatusCode {
        match self {
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Invalid(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}
