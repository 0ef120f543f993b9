#![deny(warnings)]

use axum::{Router, routing::post};
use idem_axum::idempotent;

/// Creates a payment.
#[doc(alias = "pay")]
#[must_use]
#[deprecated]
#[cfg_attr(all(), allow(clippy::all))]
#[expect(unused_variables)]
#[idempotent]
async fn above(id: axum::extract::Path<u32>, body: String) {}

#[cfg(any())]
#[idempotent]
async fn above(missing: Missing) {}

// With one argument only, as the function that it sees has.
#[axum::debug_handler]
#[idempotent]
async fn debugged(body: String) -> String {
    body
}

#[expect(deprecated)]
pub fn router() -> Router {
    Router::new()
        .route("/1/{id}", post(above))
        .route("/2", post(debugged))
}
