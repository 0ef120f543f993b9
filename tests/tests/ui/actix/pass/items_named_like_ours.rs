#![allow(dead_code, non_camel_case_types, non_upper_case_globals)]

use actix_web::post;
use actix_web::web::{self, ServiceConfig};
use idem_actix::idempotent;

const arg0: u32 = 0;
static answer: u32 = 0;
static request: u32 = 0;
struct handler;

#[idempotent]
async fn captured(captured: String) -> String {
    captured
}

#[idempotent]
async fn run(body: String) -> String {
    body
}

#[idempotent]
async fn into_response(args: String) -> String {
    args
}

#[post("/4")]
#[idempotent]
async fn register(config: String) -> String {
    config
}

pub fn configure(config: &mut ServiceConfig) {
    config
        .route("/1", web::post().to(captured))
        .route("/2", web::post().to(run))
        .route("/3", web::post().to(into_response))
        .service(register);
}
