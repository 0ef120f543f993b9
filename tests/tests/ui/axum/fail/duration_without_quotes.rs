use idem_axum::idempotent;

#[idempotent(ttl = 24h)]
async fn create() {}

fn main() {}
