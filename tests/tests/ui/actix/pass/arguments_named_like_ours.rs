#![deny(warnings)]

use actix_web::web::{Data, Payload, ServiceConfig, post};
use actix_web::{HttpRequest, Result};
use idem_actix::idempotent;

#[idempotent]
#[expect(clippy::too_many_arguments)]
async fn create(
    headers: Data<u32>,
    req: Data<u32>,
    request: Data<u32>,
    captured: Data<u32>,
    args: Data<u32>,
    arg0: Data<u32>,
    handler: Data<u32>,
    answer: Data<u32>,
    store: Data<u32>,
    key: Data<u32>,
    run: Data<u32>,
    payload: Payload,
) -> Result<String> {
    let sum = **headers + **req + **request + **captured + **args + **arg0 + **handler + **answer;
    let payload = payload.to_bytes().await?;
    let length = payload.len();
    Ok(format!("{} {length}", sum + **store + **key + **run))
}

#[idempotent]
async fn prefixed(
    idem_captured: Data<u32>,
    idem_arg0: Data<u32>,
    idem_request: HttpRequest,
    idem_handler: String,
) -> String {
    let idem_answer = **idem_captured + **idem_arg0;
    format!("{idem_answer} {} {idem_handler}", idem_request.method())
}

pub fn configure(config: &mut ServiceConfig) {
    config
        .app_data(Data::new(1_u32))
        .route("/1", post().to(create))
        .route("/2", post().to(prefixed));
}
