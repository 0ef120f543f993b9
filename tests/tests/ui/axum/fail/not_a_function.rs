use idem_axum::idempotent;

#[idempotent]
pub struct Create;

fn main() {}
