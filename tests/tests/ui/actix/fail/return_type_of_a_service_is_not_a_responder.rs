use actix_web::post;
use idem_actix::idempotent;

#[post("/")]
#[idempotent]
async fn create() -> u32 {
    1
}

fn main() {}
