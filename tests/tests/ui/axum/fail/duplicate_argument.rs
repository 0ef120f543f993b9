use idem_axum::idempotent;

#[idempotent(ttl = "24h", scope = "user", ttl = "7d")]
async fn create() {}

fn main() {}
