#![deny(warnings)]

use actix_web::web::{self, ServiceConfig};
use actix_web::{Resource, post};
use idem_actix::idempotent;

fn routes<T: Default>(config: &mut ServiceConfig, _: T) {
    #[idempotent]
    async fn create() -> &'static str {
        "created"
    }

    let inner: Resource = {
        #[idempotent]
        async fn create(body: String) -> String {
            body
        }
        web::resource("/2").route(web::post().to(create))
    };
    config.route("/1", web::post().to(create)).service(inner);
    {
        #[post("/3")]
        #[idempotent]
        async fn create(body: String) -> String {
            body
        }
        config.service(create);
    }
}

#[idempotent]
async fn countdown(body: String) -> String {
    match body.strip_prefix('.') {
        Some(rest) => Box::pin(countdown(rest.to_owned())).await,
        None => body,
    }
}

#[idempotent]
#[post("/5")]
async fn service(body: String) -> String {
    match body.strip_prefix('.') {
        Some(rest) => Box::pin(service(rest.to_owned())).await,
        None => body,
    }
}

pub fn configure(config: &mut ServiceConfig) {
    routes(config, 0);
    config
        .route("/4", web::post().to(countdown))
        .service(service);
}
