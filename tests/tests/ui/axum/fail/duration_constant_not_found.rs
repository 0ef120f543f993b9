use idem_axum::idempotent;

#[idempotent(ttl = TTL)]
async fn create() {}

fn main() {}
