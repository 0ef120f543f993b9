use idem_axum::idempotent;

#[idempotent(header = "X Event")]
async fn create() {}

fn main() {}
