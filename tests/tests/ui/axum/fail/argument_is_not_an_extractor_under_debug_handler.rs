use axum::Router;
use axum::routing::post;
use idem_axum::idempotent;

#[idempotent]
#[axum::debug_handler]
async fn create(_: u32, _: String) {}

fn main() {
    Router::<()>::new().route("/", post(create));
}
