use idem_axum::idempotent;

#[idempotent(header = XEventId)]
async fn create() {}

fn main() {}
