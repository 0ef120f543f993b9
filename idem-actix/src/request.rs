//! Taking a request apart in the order that protects it: the handler's own extractors, and before
//! the first of them reads the body, the key and the caller.
//!
//! A request that fails authentication is refused before a byte of its body is read, and one that
//! fails validation makes no claim. Without a key the extractors run as they do without us.

use std::{
    fmt,
    future::Future,
    marker::PhantomData,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
};

use actix_web::{
    Error, FromRequest, HttpRequest, HttpResponse,
    dev::Payload,
    error::InternalError,
    http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue},
    web::Data,
};
use futures_util::future::{LocalBoxFuture, poll_fn};
use idem_core::{
    Caller, DEFAULT_PROBLEM_BASE, Fingerprint, NotConfigured, Rejection, RequestHead, Selection,
    engine::{Admission, Admitted, Keyed},
};
use pin_project_lite::pin_project;

use crate::{attempt, body::Body, install::Idempotency, response, runtime::Route};

/// What an `#[idempotent]` handler takes: its own arguments, and what is needed to claim.
pub struct Captured<A, R> {
    pub(crate) args: A,
    pub(crate) request: HttpRequest,
    pub(crate) protection: Option<Box<Protection>>,
    route: PhantomData<fn() -> R>,
}

/// A keyed request that waits for its claim.
pub(crate) struct Protection {
    pub(crate) idem: Idempotency,
    pub(crate) request: Keyed,
}

impl<A, R> fmt::Debug for Captured<A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protected = self.protection.is_some();
        f.debug_struct("Captured")
            .field("protected", &protected)
            .finish_non_exhaustive()
    }
}

/// The engine of this request.
fn installed<R: Route>(request: &HttpRequest) -> Result<Idempotency, Error> {
    let plain = request.app_data::<Idempotency>();
    let shared = || request.app_data::<Data<Idempotency>>();
    plain
        .or_else(|| shared().map(|data| &***data))
        .cloned()
        .ok_or_else(|| {
            let remedy = "add `.app_data(idem.clone())` to the `App` of this handler";
            let cause = NotConfigured::NoEngine { remedy };
            tracing::error!(handler = R::POLICY.name(), %cause, "rejected");
            let rejection = Rejection::NotConfigured;
            refusal(
                &rejection,
                response::restore(rejection.problem(DEFAULT_PROBLEM_BASE)),
            )
        })
}

/// Looks for the key.
fn admit<R: Route>(idem: &Idempotency, request: &HttpRequest) -> Admission {
    let engine = &idem.0.engine;
    // The macro has checked a name of the handler's own.
    let own = R::POLICY.own_header().map(HeaderName::from_static);
    let name = own.as_ref().or(idem.0.header.as_ref());
    let lines = name.map(|name| request.headers().get_all(name));
    let lines = lines.into_iter().flatten();
    engine.admit(
        R::POLICY,
        request.method().as_str(),
        || request.match_pattern(),
        lines.map(HeaderValue::as_bytes),
    )
}

/// An extractor's error that answers a refusal.
fn refusal(rejection: &Rejection, response: HttpResponse) -> Error {
    InternalError::from_response(rejection.code(), response).into()
}

/// A request whose extractors run before its claim.
struct Entrance<R> {
    idem: Idempotency,
    request: HttpRequest,
    admission: Result<Admitted, Rejection>,
    /// Named when the body is opened.
    caller: Option<Caller>,
    body: Body,
    route: PhantomData<fn() -> R>,
}

impl<R: Route> Entrance<R> {
    fn new(
        idem: Idempotency,
        admission: Result<Admitted, Rejection>,
        request: HttpRequest,
        payload: Payload,
    ) -> Self {
        Self {
            idem,
            request,
            admission,
            caller: None,
            body: Body::new(payload),
            route: PhantomData,
        }
    }

