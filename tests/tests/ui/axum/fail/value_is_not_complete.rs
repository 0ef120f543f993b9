use idem_axum::idempotent;

#[idempotent(scope = "user", ttl = limits.)]
async fn create() {}

fn main() {}
