use idem_axum::idempotent;

#[idempotent(operation = "POST /payments")]
async fn create() {}

fn main() {}
