use idem_axum::idempotent;

#[idempotent(scope)]
async fn create() {}

fn main() {}
