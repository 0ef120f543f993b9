use idem_axum::idempotent;

struct Service;

impl Service {
    #[idempotent(associated = "Service")]
    async fn create() {}
}

fn main() {}
