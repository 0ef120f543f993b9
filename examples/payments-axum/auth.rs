//! Who calls. A stand-in: it believes whatever name it is told.

use axum::{
    extract::Request,
    http::{StatusCode, header::AUTHORIZATION},
    middleware::Next,
    response::{IntoResponse, Response},
};
use idem_axum::Principal;

/// The caller's name, for handlers.
#[derive(Debug, Clone)]
pub(crate) struct Caller(pub(crate) String);

/// Takes `Authorization: Bearer <name>` for the caller's name. A real service verifies a token
/// here and puts the account that it belongs to into the `Principal`, never the token itself.
pub(crate) async fn authenticate(mut request: Request, next: Next) -> Response {
    let header = request
        .headers()
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let name = header
        .and_then(|value| value.strip_prefix("Bearer "))
        .map(str::trim);
    let Some(name) = name.filter(|name| !name.is_empty()).map(str::to_owned) else {
        let text = "say who you are: Authorization: Bearer <name>\n";
        return (StatusCode::UNAUTHORIZED, text).into_response();
    };
    request
        .extensions_mut()
        .insert(Principal::new(name.as_str()));
    request.extensions_mut().insert(Caller(name));
    next.run(request).await
}
