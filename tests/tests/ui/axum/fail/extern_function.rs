use idem_axum::idempotent;

#[idempotent]
async extern "C" fn create() {}

fn main() {}
