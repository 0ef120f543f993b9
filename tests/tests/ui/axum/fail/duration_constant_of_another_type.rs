use idem_axum::idempotent;

const TTL: u64 = 24;

#[idempotent(ttl = TTL)]
async fn create() {}

fn main() {}
