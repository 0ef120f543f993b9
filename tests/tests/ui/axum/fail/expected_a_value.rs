use idem_axum::idempotent;

#[idempotent(scope = , required)]
async fn create() {}

fn main() {}
