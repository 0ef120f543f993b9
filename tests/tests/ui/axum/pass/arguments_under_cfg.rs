use axum::extract::State;
use axum::http::Method;
use axum::{Json, Router, routing::post};
use idem_axum::idempotent;

#[idempotent]
async fn one_of_each(
    #[cfg(unix)] method: Method,
    #[cfg(windows)] missing: Missing,
    Json(items): Json<Vec<u32>>,
) -> String {
    #[cfg(windows)]
    missing.is_not_compiled();
    format!("{method} {}", items.len())
}

#[idempotent]
async fn last_is_there(_: Method, #[cfg(not(windows))] Json([one, two]): Json<[u32; 2]>) -> String {
    format!("{}", one + two)
}

#[idempotent]
async fn last_is_not_there(method: Method, #[cfg(windows)] Json(_): Json<Missing>) -> String {
    method.to_string()
}

#[idempotent]
async fn none_is_there(#[cfg(windows)] _: Missing, #[cfg(windows)] Json(_): Json<Missing>) {}

#[idempotent]
async fn generic<S: Clone + Send + Sync + 'static, T, const N: usize>(
    #[cfg(unix)] State(_): State<S>,
    #[cfg(not(unix))] State(_): State<S>,
    #[cfg(unix)]
    #[allow(unused_mut)]
    Json(mut items): Json<Vec<T>>,
    #[cfg(unix)]
    #[cfg(windows)]
    _: Missing<T>,
) -> String
where
    T: for<'de> serde::Deserialize<'de> + Send + 'static,
{
    format!("{} of {N}", items.len())
}

pub fn router() -> Router {
    Router::new()
        .route("/1", post(one_of_each))
        .route("/2", post(last_is_there))
        .route("/3", post(last_is_not_there))
        .route("/4", post(none_is_there))
        .route("/5", post(generic::<u8, u32, 2>))
        .with_state(0)
}
