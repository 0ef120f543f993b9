#![no_implicit_prelude]

#[::idem_axum::idempotent(scope = "user", ttl = "24h")]
async fn create(body: ::std::string::String) -> ::std::string::String {
    body
}

fn main() {
    let _: ::axum::Router = ::axum::Router::new().route("/", ::axum::routing::post(create));
}
