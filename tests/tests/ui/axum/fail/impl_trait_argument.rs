use axum::extract::State;
use idem_axum::idempotent;

#[idempotent]
async fn create(_: State<impl Clone>) {}

fn main() {}
