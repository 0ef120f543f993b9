//! The handler's view of its own attempt, as an extractor.

use std::{convert::Infallible, ops::Deref};

use axum::extract::FromRequestParts;
use http::request::Parts;

/// The attempt that a handler runs as: its number, its fence, and keys for the next services.
///
/// Take it as an argument of an `#[idempotent]` handler, before the one that reads the body. On a
/// request that is not protected it is attempt 1 with fence 0 and random downstream keys. So it is
/// before the claim: ask it in the handler, not in an extractor.
///
/// # Examples
/// ```
/// use idem_axum::{Attempt, idempotent};
///
/// #[idempotent]
/// async fn create_payment(attempt: Attempt) -> String {
///     // Give this key to the card network: an attempt that takes over sends the same one.
///     attempt.downstream_key("charge")
/// }
/// # let _: axum::Router = axum::Router::new().route("/payments", axum::routing::post(create_payment));
/// ```
#[derive(Debug, Clone)]
pub struct Attempt(pub(crate) idem_core::Attempt);

impl Deref for Attempt {
    type Target = idem_core::Attempt;

    fn deref(&self) -> &idem_core::Attempt {
        &self.0
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Attempt {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(slot(parts))
    }
}

/// The attempt of this request, which the engine fills after the claim.
pub(crate) fn slot(parts: &mut Parts) -> Attempt {
    parts
        .extensions
        .get_or_insert_with(|| Attempt(idem_core::Attempt::unprotected()))
        .clone()
}
