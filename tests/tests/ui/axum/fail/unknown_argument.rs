use idem_axum::idempotent;

#[idempotent(scope = "user", tll = "24h")]
async fn create() {}

fn main() {}