    /// Waits for an extractor, and lets it have the body when it asks for it.
    async fn extract<T, E: Into<Error>>(
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

    /// Lets the body be read, unless the request is refused for its key or its caller.
    fn open(&mut self) -> Result<(), Error> {
        if self.caller.is_none() {
            self.caller = Some(self.enter()?);
        }
        Ok(())
    }

    fn enter(&self) -> Result<Caller, Error> {
        if let Err(rejection) = &self.admission {
            return Err(self.refuse(rejection));
        }
        let caller = match self.idem.0.callers.resolve(R::POLICY, &self.request) {
            Ok(caller) => caller,
            Err(unresolved) => {
                let cause = unresolved.cause.as_ref().map(|cause| cause as _);
                return Err(self.reject(unresolved.rejection, cause));
            }
        };
        let limit = self.idem.0.engine.max_request_body(None);
        if declared(&self.request).is_some_and(|length| length > limit) {
            return Err(self.reject(Rejection::RequestTooLarge { limit: Some(limit) }, None));
        }
        self.body.open(limit);
        Ok(caller)
    }

    /// Reads what the extractors left of the body.
    async fn protect(mut self) -> Result<Box<Protection>, Error> {
        let caller = match self.caller.take() {
            Some(caller) => caller,
            None => self.enter()?,
        };
        let body = match self.body.read().await {
            Ok(body) => body,
            Err(rejection) => return Err(self.reject(rejection, None)),
        };
        let admitted = match self.admission {
            Ok(admitted) => admitted,
            Err(ref rejection) => return Err(self.refuse(rejection)),
        };
        let request = Keyed {
            admitted,
            caller,
            fingerprint: fingerprint(&self.request, &body),
            attempt: Some(attempt::slot(&self.request).0),
            selection: Selection::new(),
        };
        let idem = self.idem;
        Ok(Box::new(Protection { idem, request }))
    }

    /// Refuses, and tells the observers.
    fn reject(
        &self,
        rejection: Rejection,
        cause: Option<&(dyn std::error::Error + 'static)>,
    ) -> Error {
        let Ok(admitted) = &self.admission else {
            return self.refuse(&rejection);
        };
        let engine = &self.idem.0.engine;
        self.refuse(&engine.reject(admitted.operation(), rejection, cause))
    }

    fn refuse(&self, rejection: &Rejection) -> Error {
        refusal(rejection, self.idem.refuse(rejection, &self.request))
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

pin_project! {
    /// The extraction of a handler's arguments.
    #[project = CapturingProjection]
    #[allow(missing_debug_implementations)]
    pub enum Capturing<F, A, R> {
        /// As it is without us.
        Plain {
            #[pin]
            extraction: F,
            request: Option<HttpRequest>,
        },
        /// Under a key, or refused.
        Keyed {
            extraction: LocalBoxFuture<'static, Result<Captured<A, R>, Error>>,
        },
        /// There is no engine.
        Refused { error: Option<Error> },
    }
}

impl<F, E, A, R> Future for Capturing<F, A, R>
where
    F: Future<Output = Result<A, E>>,
    E: Into<Error>,
{
    type Output = Result<Captured<A, R>, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        const ONCE: &str = "a future is not polled after its end";
        Poll::Ready(match self.project() {
            CapturingProjection::Plain {
                extraction,
                request,
            } => ready!(extraction.poll(context))
                .map(|args| Captured {
                    args,
                    request: request.take().expect(ONCE),
                    protection: None,
                    route: PhantomData,
                })
                .map_err(Into::into),
            CapturingProjection::Keyed { extraction } => ready!(extraction.as_mut().poll(context)),
            CapturingProjection::Refused { error } => Err(error.take().expect(ONCE)),
        })
    }
}

/// One implementation for each number of arguments: before the last one the key and the caller
/// are looked at, unless one of the first reads the body.
macro_rules! captured {
    ($($first:ident $first_arg:ident),*; $($last:ident $last_arg:ident)?) => {
        impl<R: Route, $($first: FromRequest + 'static,)* $($last: FromRequest + 'static)?> FromRequest
            for Captured<($($first,)* $($last,)?), R>
        {
            type Error = Error;
            type Future = Capturing<
                <($($first,)* $($last,)?) as FromRequest>::Future,
                ($($first,)* $($last,)?),
                R,
            >;

            fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
                let idem = match installed::<R>(request) {
                    Ok(idem) => idem,
                    Err(error) => return Capturing::Refused { error: Some(error) },
                };
                let admission = match admit::<R>(&idem, request) {
                    Admission::Unprotected => return Capturing::Plain {
                        extraction: <($($first,)* $($last,)?)>::from_request(request, payload),
                        request: Some(request.clone()),
                    },
                    Admission::Keyed(admitted) => Ok(admitted),
                    Admission::Rejected(rejection) => Err(rejection),
                };
                let request = request.clone();
                let mut entrance =
                    Entrance::<R>::new(idem, admission, request.clone(), payload.take());
                let extraction = Box::pin(async move {
                    #[allow(unused_mut, unused_variables, reason = "not every handler has arguments")]
                    let mut payload = entrance.body.payload();
                    $(
                        let extraction = $first::from_request(&request, &mut payload);
                        let $first_arg = entrance.extract(extraction).await?;
                    )*
                    entrance.open()?;
                    $(
                        let extraction = $last::from_request(&request, &mut payload);
                        let $last_arg = entrance.extract(extraction).await?;
                    )?
                    let protection = Some(entrance.protect().await?);
                    let args = ($($first_arg,)* $($last_arg,)?);
                    Ok(Captured { args, request, protection, route: PhantomData })
                });
                Capturing::Keyed { extraction }
            }
        }
    };
}

captured!(;);
captured!(; T1 a1);
captured!(T1 a1; T2 a2);
captured!(T1 a1, T2 a2; T3 a3);
captured!(T1 a1, T2 a2, T3 a3; T4 a4);
captured!(T1 a1, T2 a2, T3 a3, T4 a4; T5 a5);
captured!(T1 a1, T2 a2, T3 a3, T4 a4, T5 a5; T6 a6);
captured!(T1 a1, T2 a2, T3 a3, T4 a4, T5 a5, T6 a6; T7 a7);
captured!(T1 a1, T2 a2, T3 a3, T4 a4, T5 a5, T6 a6, T7 a7; T8 a8);
captured!(T1 a1, T2 a2, T3 a3, T4 a4, T5 a5, T6 a6, T7 a7, T8 a8; T9 a9);
captured!(T1 a1, T2 a2, T3 a3, T4 a4, T5 a5, T6 a6, T7 a7, T8 a8, T9 a9; T10 a10);
captured!(T1 a1, T2 a2, T3 a3, T4 a4, T5 a5, T6 a6, T7 a7, T8 a8, T9 a9, T10 a10; T11 a11);
captured!(T1 a1, T2 a2, T3 a3, T4 a4, T5 a5, T6 a6, T7 a7, T8 a8, T9 a9, T10 a10, T11 a11; T12 a12);
captured!(T1 a1, T2 a2, T3 a3, T4 a4, T5 a5, T6 a6, T7 a7, T8 a8, T9 a9, T10 a10, T11 a11, T12 a12; T13 a13);
captured!(T1 a1, T2 a2, T3 a3, T4 a4, T5 a5, T6 a6, T7 a7, T8 a8, T9 a9, T10 a10, T11 a11, T12 a12, T13 a13; T14 a14);
captured!(T1 a1, T2 a2, T3 a3, T4 a4, T5 a5, T6 a6, T7 a7, T8 a8, T9 a9, T10 a10, T11 a11, T12 a12, T13 a13, T14 a14; T15 a15);
captured!(T1 a1, T2 a2, T3 a3, T4 a4, T5 a5, T6 a6, T7 a7, T8 a8, T9 a9, T10 a10, T11 a11, T12 a12, T13 a13, T14 a14, T15 a15; T16 a16);
