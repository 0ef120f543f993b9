#![deny(warnings)]
#![allow(edition_2024_expr_fragment_specifier)] // Either meaning will do.

use axum::{Router, extract::Path, routing::post};
use idem_axum::idempotent;

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
    ($name:ident) => {
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
    pub(crate) fn create(Path(id) = Path<u32>, body = String) -> Result<String, String>,
    "tenant", "24h", TTL,
    { if id == 0 { Err(body) } else { Ok(body) } }
);
from_fragments!(fn bare() -> &'static str, "user", TTL, "1s", { "created" });
from_an_item!(
    async fn item(body: String) -> String {
        body
    }
);
from_a_name!(named);

pub fn router() -> Router {
    Router::new()
        .route("/1/{id}", post(create))
        .route("/2", post(bare))
        .route("/3", post(item))
        .route("/4", post(named))
}
