use idem_axum::idempotent;

#[idempotent(scope = endpoint)]
async fn create() {}

fn main() {}
