use idem_axum::idempotent;

#[idempotent("user")]
async fn create() {}

fn main() {}
