use axum::http::Method;
use idem_axum::idempotent;

#[axum::debug_handler]
#[idempotent]
async fn create(_: Method, body: String) -> String {
    body
}

fn main() {}
