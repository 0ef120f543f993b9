//! Keeping a response and restoring it.

use axum::{
    body::{Body, HttpBody},
    response::Response,
};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, StatusCode,
    header::{CONTENT_LENGTH, CONTENT_TYPE},
    response::Parts,
};
use http_body_util::{BodyExt, Collected, Full};
use idem_core::{Engine, Outcome, Record, RecordBody, engine::Ran};

/// Reads what is to be stored of a handler's response, and gives it on as it was.
///
/// A body of known length within the limit is collected. Of any other the record says that it was
/// not kept, and it is sent as the handler made it.
pub(crate) async fn keep(engine: &Engine, response: Response) -> Ran<Response> {
    let (parts, body) = response.into_parts();
    let outcome = parts.extensions.get::<Outcome>().copied();
    let (kept, body) = if can_be_kept(engine, &parts, &body) {
        match body.collect().await {
            Ok(collected) => whole(collected),
            Err(error) => {
                tracing::warn!(%error, "response body broke off");
                (RecordBody::NotKept, broken(error))
            }
        }
    } else {
        (RecordBody::NotKept, body)
    };
    let record = engine.record(parts.status.as_u16(), lines(&parts.headers), kept);
    Ran {
        record,
        outcome,
        response: Response::from_parts(parts, body),
    }
}

fn can_be_kept(engine: &Engine, parts: &Parts, body: &Body) -> bool {
    let declared = || {
        parts
            .headers
            .get(CONTENT_LENGTH)?
            .to_str()
            .ok()?
            .parse()
            .ok()
    };
    let length: Option<u64> = body.size_hint().exact().or_else(declared);
    let endless = parts.headers.get(CONTENT_TYPE).is_some_and(|value| {
        value
            .as_bytes()
            .to_ascii_lowercase()
            .starts_with(b"text/event-stream")
    });
    let fits = length.is_some_and(|length| {
        usize::try_from(length).is_ok_and(|length| length <= engine.max_stored_body())
    });
    fits && !endless && !parts.status.is_informational()
}

/// A body that was read to its end, trailers included.
fn whole(collected: Collected<Bytes>) -> (RecordBody, Body) {
    let trailers = collected.trailers().cloned();
    let bytes = collected.to_bytes();
    let full = Full::new(bytes.clone());
    let body = match trailers {
        None => Body::new(full),
        Some(trailers) => Body::new(full.with_trailers(async { Some(Ok(trailers)) })),
    };
    (RecordBody::Kept(bytes), body)
}

/// A body that breaks off, as the handler's own did.
fn broken(error: axum::Error) -> Body {
    Body::from_stream(futures_util::stream::once(async { Err::<Bytes, _>(error) }))
}

fn lines(headers: &HeaderMap) -> impl Iterator<Item = (&str, &[u8])> {
    headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
}

/// Makes a response of a record.
pub(crate) fn restore(record: Record) -> Response {
    let body = match record.body {
        RecordBody::Kept(body) => Body::from(body),
        RecordBody::NotKept => Body::empty(),
    };
    let mut response = Response::new(body);
    if let Ok(status) = StatusCode::from_u16(record.status) {
        *response.status_mut() = status;
    }
    let headers = response.headers_mut();
    for (name, value) in record.headers {
        // Both were taken from a valid response, or come out of a record that was checked.
        if let (Ok(name), Ok(value)) = (
            HeaderName::from_bytes(&name),
            HeaderValue::from_maybe_shared(value),
        ) {
            headers.append(name, value);
        }
    }
    response
}

/// Marks a replay.
pub(crate) fn mark(engine: &Engine, response: &mut Response) {
    if let Ok(name) = HeaderName::try_from(engine.marker()) {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static("true"));
    }
}
