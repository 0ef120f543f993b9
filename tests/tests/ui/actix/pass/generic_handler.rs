use std::fmt::Debug;

use actix_web::web::{Data, Json, ServiceConfig, post};
use actix_web::{Error, Responder};
use idem_actix::idempotent;

trait Store {
    type Error;
}

struct Memory;

impl Store for Memory {
    type Error = ();
}

#[idempotent]
async fn create<S: Store + 'static, T, const N: usize>(
    _: Data<S>,
    Json(items): Json<Vec<T>>,
) -> Result<String, Error>
where
    S::Error: Debug,
    T: for<'de> serde::Deserialize<'de> + 'static,
    Result<String, Error>: Responder,
{
    Ok(format!("{} of {N}", items.len()))
}

/// What it needs is known where it is routed.
#[idempotent]
async fn update<T: 'static>(_: Json<T>) -> &'static str {
    "updated"
}

pub fn configure(config: &mut ServiceConfig) {
    config
        .app_data(Data::new(Memory))
        .route("/1", post().to(create::<Memory, u32, 3>))
        .route("/2", post().to(update::<Vec<u32>>));
}
