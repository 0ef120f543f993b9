extern crate idem_actix as renamed;

pub mod facade {
    pub use idem_actix as idem;
}

use actix_web::web::{self, ServiceConfig};
use facade::idem::idempotent;

#[idempotent(
    crate = "crate::actix::crate_under_another_name::facade::idem",
    ttl = "1s"
)]
async fn from_the_root() -> &'static str {
    "created"
}

#[idempotent(crate = "self::facade::idem")]
async fn from_here() -> &'static str {
    "created"
}

#[idempotent(crate = "facade::idem")]
async fn relative() -> &'static str {
    "created"
}

#[idempotent(crate = "::idem_actix")]
async fn absolute() -> &'static str {
    "created"
}

#[renamed::idempotent(crate = "crate::actix::crate_under_another_name::renamed")]
async fn renamed_crate() -> &'static str {
    "created"
}

#[actix_web::post("/6")]
#[idempotent(crate = "facade::idem")]
async fn below_its_route() -> &'static str {
    "created"
}

pub fn configure(config: &mut ServiceConfig) {
    config
        .route("/1", web::post().to(from_the_root))
        .route("/2", web::post().to(from_here))
        .route("/3", web::post().to(relative))
        .route("/4", web::post().to(absolute))
        .route("/5", web::post().to(renamed_crate))
        .service(below_its_route);
}
