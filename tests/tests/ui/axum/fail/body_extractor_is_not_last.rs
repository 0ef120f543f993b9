use axum::Router;
use axum::http::Method;
use axum::routing::post;
use idem_axum::idempotent;

#[idempotent]
async fn create(_: String, _: Method) {}

fn main() {
    Router::<()>::new().route("/", post(create));
}
