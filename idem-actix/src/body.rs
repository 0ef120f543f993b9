//! The body of a keyed request, which extractors read through a payload that keeps a copy.
//!
//! Nothing is read before the request may be claimed: a payload that is asked for its first bytes
//! says so and waits. What no extractor reads is read in the end, for the fingerprint.

use std::{
    cell::RefCell,
    mem,
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

/// Shorter chunks are put together: each alone would cost more than it holds.
const SHORT: usize = 4096;

/// A body that is read once and can be said again.
pub(crate) struct Body(Rc<RefCell<Copied>>);

struct Copied {
    source: Payload,
    access: Access,
    limit: u64,
    length: u64,
    chunks: Vec<Bytes>,
    /// Short chunks after the last one.
    tail: BytesMut,
    end: Option<End>,
    /// Why it broke off, for the first who reads so far.
    error: Option<PayloadError>,
    /// All that wait for the source, which knows the last of them.
    waiting: Vec<Waker>,
}

/// Whether the source may be read.
enum Access {
    /// It may not; who can change that is told when somebody asks.
    Closed(Option<Waker>),
    /// It may not yet, and somebody waits for it.
    Asked,
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
            tail: BytesMut::new(),
            end: None,
            error: None,
            waiting: Vec::new(),
        })))
    }

    /// The payload for the extractors.
    pub(crate) fn payload(&self) -> Payload {
        let copy = Copy {
            body: Rc::clone(&self.0),
            chunk: 0,
            offset: 0,
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
        matches!(self.0.borrow().access, Access::Asked)
    }

    /// Lets at most `limit` bytes be read.
    pub(crate) fn open(&self, limit: u64) {
        let mut body = self.0.borrow_mut();
        body.limit = limit;
        body.access = Access::Open;
        let waiting = mem::take(&mut body.waiting);
        drop(body);
        waiting.into_iter().for_each(Waker::wake);
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

    /// Reads what nobody has read, up to `limit` bytes in all, and gives the whole body; one that was read
    /// already may be longer. `declared` is the length that it is said to have.
    pub(crate) async fn read(&self, limit: u64, declared: Option<u64>) -> Result<Bytes, Rejection> {
        {
            let mut body = self.0.borrow_mut();
            if body.end.is_none() {
                body.limit = body.limit.min(limit);
                if body.length.max(declared.unwrap_or_default()) > body.limit {
                    body.end = Some(End::TooLarge);
                }
            }
        }
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
        let polled = match &mut self.access {
            Access::Open => Pin::new(&mut self.source).poll_next(context),
            access => {
                if let Access::Closed(Some(porter)) = mem::replace(access, Access::Asked) {
                    porter.wake();
                }
                Poll::Pending
            }
        };
        let Poll::Ready(chunk) = polled else {
            let waker = context.waker();
            if !self.waiting.iter().any(|waiting| waiting.will_wake(waker)) {
                self.waiting.push(waker.clone());
            }
            return Poll::Pending;
        };
        match chunk {
            Some(Ok(chunk)) => {
                self.length += chunk.len() as u64;
                if self.length <= self.limit {
                    self.keep(chunk);
                } else {
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
        self.waiting.drain(..).for_each(Waker::wake);
        Poll::Ready(())
    }

    fn keep(&mut self, chunk: Bytes) {
        if chunk.len() < SHORT {
            self.tail.extend_from_slice(&chunk);
            if self.tail.len() >= SHORT {
                self.close_tail();
            }
        } else {
            self.close_tail();
            self.chunks.push(chunk);
        }
    }

    fn close_tail(&mut self) {
        if !self.tail.is_empty() {
            let tail = self.tail.split().freeze();
            self.chunks.push(tail);
        }
    }

    /// All that was read, in one piece.
    fn whole(&self) -> Bytes {
        match &self.chunks[..] {
            [whole] if self.tail.is_empty() => whole.clone(),
            chunks => {
                let mut whole = BytesMut::new();
                whole.extend(chunks.iter().flatten());
                whole.extend_from_slice(&self.tail);
                whole.freeze()
            }
        }
    }
}

/// A payload that says the body from its beginning.
struct Copy {
    body: Rc<RefCell<Copied>>,
    chunk: usize,
    /// How much of that chunk, or of the tail after the last one, was said.
    offset: usize,
}

impl Copy {
    /// What was read and not said yet.
    fn next(&mut self, body: &Copied) -> Option<Bytes> {
        while let Some(chunk) = body.chunks.get(self.chunk) {
            let rest = chunk.slice(self.offset..);
            self.chunk += 1;
            self.offset = 0;
            if !rest.is_empty() {
                return Some(rest);
            }
        }
        let rest = &body.tail[self.offset..];
        self.offset = body.tail.len();
        (!rest.is_empty()).then(|| Bytes::copy_from_slice(rest))
    }
}

impl Stream for Copy {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, PayloadError>>> {
        let body = Rc::clone(&self.body);
        let mut body = body.borrow_mut();
        loop {
            if let Some(bytes) = self.next(&body) {
                return Poll::Ready(Some(Ok(bytes)));
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

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use futures_util::{StreamExt, TryStreamExt, stream, task::ArcWake};
    use tokio::sync::mpsc;

    use super::*;

    const LONG: &[u8] = &[b'x'; SHORT];

    type Sender = mpsc::UnboundedSender<Result<Bytes, PayloadError>>;

    fn body() -> (Sender, Body) {
        let (sender, mut source) = mpsc::unbounded_channel();
        let payload = Box::pin(stream::poll_fn(move |context| source.poll_recv(context)));
        (sender, Body::new(Payload::Stream { payload }))
    }

    fn send(sender: &Sender, bytes: &'static [u8]) {
        let sent = sender.send(Ok(Bytes::from_static(bytes)));
        sent.expect("it is read");
    }

    #[actix_web::test]
    async fn chunks_are_said_again_in_order_however_short_they_are() {
        let (sender, body) = body();
        let mut early = body.payload();
        body.open(u64::MAX);
        let mut said = Vec::new();
        for chunk in [b"a", &b""[..], LONG, b"bc", b"", b"d"] {
            send(&sender, chunk);
            if !chunk.is_empty() {
                said.extend(early.next().await.expect("more").expect("no error"));
            }
        }
        drop(sender);
        let whole = [b"a", LONG, b"bcd"].concat();
        assert_eq!(body.read(u64::MAX, None).await.expect("whole"), whole);
        assert_eq!(said, whole);
        let again: Vec<Bytes> = body.payload().try_collect().await.expect("no error");
        assert_eq!(again.concat(), whole);
    }

    #[actix_web::test]
    async fn a_chunk_costs_no_more_than_it_holds() {
        let (sender, body) = body();
        for _ in 0..100_000 {
            send(&sender, b"");
            send(&sender, b"x");
        }
        drop(sender);
        body.open(u64::MAX);
        assert_eq!(
            body.read(u64::MAX, None).await.expect("whole").len(),
            100_000
        );
        let body = body.0.borrow();
        assert!(
            body.chunks.len() <= 100_000 / SHORT + 1,
            "{}",
            body.chunks.len()
        );
    }

    #[actix_web::test]
    async fn a_limit_of_ours_holds_for_what_nobody_has_read() {
        let (sender, read) = body();
        send(&sender, b"abcd");
        drop(sender);
        read.open(u64::MAX);
        let mut extractor = read.payload();
        while extractor.next().await.is_some() {}
        assert_eq!(read.read(3, Some(4)).await.expect("whole"), "abcd");

        let too_large = Some(Rejection::RequestTooLarge { limit: Some(3) });
        for declared in [None, Some(4)] {
            let (sender, unread) = body();
            if declared.is_none() {
                send(&sender, b"abcd");
            }
            unread.open(u64::MAX);
            assert_eq!(unread.read(3, declared).await.err(), too_large);
        }
    }

    /// Counts how often it was woken.
    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl ArcWake for Woken {
        fn wake_by_ref(this: &Arc<Self>) {
            this.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn everybody_who_waits_is_woken() {
        let (sender, body) = body();
        let tasks = [Arc::new(Woken::default()), Arc::new(Woken::default())];
        let woken = || tasks.each_ref().map(|task| task.0.load(Ordering::Relaxed));
        let mut payload = body.payload();
        let mut poll = |task: &Arc<Woken>| {
            let waker = futures_util::task::waker(Arc::clone(task));
            Pin::new(&mut payload).poll_next(&mut Context::from_waker(&waker))
        };
        assert!(tasks.iter().all(|task| poll(task).is_pending()));
        assert!(body.is_asked_for());
        body.open(u64::MAX);
        assert_eq!(woken(), [1, 1]);
        assert!(tasks.iter().all(|task| poll(task).is_pending()));
        send(&sender, b"a");
        // The source knows the last one, which wakes the other when it has read.
        assert!(poll(&tasks[1]).is_ready());
        assert!(woken()[0] >= 2, "{:?}", woken());
    }
}
