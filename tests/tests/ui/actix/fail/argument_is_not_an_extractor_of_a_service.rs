use actix_web::post;
use idem_actix::idempotent;

#[post("/")]
#[idempotent]
async fn create(_: u32, _: String) -> String {
    "created".to_owned()
}

fn main() {}
