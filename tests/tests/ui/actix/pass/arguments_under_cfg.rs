use actix_web::{HttpRequest, web};
use idem_actix::idempotent;

#[idempotent]
async fn one_of_each(
    #[cfg(unix)] request: HttpRequest,
    #[cfg(windows)] missing: Missing,
    items: web::Json<Vec<u32>>,
) -> String {
    #[cfg(windows)]
    missing.is_not_compiled();
    format!("{} {}", request.path(), items.len())
}

#[idempotent]
async fn last_is_there(_: HttpRequest, #[cfg(not(windows))] body: web::Bytes) -> web::Bytes {
    body
}

#[idempotent]
async fn none_is_there(
    #[cfg(windows)] _: Missing,
    #[cfg(windows)] web::Json(_): web::Json<Missing>,
) -> String {
    String::new()
}

#[idempotent]
async fn generic<T, const N: usize>(
    #[cfg(unix)] _: HttpRequest,
    #[cfg(not(unix))] _: String,
    #[cfg(unix)] items: web::Json<Vec<T>>,
) -> String
where
    T: for<'de> serde::Deserialize<'de> + 'static,
{
    format!("{} of {N}", items.len())
}

pub fn configure(config: &mut web::ServiceConfig) {
    config
        .route("/1", web::post().to(one_of_each))
        .route("/2", web::post().to(last_is_there))
        .route("/3", web::post().to(none_is_there))
        .route("/4", web::post().to(generic::<u32, 2>));
}
