use idem_axum::idempotent;

#[idempotent(crate = "my-idem")]
async fn create() {}

fn main() {}
