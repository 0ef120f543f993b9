use idem_axum::idempotent;

struct Service;

impl Service {
    #[idempotent]
    async fn create(&self) {}
}

fn main() {}
