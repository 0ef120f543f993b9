#![deny(warnings)]

use actix_web::web::{self, Path, ServiceConfig};
use actix_web::{post, put};
use idem_actix::idempotent;

#[idempotent(scope = "user")]
#[expect(dead_code)]
async fn not_used() -> &'static str {
    "created"
}

#[idempotent(scope = "user")]
#[expect(unused_variables)]
async fn argument_not_used(id: Path<u32>, body: String) -> String {
    body
}

#[idempotent(scope = "user")]
#[expect(unused_mut)]
async fn not_mutated(mut body: String) -> String {
    body
}

#[idempotent(scope = "user")]
#[expect(non_snake_case)]
async fn notSnakeCase(Body: String) -> String {
    Body
}

#[post("/4")]
#[idempotent(scope = "user")]
#[expect(unused_variables)]
async fn below_its_route(body: String) -> &'static str {
    "created"
}

#[post("/5")]
#[expect(unused_mut)]
#[idempotent(scope = "user")]
async fn between(mut body: String) -> String {
    body
}

#[idempotent(scope = "user")]
#[expect(unused_variables)]
#[put("/6")]
async fn above_its_route(body: String) -> &'static str {
    "created"
}

pub fn configure(config: &mut ServiceConfig) {
    config
        .route("/1/{id}", web::post().to(argument_not_used))
        .route("/2", web::post().to(not_mutated))
        .route("/3", web::post().to(notSnakeCase))
        .service(below_its_route)
        .service(between)
        .service(above_its_route);
}
