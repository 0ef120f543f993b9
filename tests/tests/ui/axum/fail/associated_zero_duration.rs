use std::time::Duration;

use idem_axum::idempotent;

struct Service<T>(T);

impl<T: Send + 'static> Service<T> {
    #[idempotent(associated, ttl = Duration::ZERO)]
    async fn create() {}
}

fn main() {}
