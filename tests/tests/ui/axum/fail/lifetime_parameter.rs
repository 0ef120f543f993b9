use axum::extract::State;
use idem_axum::idempotent;

#[idempotent]
async fn create<'a>(_: State<&'a str>) {}

fn main() {}
