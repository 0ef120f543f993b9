//! Every lint that the expansion could meet.
#![deny(
    warnings,
    keyword_idents,
    let_underscore,
    nonstandard_style,
    refining_impl_trait,
    rust_2018_idioms,
    unused,
    ambiguous_negative_literals,
    closure_returning_async_block,
    deprecated_in_future,
    explicit_outlives_requirements,
    impl_trait_redundant_captures,
    meta_variable_misuse,
    missing_copy_implementations,
    missing_debug_implementations,
    missing_docs,
    redundant_imports,
    redundant_lifetimes,
    single_use_lifetimes,
    trivial_casts,
    trivial_numeric_casts,
    unit_bindings,
    unnameable_types,
    unreachable_pub,
    unused_import_braces,
    unused_lifetimes,
    unused_qualifications,
    unused_results,
    variant_size_differences,
    clippy::all,
    clippy::pedantic,
    clippy::nursery,
    clippy::exhaustive_structs
)]
#![allow(clippy::redundant_pub_crate)] // The opposite of `unreachable_pub`.
#![forbid(unsafe_code)]

mod payments {
    use actix_web::web::{Data, Json, Path};
    use actix_web::{HttpResponse, Responder, error::ErrorConflict};
    use idem_actix::idempotent;

    pub(crate) const TTL: std::time::Duration = std::time::Duration::from_mins(1);

    #[idempotent(scope = "tenant", ttl = TTL, lease = "10s", required, header = "X-Event-Id")]
    pub(crate) async fn create(
        app: Data<String>,
        id: Path<u32>,
        Json(mut items): Json<Vec<u32>>,
    ) -> actix_web::Result<Json<Vec<u32>>> {
        if app.is_empty() {
            return Err(ErrorConflict(app.to_string()));
        }
        items.push(*id);
        Ok(Json(items))
    }

    #[idempotent(
        scope = "endpoint",
        wait = "10s",
        on_lapse = "unknown",
        operation = "a.b"
    )]
    pub(crate) async fn update<T: Responder + Send + 'static>(_: Data<String>) -> HttpResponse
    where
        Data<T>: Clone,
    {
        HttpResponse::Ok().body("updated")
    }

    #[idempotent]
    pub(super) async fn remove() -> HttpResponse {
        HttpResponse::NoContent().finish()
    }
}

/// A handler that can be seen from outside.
#[idem_actix::idempotent(key_format = "uuid")]
pub async fn visible() -> &'static str {
    "seen"
}

/// Services that can be seen from outside.
pub mod services {
    // The framework's own, with us or without.
    #![allow(unreachable_pub, clippy::exhaustive_structs)]

    use actix_web::post;
    use actix_web::web::{Json, Payload};
    use idem_actix::idempotent;

    /// A service.
    #[post("/6")]
    #[idempotent]
    pub async fn create(items: Json<Vec<u32>>) -> Json<Vec<u32>> {
        items
    }

    #[idempotent(scope = "endpoint")]
    /// A service whose attributes all stand below.
    ///
    /// Its documentation too.
    #[post("/7")]
    pub async fn update(_: Payload) -> &'static str {
        "updated"
    }
}

/// A module that can be seen from outside.
pub mod refunds {
    /// A handler in it, with all that a signature may have.
    ///
    /// # Errors
    ///
    /// For anything that is no list of numbers.
    #[idem_actix::idempotent(ttl = super::payments::TTL)]
    pub async fn create(
        app: actix_web::web::Data<String>,
        items: actix_web::web::Json<Vec<u32>>,
    ) -> actix_web::Result<actix_web::web::Json<Vec<u32>>> {
        if app.is_empty() {
            Err(actix_web::error::ErrorConflict(app.to_string()))
        } else {
            Ok(items)
        }
    }
}

/// Everything above.
pub fn configure(config: &mut actix_web::web::ServiceConfig) {
    let _ = config
        .app_data(actix_web::web::Data::new("state".to_owned()))
        .route("/1/{id}", actix_web::web::post().to(payments::create))
        .route("/2", actix_web::web::post().to(payments::update::<String>))
        .route("/3", actix_web::web::post().to(payments::remove))
        .route("/4", actix_web::web::post().to(visible))
        .route("/5", actix_web::web::post().to(refunds::create))
        .service(services::create)
        .service(services::update);
}
