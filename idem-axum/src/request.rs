//! Taking a request apart in the order that protects it: the handler's own parts extractors, the
//! key, the caller, the body, the last extractor.
//!
//! A request that fails authentication is refused before a byte of its body is read, and one that
//! fails validation makes no claim. Without a key the body is never touched.

use std::{error::Error, fmt, marker::PhantomData};

use axum::{
    body::Body,
    extract::{FromRequest, FromRequestParts, MatchedPath, OriginalUri, Request},
    response::{IntoResponse, Response},
};
use http::{HeaderValue, header::CONTENT_TYPE, request::Parts};
use idem_core::{
    Caller, DEFAULT_PROBLEM_BASE, Fingerprint, NotConfigured, Policy, Rejection, RequestHead,
    Selection,
    engine::{Admission, Admitted, Keyed},
};

use crate::{
    Attempt, attempt, body,
    deferred::{self, Deferred},
    install::Idempotency,
    response,
    runtime::Route,
};

/// What an `#[idempotent]` handler takes: its own arguments, and what is needed to claim.
pub struct Captured<A, R> {
    pub(crate) args: A,
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
    Deferred(Box<Deferred>),
}

impl Held {
    /// What is to be claimed, if anything.
    pub(crate) fn settle(
        self,
        policy: &'static Policy,
    ) -> Result<Option<Box<Protection>>, Response> {
        match self {
            Self::Unprotected => Ok(None),
            Self::Keyed(protection) => Ok(Some(protection)),
            Self::Deferred(deferred) => deferred.settle(policy),
        }
    }
}

/// A keyed request that waits for its claim.
pub(crate) struct Protection {
    pub(crate) idem: Idempotency,
    pub(crate) request: Keyed,
    /// For refusals in the application's own words.
    pub(crate) parts: Option<Parts>,
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

/// Tells our implementations of `FromRequest` from axum's own; `M` is the last extractor's marker.
#[derive(Debug)]
pub struct Via<M>(PhantomData<M>);

/// The engine of this request.
///
/// A request that a handler made of its own one, with its extensions, is another operation: it must
/// not see the attempt of the first.
fn installed(policy: Option<&Policy>, parts: &mut Parts) -> Result<Idempotency, Response> {
    parts.extensions.remove::<Attempt>();
    parts
        .extensions
        .get::<Idempotency>()
        .cloned()
        .ok_or_else(|| {
            let remedy = "add `.layer(idem)` to the router of this handler";
            let cause = NotConfigured::NoEngine { remedy };
            let handler = policy.map_or(deferred::NAME, Policy::name);
            tracing::error!(handler, %cause, "rejected");
            response::restore(Rejection::NotConfigured.problem(DEFAULT_PROBLEM_BASE))
        })
}

/// Finds out what can be before the last extractor, and gives the request back.
async fn enter(
    idem: Idempotency,
    policy: Option<&'static Policy>,
    parts: Parts,
    body: Body,
) -> Result<(Held, Request), Response> {
    let Some(policy) = policy else {
        let (deferred, request) = deferred::defer(idem, parts, body).await?;
        return Ok((Held::Deferred(deferred), request));
    };
    let Some(admitted) = admit(&idem, policy, &parts)? else {
        return Ok((Held::Unprotected, Request::from_parts(parts, body)));
    };
    let caller = caller(&idem, policy, &admitted, &parts)?;
    let (protection, request) = protect(idem, admitted, caller, parts, body).await?;
    Ok((Held::Keyed(protection), request))
}

/// Looks for the key; `None` if the handler runs as it is.
pub(crate) fn admit(
    idem: &Idempotency,
    policy: &'static Policy,
    parts: &Parts,
) -> Result<Option<Admitted>, Response> {
    let engine = &idem.0.engine;
    let route = || {
        let matched = parts.extensions.get::<MatchedPath>();
        matched.map(MatchedPath::as_str)
    };
    let lines = parts.headers.get_all(engine.header(policy));
    let lines = lines.iter().map(HeaderValue::as_bytes);
    match engine.admit(policy, parts.method.as_str(), route, lines) {
        Admission::Unprotected => Ok(None),
        Admission::Keyed(admitted) => Ok(Some(admitted)),
        Admission::Rejected(rejection) => Err(idem.refuse(&rejection, Some(parts))),
    }
}

/// Names the caller.
pub(crate) fn caller(
    idem: &Idempotency,
    policy: &Policy,
    admitted: &Admitted,
    parts: &Parts,
) -> Result<Caller, Response> {
    idem.0.callers.resolve(policy, parts).map_err(|unresolved| {
        let cause = unresolved.cause.as_ref().map(|cause| cause as &dyn Error);
        idem.reject(admitted.operation(), unresolved.rejection, cause, parts)
    })
}

/// Reads the body, and gives the request back with the body in memory.
async fn protect(
    idem: Idempotency,
    admitted: Admitted,
    caller: Caller,
    mut parts: Parts,
    body: Body,
) -> Result<(Box<Protection>, Request), Response> {
    let limit = idem
        .0
        .engine
        .max_request_body(body::framework_limit(&mut parts));
    let collected = match body::read(body, limit).await {
        Ok(collected) => collected,
        Err(rejection) => return Err(idem.reject(admitted.operation(), rejection, None, &parts)),
    };
    let trailers = collected.trailers().cloned();
    let bytes = collected.to_bytes();
    let request = Keyed {
        admitted,
        caller,
        fingerprint: fingerprint(&parts, &bytes),
        attempt: Some(attempt::slot(&mut parts).0),
        selection: Selection::new(),
    };
    let kept = idem.0.renderer.is_some().then(|| parts.clone());
    let protection = Protection {
        idem,
        request,
        parts: kept,
    };
    Ok((
        Box::new(protection),
        Request::from_parts(parts, body::again(bytes, trailers)),
    ))
}

/// Digests the request as it was received: nested routers strip their prefix from the URI.
pub(crate) fn fingerprint(parts: &Parts, body: &[u8]) -> Fingerprint {
    let uri = parts
        .extensions
        .get::<OriginalUri>()
        .map_or(&parts.uri, |original| &original.0);
    let head = RequestHead::new(parts.method.as_str(), uri.path()).with_query(uri.query());
    match parts.headers.get(CONTENT_TYPE) {
        Some(value) => Fingerprint::of(&head.with_content_type(value.as_bytes()), body),
        None => Fingerprint::of(&head, body),
    }
}

/// One implementation for each number of arguments: the first ones read the parts of the request,
/// the last one may consume its body.
macro_rules! captured {
    ($($first:ident $first_arg:ident),*; $last:ident $last_marker:ident) => {
        impl<S, $last_marker, R, $($first,)* $last> FromRequest<S, Via<$last_marker>>
            for Captured<($($first,)* $last,), R>
        where
            S: Send + Sync,
            R: Known,
            $($first: FromRequestParts<S> + Send,)*
            $last: FromRequest<S, $last_marker> + Send,
        {
            type Rejection = Response;

            async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
                // Compiled once for all handlers with these arguments.
                async fn extract<S, $last_marker, $($first,)* $last>(
                    policy: Option<&'static Policy>,
                    request: Request,
                    state: &S,
                ) -> Result<(($($first,)* $last,), Held), Response>
                where
                    S: Send + Sync,
                    $($first: FromRequestParts<S> + Send,)*
                    $last: FromRequest<S, $last_marker> + Send,
                {
                    let (mut parts, body) = request.into_parts();
                    let idem = installed(policy, &mut parts)?;
                    $(
                        let $first_arg = $first::from_request_parts(&mut parts, state)
                            .await
                            .map_err(IntoResponse::into_response)?;
                    )*
                    let (held, request) = enter(idem, policy, parts, body).await?;
                    let last = $last::from_request(request, state)
                        .await
                        .map_err(IntoResponse::into_response)?;
                    Ok((($($first_arg,)* last,), held))
                }

                let (args, held) = extract(R::POLICY, request, state).await?;
                Ok(Self { args, held, route: PhantomData })
            }
        }
    };
}

