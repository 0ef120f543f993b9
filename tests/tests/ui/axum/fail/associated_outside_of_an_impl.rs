use idem_axum::idempotent;

#[idempotent(associated, ttl = "24h")]
async fn create() {}

fn main() {}
