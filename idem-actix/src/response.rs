//! Keeping a response and restoring it.

use std::{
    collections::VecDeque,
    error::Error,
    pin::Pin,
    task::{Context, Poll},
};

use actix_web::{
    HttpRequest, HttpResponse, Responder,
    body::{self, BodySize, BoxBody, MessageBody},
    dev::ResponseHead,
    http::{
        StatusCode,
        header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
    },
};
use bytes::Bytes;
use futures_util::future::poll_fn;
use idem_core::{Engine, Outcome, Record, RecordBody, engine::Ran};

/// Says with an answer what it is worth, since most responders carry no extensions.
///
/// # Examples
/// ```
/// use actix_web::{HttpResponse, Responder, post, web::Json};
/// use idem_actix::{Outcome, OutcomeExt, idempotent};
///
/// #[post("/orders")]
/// #[idempotent]
/// async fn create_order(stock: Json<u32>) -> impl Responder {
///     if *stock == 0 {
///         // A retry may find some: it runs the handler again.
///         return Outcome::Release.with(HttpResponse::Conflict().body("out of stock"));
///     }
///     Outcome::Keep.with(HttpResponse::Created().json(*stock - 1))
/// }
/// # let _ = actix_web::App::new().service(create_order);
/// ```
pub trait OutcomeExt {
    /// The answer, worth this.
    fn with<R: Responder>(self, responder: R) -> WithOutcome<R>;
}

impl OutcomeExt for Outcome {
    fn with<R: Responder>(self, responder: R) -> WithOutcome<R> {
        let outcome = self;
        WithOutcome { outcome, responder }
    }
}

/// An answer, and what it is worth. [`OutcomeExt`] makes it.
#[derive(Debug, Clone)]
pub struct WithOutcome<R> {
    outcome: Outcome,
    responder: R,
}

impl<R: Responder> Responder for WithOutcome<R> {
    type Body = R::Body;

    fn respond_to(self, request: &HttpRequest) -> HttpResponse<R::Body> {
        let mut response = self.responder.respond_to(request);
        response.extensions_mut().insert(self.outcome);
        response
    }
}

/// Reads what is to be stored of a handler's response, and gives it on as it was.
///
/// A body of known length within the limit is read first. Of any other the record says that it was
/// not kept, and it is sent as the handler made it.
pub(crate) async fn keep(engine: &Engine, response: HttpResponse) -> Ran<HttpResponse> {
    let (response, body) = response.into_parts();
    let outcome = response.extensions().get::<Outcome>().copied();
    let status = response.status().as_u16();
    let media_type = response
        .headers()
        .get(CONTENT_TYPE)
        .map_or(&b""[..], HeaderValue::as_bytes);
    let length = length(response.head(), &body);
    let (kept, body) = match engine.keeps(status, media_type, length) {
        Some(length) => read(body, length).await,
        None => (RecordBody::NotKept, body),
    };
    let record = engine.record(status, lines(response.headers()), kept);
    Ran {
        record,
        outcome,
        response: response.set_body(body),
    }
}

/// The length of a body: its own, or the declared one.
fn length(head: &ResponseHead, body: &BoxBody) -> Option<u64> {
    match body.size() {
        BodySize::None => Some(0),
        BodySize::Sized(length) => Some(length),
        BodySize::Stream => {
            let length = head.headers().get(CONTENT_LENGTH)?;
            length.to_str().ok()?.parse().ok()
        }
    }
}

/// Reads the first `length` bytes of a body, and gives it on as it was.
///
/// There an answer ends, whatever the body would still say: a declared length ends it on the wire
/// too. A body that is shorter was broken off, and is not kept.
async fn read(body: BoxBody, length: usize) -> (RecordBody, BoxBody) {
    let size = body.size();
    let mut body = match body.try_into_bytes() {
        // All of it at once, as almost every answer is.
        Ok(bytes) => {
            let body = match size {
                BodySize::None => BoxBody::new(body::None::new()),
                _ => BoxBody::new(bytes.clone()),
            };
            return (RecordBody::Kept(bytes), body);
        }
        Err(body) => body,
    };
    let mut read = VecDeque::new();
    let mut data: Vec<Bytes> = Vec::new();
    let mut left = length;
    while left > 0 {
        match poll_fn(|context| body.as_pin_mut().poll_next(context)).await {
            Some(Ok(bytes)) => {
                if bytes.is_empty() {
                    continue;
                }
                let bytes = bytes.slice(..left.min(bytes.len()));
                left -= bytes.len();
                data.push(bytes.clone());
                read.push_back(Ok(bytes));
            }
            Some(Err(error)) => {
                tracing::warn!(%error, "response body broke off");
                read.push_back(Err(error));
                break;
            }
            None => {
                tracing::warn!("response body is shorter than its length");
                body = BoxBody::new(());
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
    (kept, BoxBody::new(Reread { size, read, rest }))
}

/// A body whose beginning was read: it says all of it again.
struct Reread {
    size: BodySize,
    read: VecDeque<Result<Bytes, Box<dyn Error>>>,
    rest: BoxBody,
}

impl MessageBody for Reread {
    type Error = Box<dyn Error>;

    fn size(&self) -> BodySize {
        self.size
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Box<dyn Error>>>> {
        match self.read.pop_front() {
            Some(bytes) => Poll::Ready(Some(bytes)),
            None => self.rest.as_pin_mut().poll_next(context),
        }
    }
}

fn lines(headers: &HeaderMap) -> impl Iterator<Item = (&str, &[u8])> {
    headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
}

/// Makes a response of a record.
pub(crate) fn restore(record: Record) -> HttpResponse {
    let body = match record.body {
        RecordBody::Kept(body) if !body.is_empty() => BoxBody::new(body),
        RecordBody::Kept(_) if is_bodiless(record.status) => BoxBody::new(body::None::new()),
        RecordBody::Kept(_) | RecordBody::NotKept => BoxBody::new(()),
    };
    let status = StatusCode::from_u16(record.status).unwrap_or(StatusCode::OK);
    let mut response = HttpResponse::with_body(status, body);
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

/// Whether a response of this status has no body, not even an empty one.
fn is_bodiless(status: u16) -> bool {
    matches!(status, 204 | 304)
}

/// Marks a replay.
pub(crate) fn mark(engine: &Engine, response: &mut HttpResponse) {
    if let Ok(name) = HeaderName::try_from(engine.marker()) {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static("true"));
    }
}
