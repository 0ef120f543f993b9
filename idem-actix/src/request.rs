//! Taking a request apart in the order that protects it: the handler's own extractors, and before
//! the last of them reads the body, the key and the caller.
//!
//! A request that fails authentication is refused before a byte of its body is read, and one that
//! fails validation makes no claim. Without a key the extractors run as they do without us.

use std::{
    fmt,
    future::Future,
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll, ready},
};

use actix_web::{
    Error, FromRequest, HttpMessage, HttpRequest, HttpResponse,
    dev::Payload,
    error::InternalError,
    http::header::{HeaderName, HeaderValue},
    web::Data,
};
use futures_util::future::LocalBoxFuture;
use idem_core::{
    Caller, DEFAULT_PROBLEM_BASE, NotConfigured, Policy, Rejection,
    engine::{Admission, Admitted, Keyed},
};
use pin_project_lite::pin_project;

use crate::{
    Attempt,
    deferred::{self, Deferred},
    entrance::{Entrance, Key},
    install::Idempotency,
    response,
    runtime::Route,
};

/// What an `#[idempotent]` handler takes: its own arguments, and what is needed to claim.
pub struct Captured<A, R> {
    pub(crate) args: A,
    pub(crate) request: HttpRequest,
    pub(crate) held: Held,
    route: PhantomData<fn() -> R>,
}

/// What extraction found out.
pub(crate) enum Held {
    /// The handler runs as it is.
    Unprotected,
    /// There is a key.
    Keyed(Box<Protection>),
    /// Nothing yet.
    Deferred(Deferred),
}

impl Held {
    /// Of a request whose extractors run as they do without us.
    fn without_key(policy: Option<&Policy>, idem: Idempotency) -> Self {
        match policy {
            Some(_) => Self::Unprotected,
            None => Self::Deferred(Deferred { idem, digest: None }),
        }
    }

    /// What is to be claimed, if anything.
    pub(crate) fn settle(
        self,
        policy: &'static Policy,
        request: &HttpRequest,
    ) -> Result<Option<Box<Protection>>, Error> {
        match self {
            Self::Unprotected => Ok(None),
            Self::Keyed(protection) => Ok(Some(protection)),
            Self::Deferred(deferred) => deferred.settle(policy, request),
        }
    }
}

/// A keyed request that waits for its claim.
pub(crate) struct Protection {
    pub(crate) idem: Idempotency,
    pub(crate) request: Keyed,
}

impl<A, R> fmt::Debug for Captured<A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = match self.held {
            Held::Unprotected => "Unprotected",
            Held::Keyed(_) => "Keyed",
            Held::Deferred(_) => "Deferred",
        };
        f.debug_struct("Captured")
            .field("held", &format_args!("{held}"))
            .finish_non_exhaustive()
    }
}

/// The policy as far as extraction knows it.
pub trait Known: 'static {
    /// `None` if it is known only when the handler runs.
    const POLICY: Option<&'static Policy>;
}

impl<R: Route> Known for R {
    const POLICY: Option<&'static Policy> = Some(R::POLICY);
}

/// The engine of this request.
///
/// A request that a middleware sends once more is another attempt: it must not see that of the first.
fn installed(policy: Option<&Policy>, request: &HttpRequest) -> Result<Idempotency, Error> {
    request.extensions_mut().remove::<Attempt>();
    let plain = request.app_data::<Idempotency>();
    let shared = || request.app_data::<Data<Idempotency>>();
    plain
        .or_else(|| shared().map(|data| &***data))
        .cloned()
        .ok_or_else(|| {
            let remedy = "add `.app_data(idem.clone())` to the `App` of this handler";
            let cause = NotConfigured::NoEngine { remedy };
            let handler = policy.map_or(deferred::NAME, Policy::name);
            tracing::error!(handler, %cause, "rejected");
            let rejection = Rejection::NotConfigured;
            refusal(
                &rejection,
                response::restore(rejection.problem(DEFAULT_PROBLEM_BASE)),
            )
        })
}

/// Looks for the key; `None` if the handler runs as it is.
pub(crate) fn admit(
    idem: &Idempotency,
    policy: &'static Policy,
    request: &HttpRequest,
) -> Result<Option<Admitted>, Rejection> {
    let engine = &idem.0.engine;
    // The macro has checked a name of the handler's own.
    let own = policy.own_header().map(HeaderName::from_static);
    let name = own.as_ref().or(idem.0.header.as_ref());
    let lines = name.map(|name| request.headers().get_all(name));
    let lines = lines.into_iter().flatten();
    match engine.admit(
        policy,
        request.method().as_str(),
        || route(request),
        lines.map(HeaderValue::as_bytes),
    ) {
        Admission::Unprotected => Ok(None),
        Admission::Keyed(admitted) => Ok(Some(admitted)),
        Admission::Rejected(rejection) => Err(rejection),
    }
}

