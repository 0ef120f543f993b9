use actix_web::post as create_at;
use idem_actix::idempotent;

#[idempotent]
#[create_at("/")]
async fn create(body: String) -> String {
    body
}

fn main() {}
