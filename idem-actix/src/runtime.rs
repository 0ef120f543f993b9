//! What the generated code calls: run a handler, under a claim if the request has a key.

use std::{future::Future, panic::resume_unwind};

use actix_web::{FromRequest, HttpRequest, Responder, rt};
use futures_util::future::LocalBoxFuture;
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
    pub fn run<S, H, F>(self, select: S, handler: H) -> impl Future<Output = Response>
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
    ) -> impl Future<Output = Response>
    where
        S: FnOnce(&A) -> Selection,
        H: FnOnce(A, HttpRequest) -> F,
        F: Future<Output = Response> + 'static,
    {
        run_under(policy, self, select, handler)
    }
}

/// It stays thin, since there is one of it for each handler: what does not depend on the handler's
/// types is in functions of their own.
async fn run_under<A, R, S, H, F>(
    policy: &'static Policy,
    captured: Captured<A, R>,
    select: S,
    handler: H,
) -> Response
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
    let mut protection = match held.settle(policy, &request) {
        Ok(Some(protection)) => protection,
        Ok(None) => return handler(args, request).await,
        Err(refusal) => return Response::from_error(refusal),
    };
    protection.request.selection = select(&args);
    match begin(*protection, &request).await {
        Next::Answer(response) => response,
        Next::Bypass => handler(args, request).await,
        Next::Run(attempt) => {
            let handler = Box::pin(handler(args, request.clone()));
            run(attempt, handler, &request).await
        }
    }
}

/// What a keyed request comes to.
enum Next {
    Run(Run),
    Bypass,
    Answer(Response),
}

/// A handler that holds its claim.
struct Run {
    claimed: Claimed,
    idem: Idempotency,
}

async fn begin(protection: Protection, request: &HttpRequest) -> Next {
    let Protection {
        idem,
        request: keyed,
    } = protection;
    match idem.0.engine.begin(keyed).await {
        Begun::Claimed(claimed) => Next::Run(Run { claimed, idem }),
        Begun::Bypassed => Next::Bypass,
        Begun::Answered(answer) => Next::Answer(send(&idem, answer, request)),
    }
}

async fn run(
    run: Run,
    handler: LocalBoxFuture<'static, Response>,
    request: &HttpRequest,
) -> Response {
    let Run { claimed, idem } = run;
    let engine = idem.0.engine.clone();
    let kept = async move { response::keep(&engine, handler.await).await };
    // What outlives its client stays on its worker.
    let spawn = |rest| drop(rt::spawn(rest));
    match claimed.run_local(kept, spawn).await {
        Ok(Reply::Own(response)) => response,
        Ok(Reply::Other(answer)) => send(&idem, answer, request),
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
