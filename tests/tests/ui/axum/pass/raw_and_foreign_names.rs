#![deny(warnings)]

use axum::{Router, extract::Path, routing::post};
use idem_axum::idempotent;

#[idempotent]
async fn r#type(Path(r#fn): Path<u32>, r#in: String) -> String {
    format!("{fn} {in}")
}

#[idempotent]
async fn zahlung_für_später() {}

pub fn router() -> Router {
    Router::new()
        .route("/1/{id}", post(r#type))
        .route("/2", post(zahlung_für_später))
}
