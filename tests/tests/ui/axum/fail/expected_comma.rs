use idem_axum::idempotent;

#[idempotent(scope = "user" ttl = "24h")]
async fn create() {}

fn main() {}
