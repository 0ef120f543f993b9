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
    let name = engine.header(R::POLICY);
    let lines = HeaderName::try_from(name)
        .map(|name| request.headers().get_all(name))
        .into_iter()
        .flatten();
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
    body: Body,
    /// Until the body is opened.
    admission: Option<Result<Admitted, Rejection>>,
    /// From then on.
    entered: Option<(Admitted, Caller)>,
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
            body: Body::new(payload),
            admission: Some(admission),
            entered: None,
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
                    Poll::Ready(Err(error)) => {
                        return Poll::Ready(Err(self.excess().unwrap_or_else(|| error.into())));
                    }
                    Poll::Pending if self.body.is_asked_for() => self.open()?,
                    Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await
    }

    /// Names the caller, unless the request is refused, and lets the body be read.
    fn open(&mut self) -> Result<(), Error> {
        let admitted = match self.admission.take() {
            None => return Ok(()),
            Some(Ok(admitted)) => admitted,
            Some(Err(rejection)) => {
                let response = self.idem.refuse(&rejection, &self.request);
                return Err(refusal(&rejection, response));
            }
        };
        let caller = match self.idem.0.callers.resolve(R::POLICY, &self.request) {
            Ok(caller) => caller,
            Err(unresolved) => {
                let cause = unresolved.cause.as_ref().map(|cause| cause as _);
                return Err(self.reject(&admitted, unresolved.rejection, cause));
            }
        };
        let limit = self.idem.0.engine.max_request_body(None);
        if declared(&self.request).is_some_and(|length| length > limit) {
            let rejection = Rejection::RequestTooLarge { limit: Some(limit) };
            return Err(self.reject(&admitted, rejection, None));
        }
        self.entered = Some((admitted, caller));
        self.body.open(limit);
        Ok(())
    }

    fn reject(
        &self,
        admitted: &Admitted,
        rejection: Rejection,
        cause: Option<&(dyn std::error::Error + 'static)>,
    ) -> Error {
        let operation = admitted.operation();
        let rejection = self.idem.0.engine.reject(operation, rejection, cause);
        refusal(&rejection, self.idem.refuse(&rejection, &self.request))
    }

    /// The refusal of a body that was longer than our limit: it goes before what the extractor
    /// made of that.
    fn excess(&self) -> Option<Error> {
        let (admitted, _) = self.entered.as_ref()?;
        Some(self.reject(admitted, self.body.excess()?, None))
    }

    /// Reads what the extractors left of the body.
    async fn protect(mut self) -> Result<Box<Protection>, Error> {
        self.open()?;
        let read = self.body.read().await;
        let Some((admitted, caller)) = self.entered.take() else {
            // It was opened above, or before by an extractor.
            unreachable!("a body that is open belongs to a request that was admitted");
        };
        let body = match read {
            Ok(body) => body,
            Err(rejection) => return Err(self.reject(&admitted, rejection, None)),
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

/// One implementation for each number of arguments.
macro_rules! captured {
    ($($argument:ident $name:ident),*) => {
        impl<R: Route, $($argument: FromRequest + 'static,)*> FromRequest
            for Captured<($($argument,)*), R>
        {
            type Error = Error;
            type Future = Capturing<<($($argument,)*) as FromRequest>::Future, ($($argument,)*), R>;

            fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
                let idem = match installed::<R>(request) {
                    Ok(idem) => idem,
                    Err(error) => return Capturing::Refused { error: Some(error) },
                };
                let admission = match admit::<R>(&idem, request) {
                    Admission::Unprotected => return Capturing::Plain {
                        extraction: <($($argument,)*)>::from_request(request, payload),
                        request: Some(request.clone()),
                    },
                    Admission::Keyed(admitted) => Ok(admitted),
                    Admission::Rejected(rejection) => Err(rejection),
                };
                let request = request.clone();
                #[allow(unused_mut, reason = "without arguments nothing is extracted")]
                let mut entrance =
                    Entrance::<R>::new(idem, admission, request.clone(), payload.take());
                let extraction = Box::pin(async move {
                    #[allow(unused_mut, unused_variables, reason = "the same")]
                    let mut payload = entrance.body.payload();
                    $(
                        let extraction = $argument::from_request(&request, &mut payload);
                        let $name = entrance.extract(extraction).await?;
                    )*
                    let protection = Some(entrance.protect().await?);
                    Ok(Captured { args: ($($name,)*), request, protection, route: PhantomData })
                });
                Capturing::Keyed { extraction }
            }
        }
    };
}

captured!();
captured!(T1 a1);
captured!(T1 a1, T2 a2);
captured!(T1 a1, T2 a2, T3 a3);
captured!(T1 a1, T2 a2, T3 a3, T4 a4);
captured!(T1 a1, T2 a2, T3 a3, T4 a4, T5 a5);
captured!(T1 a1, T2 a2, T3 a3, T4 a4, T5 a5, T6 a6);
captured!(T1 a1, T2 a2, T3 a3, T4 a4, T5 a5, T6 a6, T7 a7);
captured!(T1 a1, T2 a2, T3 a3, T4 a4, T5 a5, T6 a6, T7 a7, T8 a8);
captured!(T1 a1, T2 a2, T3 a3, T4 a4, T5 a5, T6 a6, T7 a7, T8 a8, T9 a9);
captured!(T1 a1, T2 a2, T3 a3, T4 a4, T5 a5, T6 a6, T7 a7, T8 a8, T9 a9, T10 a10);
captured!(T1 a1, T2 a2, T3 a3, T4 a4, T5 a5, T6 a6, T7 a7, T8 a8, T9 a9, T10 a10, T11 a11);
captured!(T1 a1, T2 a2, T3 a3, T4 a4, T5 a5, T6 a6, T7 a7, T8 a8, T9 a9, T10 a10, T11 a11, T12 a12);
captured!(T1 a1, T2 a2, T3 a3, T4 a4, T5 a5, T6 a6, T7 a7, T8 a8, T9 a9, T10 a10, T11 a11, T12 a12, T13 a13);
captured!(T1 a1, T2 a2, T3 a3, T4 a4, T5 a5, T6 a6, T7 a7, T8 a8, T9 a9, T10 a10, T11 a11, T12 a12, T13 a13, T14 a14);
captured!(T1 a1, T2 a2, T3 a3, T4 a4, T5 a5, T6 a6, T7 a7, T8 a8, T9 a9, T10 a10, T11 a11, T12 a12, T13 a13, T14 a14, T15 a15);
captured!(T1 a1, T2 a2, T3 a3, T4 a4, T5 a5, T6 a6, T7 a7, T8 a8, T9 a9, T10 a10, T11 a11, T12 a12, T13 a13, T14 a14, T15 a15, T16 a16);
