#![deny(warnings)]

use std::collections::BTreeMap;

use actix_web::http::Method;
use actix_web::web::{Form, Json, Path, Query, ServiceConfig, post};
use actix_web::{Either, HttpRequest};
use idem_actix::idempotent;

#[derive(serde::Deserialize)]
struct Payment(u32, u32);

#[derive(serde::Deserialize)]
struct Page {
    number: Option<u32>,
    size: Option<u32>,
}

#[idempotent]
async fn destructured(
    _: Method,
    _method: Method,
    ids: Path<(u32, u32)>,
    all @ Query(_): Query<BTreeMap<String, u32>>,
    Query(Page {
        mut number,
        ref size,
        ..
    }): Query<Page>,
    (method, ()): (Method, ()),
    Json(Payment(amount, ref fee)): Json<Payment>,
) -> String {
    number.get_or_insert(1);
    let sum = amount + ids.0 + ids.1 + all.values().sum::<u32>();
    format!("{method} {sum} {fee} {number:?} {size:?}")
}

#[idempotent]
async fn mutable(mut body: String) -> String {
    body.push('!');
    body
}

#[idempotent]
async fn of_extractors(
    (request, method): (HttpRequest, Option<Method>),
    length: Result<Path<u32>, actix_web::Error>,
    body: Either<Form<()>, Json<Vec<u32>>>,
) -> String {
    let items = match body {
        Either::Left(_) => None,
        Either::Right(items) => Some(items.into_inner()),
    };
    let length = length.is_ok();
    format!("{method:?} {} {length} {items:?}", request.path())
}

pub fn configure(config: &mut ServiceConfig) {
    config
        .route("/1/{account}/{id}", post().to(destructured))
        .route("/2", post().to(mutable))
        .route("/3", post().to(of_extractors));
}
