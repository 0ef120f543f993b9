//! The body of a keyed request, which is read as a whole, within the limit that the framework has
//! for it, and said again to the last extractor.

use std::{convert::Infallible, error::Error, mem};

use axum::{
    RequestExt,
    body::{Body, HttpBody},
    extract::Request,
};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, request::Parts};
use http_body_util::{BodyExt, Collected, Full, LengthLimitError, Limited};
use idem_core::Rejection;

/// Reads a body of at most `limit` bytes.
pub(crate) async fn read(body: Body, limit: u64) -> Result<Collected<Bytes>, Rejection> {
    let length = body.size_hint();
    // A layer outside may have put a lower limit on it: then that is the one to name.
    let named = length.upper().map_or(limit, |outer| outer.min(limit));
    let too_large = Rejection::RequestTooLarge { limit: Some(named) };
    if length.lower() > limit {
        return Err(too_large);
    }
    // A limit beyond what memory can address is none.
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Ok(collected),
        Err(error) if is_too_large(&*error) => Err(too_large),
        Err(error) => {
            tracing::debug!(%error, "request body broke off");
            Err(Rejection::BodyIncomplete)
        }
    }
}

/// The body that was read, for the last extractor.
pub(crate) fn again(bytes: Bytes, trailers: Option<HeaderMap>) -> Body {
    match trailers {
        None => Body::from(bytes),
        Some(trailers) => Body::new(Full::new(bytes).with_trailers(async { Some(Ok(trailers)) })),
    }
}

/// Whether a limit cut the body off: ours, or one of a layer outside.
fn is_too_large(error: &(dyn Error + 'static)) -> bool {
    error.is::<LengthLimitError>() || error.source().is_some_and(is_too_large)
}

/// The limit that axum puts on the bodies of this route. It shows only in what it does to a body,
/// so we give it one of unknown length and read the upper bound.
pub(crate) fn framework_limit(parts: &mut Parts) -> Option<u64> {
    let unknown = stream::empty::<Result<Bytes, Infallible>>();
    let mut probe = Request::new(Body::from_stream(unknown));
    mem::swap(probe.extensions_mut(), &mut parts.extensions);
    let (probed, body) = probe.with_limited_body().into_parts();
    parts.extensions = probed.extensions;
    body.size_hint().upper()
}
