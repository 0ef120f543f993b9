use std::rc::Rc;

use idem_axum::idempotent;

#[idempotent]
async fn create() -> &'static str {
    let count = Rc::new(1);
    tokio::task::yield_now().await;
    if *count == 1 { "created" } else { "failed" }
}

fn main() {}
