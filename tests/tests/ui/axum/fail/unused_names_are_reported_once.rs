#![deny(warnings)]

use axum::extract::Path;
use idem_axum::idempotent;

#[idempotent(scope = "user")]
async fn create(Path(id): Path<u32>, mut body: String) -> String {
    body
}

fn main() {}
