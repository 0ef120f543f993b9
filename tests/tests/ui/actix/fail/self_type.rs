use actix_web::web::Json;
use idem_actix::idempotent;

struct Service;

impl Service {
    #[idempotent]
    async fn create(_: Json<Self>) {}
}

fn main() {}
