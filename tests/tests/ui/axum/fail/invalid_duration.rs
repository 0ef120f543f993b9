use idem_axum::idempotent;

#[idempotent(ttl = "24x")]
async fn create() {}

fn main() {}
