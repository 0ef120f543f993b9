#![deny(warnings)]

use actix_web::web::Path;
use idem_actix::idempotent;

#[deprecated]
type Old = String;

#[idempotent]
async fn create(id: Path<u32>, mut body: Old) -> std::string::String {
    body
}

#[actix_web::post("/")]
#[idempotent]
async fn service(id: Path<u32>, mut body: String) -> Old {
    body
}

fn main() {}