impl<S, R> FromRequest<S, Via<()>> for Captured<(), R>
where
    S: Send + Sync,
    R: Known,
{
    type Rejection = Response;

    async fn from_request(request: Request, _: &S) -> Result<Self, Response> {
        let (mut parts, body) = request.into_parts();
        let idem = installed(R::POLICY, &mut parts)?;
        let (held, _) = enter(idem, R::POLICY, parts, body).await?;
        Ok(Self {
            args: (),
            held,
            route: PhantomData,
        })
    }
}

captured!(; T1 M);
captured!(T1 a1; T2 M);
captured!(T1 a1, T2 a2; T3 M);
captured!(T1 a1, T2 a2, T3 a3; T4 M);
captured!(T1 a1, T2 a2, T3 a3, T4 a4; T5 M);
captured!(T1 a1, T2 a2, T3 a3, T4 a4, T5 a5; T6 M);
captured!(T1 a1, T2 a2, T3 a3, T4 a4, T5 a5, T6 a6; T7 M);
captured!(T1 a1, T2 a2, T3 a3, T4 a4, T5 a5, T6 a6, T7 a7; T8 M);
captured!(T1 a1, T2 a2, T3 a3, T4 a4, T5 a5, T6 a6, T7 a7, T8 a8; T9 M);
captured!(T1 a1, T2 a2, T3 a3, T4 a4, T5 a5, T6 a6, T7 a7, T8 a8, T9 a9; T10 M);
captured!(T1 a1, T2 a2, T3 a3, T4 a4, T5 a5, T6 a6, T7 a7, T8 a8, T9 a9, T10 a10; T11 M);
captured!(T1 a1, T2 a2, T3 a3, T4 a4, T5 a5, T6 a6, T7 a7, T8 a8, T9 a9, T10 a10, T11 a11; T12 M);
captured!(T1 a1, T2 a2, T3 a3, T4 a4, T5 a5, T6 a6, T7 a7, T8 a8, T9 a9, T10 a10, T11 a11, T12 a12; T13 M);
captured!(T1 a1, T2 a2, T3 a3, T4 a4, T5 a5, T6 a6, T7 a7, T8 a8, T9 a9, T10 a10, T11 a11, T12 a12, T13 a13; T14 M);
captured!(T1 a1, T2 a2, T3 a3, T4 a4, T5 a5, T6 a6, T7 a7, T8 a8, T9 a9, T10 a10, T11 a11, T12 a12, T13 a13, T14 a14; T15 M);
captured!(T1 a1, T2 a2, T3 a3, T4 a4, T5 a5, T6 a6, T7 a7, T8 a8, T9 a9, T10 a10, T11 a11, T12 a12, T13 a13, T14 a14, T15 a15; T16 M);
