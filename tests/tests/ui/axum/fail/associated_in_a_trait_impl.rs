use idem_axum::idempotent;

trait Create {
    async fn create() {}
}

struct Service;

impl Create for Service {
    #[idempotent(associated)]
    async fn create() {}
}

fn main() {}
