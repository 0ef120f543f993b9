#![deny(warnings)]

use actix_web::web::{Path, ServiceConfig, post};
use idem_actix::idempotent;

#[idempotent]
/// Creates a payment.
///
/// Twice is once.
#[doc(hidden)]
#[must_use]
#[cfg(all())]
#[cfg_attr(all(), inline, deprecated = "use the other one", tracing::instrument(skip_all))]
#[allow(clippy::all)]
#[expect(unused_variables)]
#[warn(missing_docs)]
#[deny(unused_mut)]
#[forbid(unsafe_code)]
async fn below(id: Path<u32>, body: String) -> &'static str {
    "created"
}

#[idempotent]
#[cfg(any())]
async fn below(missing: Missing) -> &'static str {}

#[idempotent]
#[tracing::instrument(skip_all, fields(id = %id))]
async fn traced(id: Path<u32>, #[allow(unused_variables)] body: String) -> String {
    #![allow(unused_mut)]
    let mut answer = id;
    format!("{answer}!")
}

#[expect(deprecated)]
pub fn configure(config: &mut ServiceConfig) {
    config
        .route("/1/{id}", post().to(below))
        .route("/2/{id}", post().to(traced));
}
