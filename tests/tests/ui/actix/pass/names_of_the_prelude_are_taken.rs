#![allow(dead_code, non_camel_case_types, unused_macros)]

mod std {}
mod core {}
mod actix_web {}
mod idem_actix {}

type Result<T> = ::core::result::Result<T, ::actix_web::Error>;
struct Captured;
struct Response;
struct Route;
struct HttpRequest;
struct HttpResponse;
struct Scope;
struct Policy;
struct Selection;
struct Duration;
struct String;
struct Box;
struct Ok;
struct Err;
enum Option {}
trait Future {}
trait Send {}
trait Responder {}
trait FnOnce {}
const POLICY: () = ();
fn drop() {}
fn into_response() {}
fn nonzero() {}
macro_rules! vec {
    () => {};
}
macro_rules! concat {
    () => {};
}
macro_rules! module_path {
    () => {};
}

const TTL: ::core::time::Duration = ::core::time::Duration::from_secs(1);

#[::idem_actix::idempotent(scope = "user", ttl = TTL, lease = "1s", required, on_lapse = "unknown")]
async fn create(_: ::actix_web::http::Method) -> Result<&'static str> {
    ::core::result::Result::Ok("created")
}

pub fn configure(config: &mut ::actix_web::web::ServiceConfig) {
    config.route("/1", ::actix_web::web::post().to(create));
}
