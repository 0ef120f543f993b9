#![deny(warnings, clippy::all, clippy::pedantic, clippy::nursery)]
#![allow(clippy::future_not_send)] // These are not, and need not be.

use std::cell::RefCell;
use std::rc::Rc;

use actix_web::rt::task::yield_now;
use actix_web::web::{Data, Payload, ServiceConfig, post};
use actix_web::{HttpRequest, HttpResponse, Result};
use idem_actix::idempotent;

#[idempotent]
async fn shared() -> String {
    let count = Rc::new(RefCell::new(1));
    yield_now().await;
    count.replace(2).to_string()
}

#[idempotent]
async fn request(request: HttpRequest, body: String) -> HttpResponse {
    yield_now().await;
    HttpResponse::Ok().body(format!("{} {body}", request.path()))
}

#[idempotent]
async fn payload(payload: Payload) -> Result<String> {
    yield_now().await;
    let body = payload.to_bytes().await?;
    Ok(body.len().to_string())
}

#[idempotent]
async fn state(count: Data<Rc<RefCell<u32>>>) -> String {
    yield_now().await;
    count.replace_with(|count| *count + 1).to_string()
}

pub fn configure(config: &mut ServiceConfig) {
    config
        .app_data(Data::new(Rc::new(RefCell::new(1_u32))))
        .route("/1", post().to(shared))
        .route("/2", post().to(request))
        .route("/3", post().to(payload))
        .route("/4", post().to(state));
}
