//! The handler's view of its own attempt, as an extractor.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    ops::Deref,
};

use actix_web::{FromRequest, HttpMessage, HttpRequest, dev::Payload};

/// The attempt that a handler runs as: its number, its fence, and keys for the next services.
///
/// Take it as an argument of an `#[idempotent]` handler. On a request that is not protected it is
/// attempt 1 with fence 0 and random downstream keys. So it is before the claim: ask it in the
/// handler, not in an extractor.
///
/// # Examples
/// ```
/// use actix_web::post;
/// use idem_actix::{Attempt, idempotent};
///
/// #[post("/payments")]
/// #[idempotent]
/// async fn create_payment(attempt: Attempt) -> String {
///     // Give this key to the card network: an attempt that takes over sends the same one.
///     attempt.downstream_key("charge")
/// }
/// # let _ = actix_web::App::new().service(create_payment);
/// ```
#[derive(Debug, Clone)]
pub struct Attempt(pub(crate) idem_core::Attempt);

impl Deref for Attempt {
    type Target = idem_core::Attempt;

    fn deref(&self) -> &idem_core::Attempt {
        &self.0
    }
}

impl FromRequest for Attempt {
    type Error = Infallible;
    type Future = Ready<Result<Self, Infallible>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Ok(slot(request)))
    }
}

/// The attempt of this request, which the engine fills after the claim.
pub(crate) fn slot(request: &HttpRequest) -> Attempt {
    let mut extensions = request.extensions_mut();
    if let Some(attempt) = extensions.get::<Attempt>() {
        return attempt.clone();
    }
    let attempt = Attempt(idem_core::Attempt::unprotected());
    extensions.insert(attempt.clone());
    attempt
}
