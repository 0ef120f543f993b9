use idem_axum::idempotent;

#[idempotent(on_lapse = "retry")]
async fn create() {}

fn main() {}
