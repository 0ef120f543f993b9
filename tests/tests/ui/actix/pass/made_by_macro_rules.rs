#![deny(warnings)]
#![allow(edition_2024_expr_fragment_specifier)] // Either meaning will do.

use actix_web::error::ErrorConflict;
use actix_web::web::{self, Path, ServiceConfig};
use actix_web::{Result, post};
use idem_actix::idempotent;

const TTL: std::time::Duration = std::time::Duration::from_secs(1);

macro_rules! from_fragments {
    (
        $(#[$meta:meta])* $vis:vis fn $name:ident($($pattern:pat_param = $type:ty),*) -> $output:ty,
        $scope:literal, $ttl:expr, $lease:expr, $body:block
    ) => {
        $(#[$meta])*
        #[idempotent(scope = $scope, ttl = $ttl, lease = $lease)]
        $vis async fn $name($($pattern: $type),*) -> $output $body
    };
}

macro_rules! from_an_item {
    ($item:item) => {
        #[idempotent(scope = "user")]
        $item
    };
}

macro_rules! from_a_name {
    ($name:ident, $path:literal) => {
        #[post($path)]
        #[idempotent]
        async fn $name(captured: String) -> String {
            let handler = captured;
            handler
        }
    };
}

from_fragments!(
    /// Creates a payment.
    #[must_use]
    pub(crate) fn create(id = Path<u32>, body = String) -> Result<String>,
    "tenant", "24h", TTL,
    { if *id == 0 { Err(ErrorConflict(body)) } else { Ok(body) } }
);
from_fragments!(fn bare() -> &'static str, "user", TTL, "1s", { "created" });
from_fragments!(#[post("/3")] fn routed() -> &'static str, "user", TTL, "1s", { "created" });
from_an_item!(
    async fn item(body: String) -> String {
        body
    }
);
from_an_item!(
    #[post("/5")]
    async fn routed_item(body: String) -> String {
        body
    }
);
from_a_name!(named, "/6");

pub fn configure(config: &mut ServiceConfig) {
    config
        .route("/1/{id}", web::post().to(create))
        .route("/2", web::post().to(bare))
        .service(routed)
        .route("/4", web::post().to(item))
        .service(routed_item)
        .service(named);
}