/// The template of the route that matched.
///
/// A fallback has none, though its path may be that of a resource which its guards kept from it: it
/// must not have the records of that one.
pub(crate) fn route(request: &HttpRequest) -> Option<String> {
    let is_matched = request.match_info().unprocessed().is_empty();
    is_matched.then(|| request.match_pattern()).flatten()
}

/// Names the caller.
pub(crate) fn caller(
    idem: &Idempotency,
    policy: &Policy,
    admitted: &Admitted,
    request: &HttpRequest,
) -> Result<Caller, Error> {
    let callers = &idem.0.callers;
    callers.resolve(policy, request).map_err(|unresolved| {
        let cause = unresolved.cause.as_ref().map(|cause| cause as _);
        let engine = &idem.0.engine;
        let rejection = engine.reject(admitted.operation(), unresolved.rejection, cause);
        refuse(idem, &rejection, request)
    })
}

/// An extractor's error that answers a refusal, as the application words it.
pub(crate) fn refuse(idem: &Idempotency, rejection: &Rejection, request: &HttpRequest) -> Error {
    refusal(rejection, idem.refuse(rejection, request))
}

/// An extractor's error that answers a refusal.
fn refusal(rejection: &Rejection, response: HttpResponse) -> Error {
    InternalError::from_response(rejection.code(), response).into()
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
            rest: Option<(HttpRequest, Held)>,
        },
        /// Under a key, or refused.
        Keyed {
            extraction: LocalBoxFuture<'static, Result<Extracted<A>, Error>>,
            route: PhantomData<fn() -> R>,
        },
        /// There is no engine.
        Refused { error: Option<Error> },
    }
}

/// The arguments, the request that they were taken from, and what was found out about it.
type Extracted<A> = (A, HttpRequest, Held);

impl<F, E, A, R> Future for Capturing<F, A, R>
where
    F: Future<Output = Result<A, E>>,
    E: Into<Error>,
{
    type Output = Result<Captured<A, R>, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        const ONCE: &str = "a future is not polled after its end";
        let extracted = match self.project() {
            CapturingProjection::Plain { extraction, rest } => ready!(extraction.poll(context))
                .map(|args| {
                    let (request, held) = rest.take().expect(ONCE);
                    (args, request, held)
                })
                .map_err(Into::into),
            CapturingProjection::Keyed { extraction, .. } => {
                ready!(extraction.as_mut().poll(context))
            }
            CapturingProjection::Refused { error } => Err(error.take().expect(ONCE)),
        };
        Poll::Ready(extracted.map(|(args, request, held)| Captured {
            args,
            request,
            held,
            route: PhantomData,
        }))
    }
}

/// One implementation for each number of arguments: before the last one the key and the caller
/// are looked at; if one of the first reads the body, the key before that, and the caller in the end.
macro_rules! captured {
    ($($first:ident $first_arg:ident),*; $($last:ident $last_arg:ident)?) => {
        impl<R: Known, $($first: FromRequest + 'static,)* $($last: FromRequest + 'static)?> FromRequest
            for Captured<($($first,)* $($last,)?), R>
        {
            type Error = Error;
            type Future = Capturing<
                <($($first,)* $($last,)?) as FromRequest>::Future,
                ($($first,)* $($last,)?),
                R,
            >;

            fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
                // Compiled once for all handlers with these arguments.
                async fn extract<$($first: FromRequest,)* $($last: FromRequest)?>(
                    mut entrance: Entrance,
                    request: HttpRequest,
                ) -> Result<Extracted<($($first,)* $($last,)?)>, Error> {
                    #[allow(unused_mut, unused_variables, reason = "not every handler has arguments")]
                    let mut payload = entrance.body.payload();
                    $(
                        let extraction = $first::from_request(&request, &mut payload);
                        let $first_arg = entrance.extract(extraction).await?;
                    )*
                    entrance.enter()?;
                    $(
                        let extraction = $last::from_request(&request, &mut payload);
                        let $last_arg = entrance.extract(extraction).await?;
                    )?
                    let held = entrance.finish().await?;
                    Ok((($($first_arg,)* $($last_arg,)?), request, held))
                }

                let idem = match installed(R::POLICY, request) {
                    Ok(idem) => idem,
                    Err(error) => return Capturing::Refused { error: Some(error) },
                };
                let Some(key) = Key::of(&idem, R::POLICY, request) else {
                    return Capturing::Plain {
                        extraction: <($($first,)* $($last,)?)>::from_request(request, payload),
                        rest: Some((request.clone(), Held::without_key(R::POLICY, idem))),
                    };
                };
                let entrance = Entrance::new(idem, key, request.clone(), payload.take());
                let extraction = extract::<$($first,)* $($last,)?>(entrance, request.clone());
                Capturing::Keyed { extraction: Box::pin(extraction), route: PhantomData }
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
