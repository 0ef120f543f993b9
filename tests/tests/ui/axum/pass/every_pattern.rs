#![deny(warnings)]

use axum::extract::{Extension, Path, Query};
use axum::http::Method;
use axum::{Json, Router, routing::post};
use idem_axum::idempotent;

#[derive(serde::Deserialize)]
struct Payment {
    amount: u32,
    currency: String,
}

#[idempotent]
async fn destructured(
    _: Method,
    _method: Method,
    Path((account, id)): Path<(u32, u32)>,
    page @ Query(_): Query<(u32, u32)>,
    Extension(mut count): Extension<u32>,
    Json(Payment {
        amount,
        ref currency,
        ..
    }): Json<Payment>,
) -> String {
    count += amount + account + id + page.0.0;
    format!("{count} {currency}")
}

#[idempotent]
async fn mutable(mut body: String) -> String {
    body.push('!');
    body
}

fn main() {
    let router: Router = Router::new().route("/{account}/{id}", post(destructured));
    let _ = router.route("/", post(mutable));
}
