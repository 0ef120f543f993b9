#![deny(warnings, private_interfaces, unnameable_types)]

use axum::{Router, routing::post};

pub mod outer {
    pub mod inner {
        use axum::{Router, routing::post};
        use idem_axum::idempotent;

        #[idempotent]
        async fn private() {}

        #[idempotent]
        #[allow(clippy::needless_pub_self)]
        pub(self) async fn here() {}

        #[idempotent]
        pub(super) async fn above() {}

        #[idempotent]
        pub(in crate::axum::every_visibility::outer) async fn within() {}

        #[idempotent]
        pub(crate) async fn everywhere() {}

        #[idempotent]
        pub async fn public() {}

        pub fn router() -> Router {
            Router::new()
                .route("/1", post(private))
                .route("/2", post(here))
        }
    }

    pub fn router() -> axum::Router {
        inner::router()
            .route("/3", axum::routing::post(inner::above))
            .route("/4", axum::routing::post(inner::within))
    }
}

pub fn router() -> Router {
    outer::router()
        .route("/5", post(outer::inner::everywhere))
        .route("/6", post(outer::inner::public))
}
