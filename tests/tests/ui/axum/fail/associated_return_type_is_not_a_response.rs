use idem_axum::idempotent;

struct Service;

impl Service {
    #[idempotent(associated)]
    async fn create() -> Self {
        Self
    }
}

fn main() {}
