use idem_axum::idempotent;

struct Service;

impl Service {
    #[idempotent(associated, header = "X-Event-Id")]
    async fn create() {}
}

fn main() {}
