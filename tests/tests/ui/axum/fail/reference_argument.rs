use idem_axum::idempotent;

#[idempotent]
async fn create(_: &str) {}

fn main() {}
