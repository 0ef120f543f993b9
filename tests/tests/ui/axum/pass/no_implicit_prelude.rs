#![no_implicit_prelude]

#[::idem_axum::idempotent(scope = "user", ttl = "24h")]
async fn create(body: ::std::string::String) -> ::std::string::String {
    body
}

pub fn router() -> ::axum::Router {
    ::axum::Router::new().route("/1", ::axum::routing::post(create))
}
