use actix_web::post;
use idem_actix::idempotent;

#[post("/")]
#[idempotent]
async fn create(body: String) -> String {
    body.len()
}

fn main() {}
