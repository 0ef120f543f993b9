#![deny(warnings)]

use axum::{Router, routing::post};
use idem_axum::idempotent;

fn routes<T: Default>(_: T) -> Router {
    #[idempotent]
    async fn create() {}

    let inner = {
        #[idempotent]
        async fn create(body: String) -> String {
            body
        }
        post(create)
    };
    Router::new().route("/1", post(create)).route("/2", inner)
}

#[idempotent]
async fn countdown(body: String) -> String {
    match body.strip_prefix('.') {
        Some(rest) => Box::pin(countdown(rest.to_owned())).await,
        None => body,
    }
}

pub fn router() -> Router {
    routes(0).route("/3", post(countdown))
}
