#![deny(warnings)]

use actix_web::guard::GuardContext;
use actix_web::middleware::{DefaultHeaders, NormalizePath};
use actix_web::web::ServiceConfig;
use actix_web::{post, route, routes};
use idem_actix::idempotent;

fn any(_: &GuardContext<'_>) -> bool {
    true
}

#[post("/1")]
#[idempotent]
async fn below(body: String) -> String {
    body
}

#[idempotent]
#[post("/2")]
async fn above(body: String) -> String {
    body
}

#[post("/3", name = "third", guard = "any", wrap = "NormalizePath::trim()")]
#[idempotent(scope = "tenant")]
async fn below_all_of_it(body: String) -> String {
    body
}

#[idempotent(scope = "tenant")]
#[post(
    "/4",
    name = "fourth",
    guard = "any",
    wrap = "NormalizePath::trim()",
    wrap = "DefaultHeaders::new()"
)]
async fn above_all_of_it(body: String) -> String {
    body
}

#[route("/5", method = "POST", method = "PUT")]
#[idempotent]
async fn below_methods(body: String) -> String {
    body
}

#[idempotent]
#[route("/6", method = "PUT", method = "PATCH", wrap = "NormalizePath::trim()")]
async fn above_methods(body: String) -> String {
    body
}

#[routes]
#[post("/7", guard = "any")]
#[put("/8", wrap = "NormalizePath::trim()")]
#[idempotent]
async fn below_routes(body: String) -> String {
    body
}

#[idempotent]
#[routes]
#[patch("/9", name = "ninth")]
#[put("/10")]
async fn above_routes(body: String) -> String {
    body
}

#[routes]
#[post("/11")]
#[idempotent]
#[get("/12")]
async fn among_routes(body: String) -> String {
    body
}

#[actix_web::post("/13")]
#[idempotent]
async fn below_its_path(body: String) -> String {
    body
}

#[idempotent]
#[actix_web::routes]
#[post("/14")]
#[post("/15")]
async fn above_its_path(body: String) -> String {
    body
}

mod renamed {
    pub(super) use actix_web::post as create;
}

/// Its documentation.
#[renamed::create("/16")]
#[idempotent]
#[doc(hidden)]
async fn below_another_name(body: String) -> String {
    body
}

pub fn configure(config: &mut ServiceConfig) {
    config
        .service(below)
        .service(above)
        .service(below_all_of_it)
        .service(above_all_of_it)
        .service(below_methods)
        .service(above_methods)
        .service(below_routes)
        .service(above_routes)
        .service(among_routes)
        .service(below_its_path)
        .service(above_its_path)
        .service(below_another_name);
}
