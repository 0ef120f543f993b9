#![deny(warnings)]

use actix_web::post;
use actix_web::web::{self, Path, ServiceConfig};
use idem_actix::idempotent;

#[idempotent]
async fn r#type(r#fn: Path<u32>, r#in: String) -> String {
    format!("{fn} {in}")
}

#[idempotent]
async fn zahlung_für_später() -> &'static str {
    "created"
}

#[post("/3")]
#[idempotent]
async fn r#match(r#in: String) -> String {
    r#in
}

#[idempotent]
#[post("/4")]
async fn r#loop(r#in: String) -> String {
    r#in
}

pub fn configure(config: &mut ServiceConfig) {
    config
        .route("/1/{id}", web::post().to(r#type))
        .route("/2", web::post().to(zahlung_für_später))
        .service(r#match)
        .service(r#loop);
}
