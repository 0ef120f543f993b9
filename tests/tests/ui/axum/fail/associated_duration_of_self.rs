use std::time::Duration;

use idem_axum::idempotent;

struct Service;

impl Service {
    const TTL: Duration = Duration::from_secs(9);

    #[idempotent(associated, ttl = Self::TTL)]
    async fn create() {}
}

fn main() {}
