#![deny(warnings)]

use axum::{Router, extract::Path, routing::post};
use idem_axum::idempotent;

#[idempotent]
/// Creates a payment.
///
/// Twice is once.
#[doc(hidden)]
#[must_use]
#[cfg(all())]
#[cfg_attr(all(), inline, deprecated = "use the other one", axum::debug_handler)]
#[allow(clippy::all)]
#[expect(unused_variables)]
#[warn(missing_docs)]
#[deny(unused_mut)]
#[forbid(unsafe_code)]
async fn below(Path(id): Path<u32>, body: String) {}

#[idempotent]
#[cfg(any())]
async fn below(missing: Missing) {}

#[idempotent]
#[axum::debug_handler]
async fn debugged(#[allow(unused_variables)] id: Path<u32>, body: String) -> String {
    #![allow(unused_mut)]
    let mut answer = body;
    format!("{answer}!")
}

#[expect(deprecated)]
pub fn router() -> Router {
    Router::new()
        .route("/1/{id}", post(below))
        .route("/2/{id}", post(debugged))
}
