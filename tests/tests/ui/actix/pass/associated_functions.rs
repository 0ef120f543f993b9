//! Handlers in an `impl`: `Self` and its parameters.
#![deny(warnings, unused, unreachable_pub, clippy::all, clippy::pedantic)]
#![allow(clippy::unused_async)] // Reported of associated functions without the attribute too.

use std::rc::Rc;

use actix_web::web::{Json, ServiceConfig, post};
use actix_web::{Error, HttpRequest, HttpResponse, Responder};
use idem_actix::idempotent;

#[derive(serde::Deserialize)]
struct Payments<T>(Vec<T>);

impl<T: Default + serde::de::DeserializeOwned + 'static> Payments<T> {
    #[idempotent(associated, scope = "endpoint", ttl = "24h", required)]
    async fn create(Json(this): Json<Self>) -> Result<Self, Error> {
        let held = Rc::new(T::default());
        std::future::ready(()).await;
        drop(held);
        Ok(this)
    }

    #[idempotent(associated)]
    #[expect(unused_variables)]
    async fn update<const N: usize>(request: HttpRequest, items: Json<Vec<T>>) -> String {
        format!("{} of {N}", Self(vec![]).0.len())
    }
}

impl<T> Responder for Payments<T> {
    type Body = actix_web::body::BoxBody;

    fn respond_to(self, _: &HttpRequest) -> HttpResponse {
        HttpResponse::Ok().body(self.0.len().to_string())
    }
}

pub fn configure(config: &mut ServiceConfig) {
    config
        .route("/1", post().to(Payments::<u32>::create))
        .route("/2", post().to(Payments::<u32>::update::<3>));
}
