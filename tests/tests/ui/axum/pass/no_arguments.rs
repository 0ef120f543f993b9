use axum::Router;
use axum::routing::post;
use idem_axum::idempotent;

#[idempotent]
async fn bare() {}

#[idempotent()]
async fn empty() {}

fn main() {
    let _: Router = Router::new()
        .route("/bare", post(bare))
        .route("/empty", post(empty));
}
