use idem_axum::idempotent;

#[idempotent(wait = "99999999999999999999d")]
async fn create() {}

fn main() {}
