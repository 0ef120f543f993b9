//! What the generated code calls: run a handler, under a claim if the request has a key.

use std::{
    future::{Future, ready},
    panic::resume_unwind,
};

use axum::response::IntoResponse;
pub use axum::response::Response;
use futures_util::future::{BoxFuture, Either};
use http::request::Parts;
use idem_core::{
    Policy, Selection,
    engine::{Answer, Begun, Claimed, Reply},
};

use crate::{
    deferred::Associated,
    install::Idempotency,
    request::{Captured, Protection},
    response,
};

/// A handler's policy, carried by a type so that extraction knows it.
pub trait Route: 'static {
    /// What the attribute says.
    const POLICY: &'static Policy;
}

/// Makes a response of what a handler returned.
pub fn into_response<R: IntoResponse>(answer: R) -> Response {
    answer.into_response()
}

impl<A, R: Route> Captured<A, R> {
    /// Runs the handler: as it is without a key, else at most once.
    pub fn run<S, H, F>(self, select: S, handler: H) -> Either<F, BoxFuture<'static, Response>>
    where
        S: FnOnce(&A) -> Selection,
        H: FnOnce(A) -> F,
        F: Future<Output = Response> + Send + 'static,
    {
        run_under(R::POLICY, self, select, handler)
    }
}

impl<A> Captured<A, Associated> {
    /// Runs the handler under a policy that only it knows, as [`run`](Captured::run) does.
    pub fn run_under<S, H, F>(
        self,
        policy: &'static Policy,
        select: S,
        handler: H,
    ) -> Either<F, BoxFuture<'static, Response>>
    where
        S: FnOnce(&A) -> Selection,
        H: FnOnce(A) -> F,
        F: Future<Output = Response> + Send + 'static,
    {
        run_under(policy, self, select, handler)
    }
}

/// It stays thin, since there is one of it for each handler: what a key needs is compiled once, for
/// handlers in a box.
fn run_under<A, R, S, H, F>(
    policy: &'static Policy,
    captured: Captured<A, R>,
    select: S,
    handler: H,
) -> Either<F, BoxFuture<'static, Response>>
where
    S: FnOnce(&A) -> Selection,
    H: FnOnce(A) -> F,
    F: Future<Output = Response> + Send + 'static,
{
    let Captured { args, held, .. } = captured;
    match held.settle(policy) {
        Ok(None) => Either::Left(handler(args)),
        Ok(Some(mut protection)) => {
            protection.request.selection = select(&args);
            // It does nothing before it is polled, which needs a claim.
            Either::Right(protected(*protection, Box::pin(handler(args))))
        }
        Err(refusal) => Either::Right(Box::pin(ready(refusal))),
    }
}

/// Claims the key, and runs the handler if it is to run.
fn protected(
    protection: Protection,
    handler: BoxFuture<'static, Response>,
) -> BoxFuture<'static, Response> {
    Box::pin(async move {
        let Protection {
            idem,
            request,
            parts,
        } = protection;
        match idem.0.engine.begin(request).await {
            Begun::Claimed(claimed) => run(claimed, idem, parts, handler).await,
            Begun::Bypassed => handler.await,
            Begun::Answered(answer) => send(&idem, answer, parts.as_ref()),
        }
    })
}

/// Runs a handler that holds its claim.
async fn run(
    claimed: Claimed,
    idem: Idempotency,
    parts: Option<Parts>,
    handler: BoxFuture<'static, Response>,
) -> Response {
    let engine = idem.0.engine.clone();
    let kept = async move { response::keep(&engine, handler.await).await };
    match claimed.run(kept).await {
        Ok(Reply::Own(response)) => response,
        Ok(Reply::Other(answer)) => send(&idem, answer, parts.as_ref()),
        // The application's own panic layer, or the closed connection, as without us.
        Err(panic) => resume_unwind(panic),
    }
}

fn send(idem: &Idempotency, answer: Answer, parts: Option<&Parts>) -> Response {
    match answer {
        Answer::Replay(record) => {
            let mut response = response::restore(*record);
            response::mark(&idem.0.engine, &mut response);
            response
        }
        Answer::Rejection(rejection) => idem.refuse(&rejection, parts),
    }
}
