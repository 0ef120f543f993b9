#![deny(warnings)]

use std::collections::BTreeMap;

use axum::extract::{Extension, Path, Query};
use axum::http::Method;
use axum::{Json, Router, routing::post};
use idem_axum::idempotent;

#[derive(serde::Deserialize)]
struct Payment {
    amount: u32,
    fee: u32,
}

#[idempotent]
async fn destructured(
    _: Method,
    _method: Method,
    Path((account, id)): Path<(u32, u32)>,
    page @ Query(_): Query<BTreeMap<String, u32>>,
    Extension(mut count): Extension<u32>,
    Json(Payment {
        amount, ref fee, ..
    }): Json<Payment>,
) -> String {
    count += amount + account + id + page.values().sum::<u32>();
    format!("{count} {fee}")
}

#[idempotent]
async fn mutable(mut body: String) -> String {
    body.push('!');
    body
}

pub fn router() -> Router {
    Router::new()
        .route("/1/{account}/{id}", post(destructured))
        .route("/2", post(mutable))
        .layer(Extension(1_u32))
}
