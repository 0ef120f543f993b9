use actix_web::{HttpResponse, post};
use idem_actix::idempotent;

#[post("/")]
#[idempotent]
fn create() -> HttpResponse {
    HttpResponse::Ok().finish()
}

fn main() {}
