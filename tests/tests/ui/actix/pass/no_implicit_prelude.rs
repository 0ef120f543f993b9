#![no_implicit_prelude]

#[::idem_actix::idempotent(scope = "user", ttl = "24h")]
async fn create(body: ::std::string::String) -> ::std::string::String {
    body
}

pub fn configure(config: &mut ::actix_web::web::ServiceConfig) {
    config.route("/1", ::actix_web::web::post().to(create));
}
