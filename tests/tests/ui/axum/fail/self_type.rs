use axum::Json;
use idem_axum::idempotent;

struct Service;

impl Service {
    #[idempotent]
    async fn create(_: Json<Self>) {}
}

fn main() {}
