use axum::Router;
use axum::routing::post;
use idem_axum::idempotent;

#[idempotent]
async fn bare() {}

#[idempotent()]
async fn empty() {}

pub fn router() -> Router {
    Router::new()
        .route("/1", post(bare))
        .route("/2", post(empty))
}
