#![allow(dead_code, non_camel_case_types, unused_macros)]

mod std {}
mod core {}
mod axum {}
mod idem_axum {}

type Result<T> = ::core::result::Result<T, ::axum::http::StatusCode>;
struct Captured;
struct Response;
struct Route;
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

#[::idem_axum::idempotent(scope = "user", ttl = TTL, lease = "1s", required, on_lapse = "unknown")]
async fn create(_: ::axum::http::Method) -> Result<&'static str> {
    ::core::result::Result::Ok("created")
}

pub fn router() -> ::axum::Router {
    ::axum::Router::new().route("/1", ::axum::routing::post(create))
}
