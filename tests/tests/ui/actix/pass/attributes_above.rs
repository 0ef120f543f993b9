#![deny(warnings)]

use actix_web::web::{Path, ServiceConfig, post};
use idem_actix::idempotent;

/// Creates a payment.
#[doc(alias = "pay")]
#[must_use]
#[deprecated]
#[cfg_attr(all(), allow(clippy::all))]
#[expect(unused_variables)]
#[idempotent]
async fn above(id: Path<u32>, body: String) -> &'static str {
    "created"
}

#[cfg(any())]
#[idempotent]
async fn above(missing: Missing) -> &'static str {}

#[expect(deprecated)]
pub fn configure(config: &mut ServiceConfig) {
    config.route("/1/{id}", post().to(above));
}
