#![deny(warnings, private_interfaces, unnameable_types)]

use actix_web::web::{ServiceConfig, post};

pub mod outer {
    use actix_web::web::{ServiceConfig, post};

    pub mod inner {
        use actix_web::web::{self, ServiceConfig};
        use idem_actix::idempotent;

        #[idempotent]
        async fn private() -> &'static str {
            "created"
        }

        #[idempotent]
        #[allow(clippy::needless_pub_self)]
        pub(self) async fn here() -> &'static str {
            "created"
        }

        #[idempotent]
        pub(super) async fn above() -> &'static str {
            "created"
        }

        #[idempotent]
        pub(in crate::actix::every_visibility::outer) async fn within() -> &'static str {
            "created"
        }

        #[idempotent]
        pub(crate) async fn everywhere() -> &'static str {
            "created"
        }

        #[idempotent]
        pub async fn public() -> &'static str {
            "created"
        }

        #[actix_web::post("/7")]
        #[idempotent]
        pub(super) async fn above_as_a_service() -> &'static str {
            "created"
        }

        #[idempotent]
        #[actix_web::post("/8")]
        #[allow(unreachable_pub)] // The framework puts it into a function, with us or without.
        pub async fn public_service() -> &'static str {
            "created"
        }

        pub fn configure(config: &mut ServiceConfig) {
            config
                .route("/1", web::post().to(private))
                .route("/2", web::post().to(here));
        }
    }

    pub fn configure(config: &mut ServiceConfig) {
        inner::configure(config);
        config
            .route("/3", post().to(inner::above))
            .route("/4", post().to(inner::within))
            .service(inner::above_as_a_service);
    }
}

pub fn configure(config: &mut ServiceConfig) {
    outer::configure(config);
    config
        .route("/5", post().to(outer::inner::everywhere))
        .route("/6", post().to(outer::inner::public))
        .service(outer::inner::public_service);
}
