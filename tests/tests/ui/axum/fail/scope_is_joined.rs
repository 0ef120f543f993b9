use idem_axum::idempotent;

#[idempotent(scope = "tenant+user")]
async fn create() {}

fn main() {}
