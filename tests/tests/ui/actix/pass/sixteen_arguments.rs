use actix_web::http::Method as M;
use actix_web::web::{self, ServiceConfig};
use idem_actix::idempotent;

#[idempotent]
#[rustfmt::skip]
#[expect(clippy::too_many_arguments)]
async fn create(
    _: M, _: M, _: M, _: M, _: M, _: M, _: M, _: M,
    _: M, _: M, _: M, _: M, _: M, _: M, _: M, _: String,
) -> &'static str {
    "created"
}

#[actix_web::post("/2")]
#[idempotent]
#[rustfmt::skip]
#[expect(clippy::too_many_arguments)]
async fn service(
    _: String, _: M, _: M, _: M, _: M, _: M, _: M, _: M,
    _: M, _: M, _: M, _: M, _: M, _: M, _: M, _: M,
) -> &'static str {
    "created"
}

pub fn configure(config: &mut ServiceConfig) {
    config.route("/1", web::post().to(create)).service(service);
}
