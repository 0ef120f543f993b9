//! The body of a keyed request, which extractors read through a payload that keeps a copy.
//!
//! Nothing is read before the request may be claimed: a payload that is asked for its first bytes
//! says so and waits. What no extractor reads is read in the end, for the fingerprint.

use std::{
    cell::RefCell,
    fmt, mem,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker, ready},
};

use actix_web::{
    dev::Payload,
    error::PayloadError,
    web::{Bytes, BytesMut},
};
use futures_util::{Stream, future::poll_fn};
use idem_core::Rejection;

/// A body that is read once and can be said again.
pub(crate) struct Body(Rc<RefCell<Copied>>);

struct Copied {
    source: Payload,
    access: Access,
    limit: u64,
    length: u64,
    chunks: Vec<Bytes>,
    end: Option<End>,
    /// Why it broke off, for the first who reads so far.
    error: Option<PayloadError>,
}

/// Whether the source may be read.
enum Access {
    /// It may not; who can change that is told when somebody asks.
    Closed(Option<Waker>),
    /// It may not yet, and this one waits for it.
    Asked(Waker),
    Open,
}

/// How the source ended.
#[derive(Clone, Copy)]
enum End {
    Whole,
    Broken,
    TooLarge,
}

impl Body {
    pub(crate) fn new(source: Payload) -> Self {
        Self(Rc::new(RefCell::new(Copied {
            source,
            access: Access::Closed(None),
            limit: 0,
            length: 0,
            chunks: Vec::new(),
            end: None,
            error: None,
        })))
    }

    /// The payload for the extractors.
    pub(crate) fn payload(&self) -> Payload {
        let copy = Copy {
            body: Rc::clone(&self.0),
            next: 0,
        };
        Payload::Stream {
            payload: Box::pin(copy),
        }
    }

    /// Has this one told when somebody asks for the body.
    pub(crate) fn tell(&self, porter: &Waker) {
        if let Access::Closed(told) = &mut self.0.borrow_mut().access {
            *told = Some(porter.clone());
        }
    }

    /// Whether somebody waits for the body to be opened.
    pub(crate) fn is_asked_for(&self) -> bool {
        matches!(self.0.borrow().access, Access::Asked(_))
    }

    /// Lets at most `limit` bytes be read.
    pub(crate) fn open(&self, limit: u64) {
        let mut body = self.0.borrow_mut();
        body.limit = limit;
        let access = mem::replace(&mut body.access, Access::Open);
        drop(body);
        if let Access::Asked(waker) = access {
            waker.wake();
        }
    }

    /// The refusal of a body that broke off or was longer than the limit.
    pub(crate) fn refusal(&self) -> Option<Rejection> {
        let body = self.0.borrow();
        match body.end? {
            End::Whole => None,
            End::Broken => Some(Rejection::BodyIncomplete),
            End::TooLarge => Some(Rejection::RequestTooLarge {
                limit: Some(body.limit),
            }),
        }
    }

    /// Reads what nobody has read, and gives all of it.
    pub(crate) async fn read(&self) -> Result<Bytes, Rejection> {
        poll_fn(|context| {
            loop {
                let mut body = self.0.borrow_mut();
                if body.end.is_some() {
                    return Poll::Ready(());
                }
                ready!(body.poll_chunk(context));
            }
        })
        .await;
        match self.refusal() {
            None => Ok(self.0.borrow().whole()),
            Some(rejection) => Err(rejection),
        }
    }
}

impl Copied {
    /// Reads the next chunk, or learns how the source ends.
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let chunk = match &mut self.access {
            Access::Open => ready!(Pin::new(&mut self.source).poll_next(context)),
            access => {
                let asked = Access::Asked(context.waker().clone());
                if let Access::Closed(Some(porter)) = mem::replace(access, asked) {
                    porter.wake();
                }
                return Poll::Pending;
            }
        };
        match chunk {
            Some(Ok(chunk)) => {
                self.length += chunk.len() as u64;
                if self.length <= self.limit {
                    self.chunks.push(chunk);
                } else {
                    self.chunks.clear();
                    self.end = Some(End::TooLarge);
                }
            }
            Some(Err(error)) => {
                tracing::debug!(%error, "request body broke off");
                self.error = Some(error);
                self.end = Some(End::Broken);
            }
            None => self.end = Some(End::Whole),
        }
        Poll::Ready(())
    }

    /// All that was read, in one piece.
    fn whole(&self) -> Bytes {
        match &self.chunks[..] {
            [] => Bytes::new(),
            [whole] => whole.clone(),
            chunks => {
                let mut whole = BytesMut::new();
                whole.extend(chunks.iter().flatten());
                whole.freeze()
            }
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").finish_non_exhaustive()
    }
}

/// A payload that says the body from its beginning.
struct Copy {
    body: Rc<RefCell<Copied>>,
    next: usize,
}

impl Stream for Copy {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, PayloadError>>> {
        let this = &mut *self;
        let mut body = this.body.borrow_mut();
        loop {
            if let Some(chunk) = body.chunks.get(this.next) {
                this.next += 1;
                return Poll::Ready(Some(Ok(chunk.clone())));
            }
            match body.end {
                Some(End::Whole) => return Poll::Ready(None),
                Some(End::Broken) => {
                    let error = body.error.take();
                    let error = error.unwrap_or(PayloadError::Incomplete(None));
                    return Poll::Ready(Some(Err(error)));
                }
                Some(End::TooLarge) => return Poll::Ready(Some(Err(PayloadError::Overflow))),
                None => ready!(body.poll_chunk(context)),
            }
        }
    }
}
