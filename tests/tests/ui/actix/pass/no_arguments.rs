use actix_web::web::{self, ServiceConfig};
use idem_actix::idempotent;

#[idempotent]
async fn bare() -> &'static str {
    "created"
}

#[idempotent()]
async fn empty() -> &'static str {
    "created"
}

#[actix_web::post("/3")]
#[idempotent]
async fn service() -> &'static str {
    "created"
}

pub fn configure(config: &mut ServiceConfig) {
    config
        .route("/1", web::post().to(bare))
        .route("/2", web::post().to(empty))
        .service(service);
}
