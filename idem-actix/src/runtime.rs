//! What the generated code calls: run a handler, under a claim if the request has a key.

use std::{
    future::{Future, ready},
    panic::resume_unwind,
};

use actix_web::{FromRequest, HttpRequest, Responder, rt};
use futures_util::future::{Either, LocalBoxFuture};
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

pub use actix_web::HttpResponse as Response;

/// A handler's policy, carried by a type so that extraction knows it.
pub trait Route: 'static {
    /// What the attribute says.
    const POLICY: &'static Policy;
}

/// Says that a type can be an argument of a handler.
pub const fn extractor<T: FromRequest>() {}

/// Makes a response of what a handler returned.
pub fn into_response<R: Responder>(answer: R, request: &HttpRequest) -> Response {
    answer.respond_to(request).map_into_boxed_body()
}

impl<A, R: Route> Captured<A, R> {
    /// Runs the handler: as it is without a key, else at most once.
    pub fn run<S, H, F>(self, select: S, handler: H) -> Either<F, LocalBoxFuture<'static, Response>>
    where
        S: FnOnce(&A) -> Selection,
        H: FnOnce(A, HttpRequest) -> F,
        F: Future<Output = Response> + 'static,
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
    ) -> Either<F, LocalBoxFuture<'static, Response>>
    where
        S: FnOnce(&A) -> Selection,
        H: FnOnce(A, HttpRequest) -> F,
        F: Future<Output = Response> + 'static,
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
) -> Either<F, LocalBoxFuture<'static, Response>>
where
    S: FnOnce(&A) -> Selection,
    H: FnOnce(A, HttpRequest) -> F,
    F: Future<Output = Response> + 'static,
{
    let Captured {
        args,
        request,
        held,
        ..
    } = captured;
    match held.settle(policy, &request) {
        Ok(None) => Either::Left(handler(args, request)),
        Ok(Some(mut protection)) => {
            protection.request.selection = select(&args);
            // It does nothing before it is polled, which needs a claim.
            let handler = Box::pin(handler(args, request.clone()));
            Either::Right(protected(*protection, request, handler))
        }
        Err(refusal) => Either::Right(Box::pin(ready(Response::from_error(refusal)))),
    }
}

/// Claims the key, and runs the handler if it is to run.
fn protected(
    protection: Protection,
    request: HttpRequest,
    handler: LocalBoxFuture<'static, Response>,
) -> LocalBoxFuture<'static, Response> {
    Box::pin(async move {
        let Protection {
            idem,
            request: keyed,
        } = protection;
        match idem.0.engine.begin(keyed).await {
            Begun::Claimed(claimed) => run(claimed, idem, request, handler).await,
            Begun::Bypassed => handler.await,
            Begun::Answered(answer) => send(&idem, answer, &request),
        }
    })
}

/// Runs a handler that holds its claim.
async fn run(
    claimed: Claimed,
    idem: Idempotency,
    request: HttpRequest,
    handler: LocalBoxFuture<'static, Response>,
) -> Response {
    let engine = idem.0.engine.clone();
    let kept = async move { response::keep(&engine, handler.await).await };
    // What outlives its client stays on its worker.
    let spawn = |rest| drop(rt::spawn(rest));
    match claimed.run_local(kept, spawn).await {
        Ok(Reply::Own(response)) => response,
        Ok(Reply::Other(answer)) => send(&idem, answer, &request),
        // The closed connection, as without us.
        Err(panic) => resume_unwind(panic),
    }
}

fn send(idem: &Idempotency, answer: Answer, request: &HttpRequest) -> Response {
    match answer {
        Answer::Replay(record) => {
            let mut response = response::restore(*record);
            response::mark(&idem.0.engine, &mut response);
            response
        }
        Answer::Rejection(rejection) => idem.refuse(&rejection, request),
    }
}
