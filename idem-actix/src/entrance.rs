//! The way of a keyed request through its extractors.
//!
//! actix-web hands the payload to each of them, so who reads the body shows only when it is asked
//! for. Key and caller are looked at before that, if they can be.

use std::{future::Future, pin::pin, task::Poll};

use actix_web::{
    Error, HttpRequest,
    dev::Payload,
    http::header::{CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING},
};
use futures_util::future::poll_fn;
use idem_core::{
    Caller, Fingerprint, NotConfigured, Policy, Rejection, RequestHead, Selection,
    engine::{Admitted, Keyed},
};

use crate::{
    attempt,
    body::Body,
    deferred::{self, Deferred, Digest},
    install::Idempotency,
    request::{self, Held, Protection, admit, caller, refuse},
};

/// A request whose extractors run before its claim.
pub(crate) struct Entrance {
    idem: Idempotency,
    request: HttpRequest,
    key: Key,
    /// As soon as there is one to be named.
    caller: Option<Caller>,
    is_open: bool,
    /// There was a body, and it is gone.
    is_taken: bool,
    pub(crate) body: Body,
}

/// What is known of the key.
pub(crate) enum Key {
    /// It is valid under the policy.
    Admitted(&'static Policy, Admitted),
    /// It is refused, when the extractors before have had their say.
    Refused(Rejection),
    /// There may be one: what the policy says is looked at later.
    Unknown,
}

impl Key {
    /// `None` if the extractors run as they do without us.
    pub(crate) fn of(
        idem: &Idempotency,
        policy: Option<&'static Policy>,
        request: &HttpRequest,
    ) -> Option<Self> {
        match policy {
            Some(policy) => match admit(idem, policy, request).transpose()? {
                Ok(admitted) => Some(Self::Admitted(policy, admitted)),
                Err(rejection) => Some(Self::Refused(rejection)),
            },
            None => deferred::may_be_keyed(idem, request).then_some(Self::Unknown),
        }
    }
}

impl Entrance {
    pub(crate) fn new(idem: Idempotency, key: Key, request: HttpRequest, payload: Payload) -> Self {
        let is_taken = matches!(payload, Payload::None) && has_body(&request);
        Self {
            idem,
            request,
            key,
            caller: None,
            is_open: false,
            is_taken,
            body: Body::new(payload),
        }
    }

    /// Waits for an extractor, and lets it have the body when it asks for it.
    pub(crate) async fn extract<T, E: Into<Error>>(
        &mut self,
        extraction: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Error> {
        let mut extraction = pin!(extraction);
        poll_fn(|context| {
            self.body.tell(context.waker());
            loop {
                match extraction.as_mut().poll(context) {
                    Poll::Ready(Ok(argument)) => return Poll::Ready(Ok(argument)),
                    // What was wrong with the body goes before what the extractor made of it.
                    Poll::Ready(Err(error)) => {
                        return Poll::Ready(Err(match self.body.refusal() {
                            Some(rejection) => self.reject(rejection, None),
                            None => error.into(),
                        }));
                    }
                    Poll::Pending if self.body.is_asked_for() => self.open()?,
                    Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await
    }

    /// Names the caller and lets the body be read, unless the request is refused for its key or its
    /// caller. Where an argument has read the body already, those that name the caller may be still to
    /// come.
    pub(crate) fn enter(&mut self) -> Result<(), Error> {
        if !self.is_open {
            self.check_key()?;
            self.name_caller()?;
        }
        self.open()
    }

    /// Lets the body be read, unless the request is refused for its key.
    fn open(&mut self) -> Result<(), Error> {
        if self.is_open {
            return Ok(());
        }
        self.check_key()?;
        // Each extractor has a limit of its own, which the application may have set.
        let limit = self.idem.0.engine.max_request_body(Some(u64::MAX));
        if declared(&self.request).is_some_and(|length| length > limit) {
            return Err(self.reject(Rejection::RequestTooLarge { limit: Some(limit) }, None));
        }
        self.body.open(limit);
        self.is_open = true;
        Ok(())
    }

    fn check_key(&self) -> Result<(), Error> {
        match &self.key {
            Key::Refused(rejection) => Err(refuse(&self.idem, rejection, &self.request)),
            Key::Admitted(..) | Key::Unknown => Ok(()),
        }
    }

    fn name_caller(&mut self) -> Result<(), Error> {
        if let (Key::Admitted(policy, admitted), None) = (&self.key, &self.caller) {
            self.caller = Some(caller(&self.idem, policy, admitted, &self.request)?);
        }
        Ok(())
    }

    /// Reads what the extractors left of the body.
    pub(crate) async fn finish(mut self) -> Result<Held, Error> {
        self.name_caller()?;
        if self.is_taken {
            return Err(self.reject(Rejection::NotConfigured, Some(&NotConfigured::NoBody)));
        }
        let limit = self.idem.0.engine.max_request_body(None);
        let body = match self.body.read(limit, declared(&self.request)).await {
            Ok(body) => body,
            Err(rejection) => return Err(self.reject(rejection, None)),
        };
        let fingerprint = fingerprint(&self.request, &body);
        let attempt = attempt::slot(&self.request).0;
        let idem = self.idem;
        let (Key::Admitted(_, admitted), Some(caller)) = (self.key, self.caller) else {
            let digest = Some(Box::new(Digest {
                fingerprint,
                attempt,
            }));
            return Ok(Held::Deferred(Deferred { idem, digest }));
        };
        let request = Keyed {
            admitted,
            caller,
            fingerprint,
            attempt: Some(attempt),
            selection: Selection::new(),
        };
        Ok(Held::Keyed(Box::new(Protection { idem, request })))
    }

    /// Refuses, and tells the observers.
    fn reject(
        &self,
        rejection: Rejection,
        cause: Option<&(dyn std::error::Error + 'static)>,
    ) -> Error {
        let engine = &self.idem.0.engine;
        let route;
        let operation = if let Key::Admitted(_, admitted) = &self.key {
            admitted.operation()
        } else {
            route = request::route(&self.request);
            deferred::operation(&self.request, route.as_deref())
        };
        let rejection = engine.reject(operation, rejection, cause);
        refuse(&self.idem, &rejection, &self.request)
    }
}

/// Digests the request as it was received.
fn fingerprint(request: &HttpRequest, body: &[u8]) -> Fingerprint {
    let uri = request.uri();
    let head = RequestHead::new(request.method().as_str(), uri.path()).with_query(uri.query());
    match request.headers().get(CONTENT_TYPE) {
        Some(value) => Fingerprint::of(&head.with_content_type(value.as_bytes()), body),
        None => Fingerprint::of(&head, body),
    }
}

/// The length that the request says its body has.
fn declared(request: &HttpRequest) -> Option<u64> {
    let length = request.headers().get(CONTENT_LENGTH)?;
    length.to_str().ok()?.parse().ok()
}

/// Whether the request says that it has a body. Over HTTP/2 one without a length does not.
fn has_body(request: &HttpRequest) -> bool {
    declared(request).is_some_and(|length| length > 0)
        || request.headers().contains_key(TRANSFER_ENCODING)
}
