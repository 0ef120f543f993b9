use idem_axum::idempotent;

#[idempotent]
async unsafe fn create() {}

fn main() {}
