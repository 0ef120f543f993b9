//! Keeping a response and restoring it.

use std::{
    collections::VecDeque,
    pin::Pin,
    task::{Context, Poll},
};

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
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use idem_core::{Engine, Outcome, Record, RecordBody, engine::Ran};

/// Reads what is to be stored of a handler's response, and gives it on as it was.
///
/// A body of known length within the limit is read first. Of any other the record says that it was
/// not kept, and it is sent as the handler made it.
pub(crate) async fn keep(engine: &Engine, response: Response) -> Ran<Response> {
    let (parts, body) = response.into_parts();
    let outcome = parts.extensions.get::<Outcome>().copied();
    let media_type = parts
        .headers
        .get(CONTENT_TYPE)
        .map_or(&b""[..], HeaderValue::as_bytes);
    let length = length(&parts, &body);
    let (kept, body) = match engine.keeps(parts.status.as_u16(), media_type, length) {
        Some(length) => read(body, length).await,
        None => (RecordBody::NotKept, body),
    };
    let record = engine.record(parts.status.as_u16(), lines(&parts.headers), kept);
    Ran {
        record,
        outcome,
        response: Response::from_parts(parts, body),
    }
}

/// The length of a body: its own, or the declared one.
fn length(parts: &Parts, body: &Body) -> Option<u64> {
    let declared = || {
        let length = parts.headers.get(CONTENT_LENGTH)?;
        length.to_str().ok()?.parse().ok()
    };
    body.size_hint().exact().or_else(declared)
}

/// Reads the first `length` bytes of a body, and gives it on as it was.
///
/// There an answer ends, whatever the body would still say: a declared length ends it on the wire
/// too. A body that is shorter was broken off, and is not kept.
async fn read(mut body: Body, length: usize) -> (RecordBody, Body) {
    let mut read = VecDeque::new();
    let mut data: Vec<Bytes> = Vec::new();
    let mut left = length;
    while left > 0 {
        match body.frame().await {
            Some(Ok(frame)) => {
                if let Some(bytes) = frame.data_ref() {
                    if bytes.len() == length && body.is_end_stream() {
                        // All of it at once, as almost every answer is.
                        return (RecordBody::Kept(bytes.clone()), Body::from(bytes.clone()));
                    }
                    if bytes.is_empty() {
                        continue;
                    }
                    let bytes = bytes.slice(..left.min(bytes.len()));
                    left -= bytes.len();
                    data.push(bytes);
                }
                read.push_back(Ok(frame));
            }
            Some(Err(error)) => {
                tracing::warn!(%error, "response body broke off");
                read.push_back(Err(error));
                break;
            }
            None => {
                tracing::warn!("response body is shorter than its length");
                body = Body::empty();
                break;
            }
        }
    }
    let kept = match &data[..] {
        _ if left > 0 => RecordBody::NotKept,
        [whole] => RecordBody::Kept(whole.clone()),
        pieces => RecordBody::Kept(pieces.concat().into()),
    };
    let rest = body;
    (kept, Body::new(Reread { read, rest }))
}

/// A body whose beginning was read: it says all of it again.
struct Reread {
    read: VecDeque<Result<Frame<Bytes>, axum::Error>>,
    rest: Body,
}

impl HttpBody for Reread {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match self.read.pop_front() {
            Some(frame) => Poll::Ready(Some(frame)),
            None => Pin::new(&mut self.rest).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.read.is_empty() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let data = self.read.iter().flatten().filter_map(Frame::data_ref);
        let read: u64 = data.map(|bytes| bytes.len() as u64).sum();
        let rest = self.rest.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(read + rest.lower());
        if let Some(upper) = rest.upper() {
            hint.set_upper(read + upper);
        }
        hint
    }
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
            // A record has no more lines than a response can have.
            let _ = headers.try_append(name, value);
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
