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
    use axum::extract::{Path, State};
    use axum::response::Response;
    use axum::{Json, response::IntoResponse};
    use idem_axum::idempotent;

    pub(crate) const TTL: std::time::Duration = std::time::Duration::from_mins(1);

    #[idempotent(scope = "tenant", ttl = TTL, lease = "10s", required, header = "X-Event-Id")]
    pub(crate) async fn create(
        State(app): State<String>,
        Path(id): Path<u32>,
        Json(mut items): Json<Vec<u32>>,
    ) -> Result<Json<Vec<u32>>, String> {
        if app.is_empty() {
            return Err(app);
        }
        items.push(id);
        Ok(Json(items))
    }

    #[idempotent(
        scope = "endpoint",
        wait = "10s",
        on_lapse = "unknown",
        operation = "a.b"
    )]
    pub(crate) async fn update<T: IntoResponse + Send + 'static>(_: State<String>) -> Response
    where
        State<T>: Send,
    {
        "updated".into_response()
    }

    #[idempotent]
    pub(super) async fn remove() {}
}

/// A handler that can be seen from outside.
#[idem_axum::idempotent(key_format = "uuid")]
pub async fn visible() {}

/// A module that can be seen from outside.
pub mod refunds {
    /// A handler in it, with all that a signature may have.
    ///
    /// # Errors
    ///
    /// For anything that is no list of numbers.
    #[idem_axum::idempotent(ttl = super::payments::TTL)]
    pub async fn create(
        axum::extract::State(app): axum::extract::State<String>,
        items: axum::Json<Vec<u32>>,
    ) -> Result<axum::Json<Vec<u32>>, String> {
        if app.is_empty() { Err(app) } else { Ok(items) }
    }
}

/// Everything above.
pub fn router() -> axum::Router {
    axum::Router::new()
        .route("/1/{id}", axum::routing::post(payments::create))
        .route("/2", axum::routing::post(payments::update::<String>))
        .route("/3", axum::routing::post(payments::remove))
        .route("/4", axum::routing::post(visible))
        .route("/5", axum::routing::post(refunds::create))
        .with_state("state".to_owned())
}
