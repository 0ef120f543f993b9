use idem_axum::idempotent;

#[idempotent(required = true)]
async fn create() {}

fn main() {}
