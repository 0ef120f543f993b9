//! Handlers on axum.

pub mod app;
mod module;

use axum::{
    Router,
    extract::FromRequestParts,
    http::{StatusCode, request::Parts},
    response::{IntoResponse, Response},
    routing::post,
};

use crate::app::{App, Failure};

pub fn router(app: App) -> Router {
    Router::new()
        .route("/module/handler/{id}", post(module::handler))
        .with_state(app)
}

/// Who asks.
pub struct User(pub String);

impl<S: Sync> FromRequestParts<S> for User {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let name = parts
            .headers
            .get("x-user")
            .and_then(|name| name.to_str().ok());
        name.map(|name| Self(name.to_owned()))
            .ok_or(Failure::Unauthorized)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = match self {
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Invalid(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        };
        (status, self.to_string()).into_response()
    }
}
