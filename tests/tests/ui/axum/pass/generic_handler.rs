use std::fmt::Debug;

use axum::{Json, Router, extract::State, routing::post};
use idem_axum::idempotent;

trait Store {
    type Error;
}

#[derive(Clone)]
struct Memory;

impl Store for Memory {
    type Error = ();
}

#[idempotent]
async fn create<S: Store + Clone + Send + Sync + 'static, T, const N: usize>(
    State(_): State<S>,
    Json(items): Json<Vec<T>>,
) -> Result<String, ()>
where
    S::Error: Debug,
    T: for<'de> serde::Deserialize<'de> + Send + 'static,
    Result<String, ()>: axum::response::IntoResponse,
{
    Ok(format!("{} of {N}", items.len()))
}

pub fn router() -> Router {
    Router::new()
        .route("/1", post(create::<Memory, u32, 3>))
        .with_state(Memory)
}
