use idem_axum::idempotent;

#[idempotent]
#[idempotent(scope = "user")]
async fn create() {}

fn main() {}
