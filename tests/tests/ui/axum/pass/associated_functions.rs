//! Handlers in an `impl`, under every lint that their expansion could meet.
#![deny(
    warnings,
    nonstandard_style,
    unused,
    missing_debug_implementations,
    missing_docs,
    redundant_lifetimes,
    unit_bindings,
    unnameable_types,
    unreachable_pub,
    unused_qualifications,
    unused_results,
    clippy::all,
    clippy::pedantic,
    clippy::nursery,
    clippy::allow_attributes,
    clippy::exhaustive_structs
)]
#![allow(clippy::redundant_pub_crate)] // The opposite of `unreachable_pub`.
#![allow(clippy::unused_async)] // Reported of associated functions without the attribute too.

use std::time::Duration;

use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router, routing::post};
use idem_axum::idempotent;

const LEASE: Duration = Duration::from_secs(9);

struct Payments;

impl Payments {
    const MOST: usize = 9;

    const fn is_too_long(items: &[u32]) -> bool {
        items.len() > Self::MOST
    }

    #[idempotent(
        associated,
        scope = "tenant",
        ttl = "7d",
        lease = LEASE,
        wait = "15m",
        required = "any",
        key_format = "uuid",
        operation = "payments.create",
        on_lapse = "unknown",
        crate = "::idem_axum"
    )]
    async fn create(State(app): State<String>, Json(mut items): Json<Vec<u32>>) -> String {
        if Self::is_too_long(&items) {
            return app;
        }
        items.push(1);
        format!("{app}: {items:?}")
    }

    #[idempotent(associated, required)]
    async fn update(this: Self) -> Result<Self, Response> {
        Ok(this)
    }

    #[idempotent(associated)]
    #[tracing::instrument(skip_all, name = "remove")]
    async fn remove(_: State<String>, _: Json<Vec<u32>>) {}

    #[idempotent(associated)]
    #[expect(non_snake_case)]
    #[expect(clippy::too_many_arguments)]
    #[expect(unused_variables, clippy::many_single_char_names, reason = "as they come")]
    #[rustfmt::skip]
    async fn dealWith(a: Self, b: Self, c: Self, d: Self, e: Self, f: Self, g: Self, h: Self) {}

    #[idempotent(associated)]
    #[expect(dead_code)]
    async fn r#unused() {}

    #[idempotent(associated)]
    #[deprecated]
    async fn old() {}
}

impl FromRequestParts<String> for Payments {
    type Rejection = Response;

    async fn from_request_parts(_: &mut Parts, _: &String) -> Result<Self, Response> {
        Ok(Self)
    }
}

impl IntoResponse for Payments {
    fn into_response(self) -> Response {
        "updated".into_response()
    }
}

/// A type that can be seen from outside.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Refunds<T, const N: usize>(T);

impl<T: Default + Into<u32> + Send + 'static, const N: usize> Refunds<T, N> {
    /// A handler that can be seen from outside.
    ///
    /// # Errors
    ///
    /// For lists of another length.
    #[idempotent(associated, scope = "endpoint")]
    pub async fn create(Json(mut items): Json<Vec<u32>>) -> Result<Json<Vec<u32>>, String> {
        if items.len() != N {
            return Err("another length".to_owned());
        }
        items[0] += T::default().into();
        Ok(Json(items))
    }

    #[idempotent(associated)]
    pub(crate) async fn update<A: Default + IntoResponse + Send + 'static>(
        _: Json<Vec<u32>>,
    ) -> A
    where
        T: Clone,
    {
        A::default()
    }
}

/// Everything above.
#[expect(deprecated)]
pub fn router() -> Router {
    Router::new()
        .route("/1", post(Payments::create))
        .route("/2", post(Payments::update))
        .route("/3", post(Payments::remove))
        .route("/4", post(Payments::dealWith))
        .route("/5", post(Payments::old))
        .route("/6", post(Refunds::<u8, 2>::create))
        .route("/7", post(Refunds::<u8, 2>::update::<String>))
        .with_state("state".to_owned())
}
