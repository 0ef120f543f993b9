use actix_web::post;
use idem_actix::idempotent;

#[idempotent]
#[post("/")]
#[utoipa::path(post, path = "/")]
async fn create() -> &'static str {
    "created"
}

fn main() {}
