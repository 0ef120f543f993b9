//! What the generated code calls: run a handler, under a claim if the request has a key.

use std::{future::Future, panic::resume_unwind};

use axum::response::IntoResponse;
pub use axum::response::Response;
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
    pub fn run<S, H, F>(self, select: S, handler: H) -> impl Future<Output = Response>
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
    ) -> impl Future<Output = Response>
    where
        S: FnOnce(&A) -> Selection,
        H: FnOnce(A) -> F,
        F: Future<Output = Response> + Send + 'static,
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
    H: FnOnce(A) -> F,
    F: Future<Output = Response> + Send + 'static,
{
    let Captured { args, held, .. } = captured;
    let mut protection = match held.settle(policy) {
        Ok(Some(protection)) => protection,
        Ok(None) => return handler(args).await,
        Err(refusal) => return refusal,
    };
    protection.request.selection = select(&args);
    match begin(*protection).await {
        Next::Answer(response) => response,
        Next::Bypass => handler(args).await,
        Next::Run(attempt) => run(attempt, Box::pin(handler(args))).await,
    }
}

type BoxFuture<T> = std::pin::Pin<Box<dyn Future<Output = T> + Send>>;

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
    parts: Option<http::request::Parts>,
}

async fn begin(protection: Protection) -> Next {
    let Protection {
        idem,
        request,
        parts,
    } = protection;
    match idem.0.engine.begin(request).await {
        Begun::Claimed(claimed) => Next::Run(Run {
            claimed,
            idem,
            parts,
        }),
        Begun::Bypassed => Next::Bypass,
        Begun::Answered(answer) => Next::Answer(send(&idem, answer, parts.as_ref())),
    }
}

async fn run(run: Run, handler: BoxFuture<Response>) -> Response {
    let Run {
        claimed,
        idem,
        parts,
    } = run;
    let engine = idem.0.engine.clone();
    let kept = async move { response::keep(&engine, handler.await).await };
    match claimed.run(kept).await {
        Ok(Reply::Own(response)) => response,
        Ok(Reply::Other(answer)) => send(&idem, answer, parts.as_ref()),
        // The application's own panic layer, or the closed connection, as without us.
        Err(panic) => resume_unwind(panic),
    }
}

fn send(idem: &Idempotency, answer: Answer, parts: Option<&http::request::Parts>) -> Response {
    match answer {
        Answer::Replay(record) => {
            let mut response = response::restore(*record);
            response::mark(&idem.0.engine, &mut response);
            response
        }
        Answer::Rejection(rejection) => idem.refuse(&rejection, parts),
    }
}
