use idem_axum::idempotent;

#[idempotent(lease = "0s")]
async fn create() {}

fn main() {}
