//! The request of an associated function, whose policy is known only when it runs.
//!
//! Its body is read whenever there is a key; key and caller are looked at after the last extractor,
//! as they were before it.

use axum::{body::Body, extract::MatchedPath, extract::Request, response::Response};
use http::request::Parts;
use idem_core::{Fingerprint, Policy, Selection, engine::Keyed, observe::Operation};

use crate::{
    attempt, body,
    install::Idempotency,
    request::{Known, Protection, admit, caller, fingerprint},
};

/// Stands where a free handler has the type that carries its policy.
#[derive(Debug, Clone, Copy)]
pub struct Associated;

impl Known for Associated {
    const POLICY: Option<&'static Policy> = None;
}

/// A request that waits for its policy.
pub(crate) struct Deferred {
    idem: Idempotency,
    /// As they were before the last extractor; without a key, and nobody who would word a refusal,
    /// only what tells the operation.
    parts: Parts,
    /// Of a request with a key.
    digest: Option<Digest>,
}

/// What is kept of a body.
struct Digest {
    fingerprint: Fingerprint,
    attempt: idem_core::Attempt,
}

/// Reads the body if there is a key, and gives the request back.
pub(crate) async fn defer(
    idem: Idempotency,
    mut parts: Parts,
    body: Body,
) -> Result<(Box<Deferred>, Request), Response> {
    const ANY: &Policy = &Policy::new("");
    let engine = &idem.0.engine;
    let has_key = parts.headers.contains_key(engine.header(ANY));
    if !engine.may_be_keyed(parts.method.as_str(), has_key) {
        let kept = match idem.0.renderer {
            Some(_) => parts.clone(),
            None => outline(&parts),
        };
        let deferred = Deferred {
            idem,
            parts: kept,
            digest: None,
        };
        return Ok((Box::new(deferred), Request::from_parts(parts, body)));
    }
    let limit = engine.max_request_body(body::framework_limit(&mut parts));
    let collected = match body::read(body, limit).await {
        Ok(collected) => collected,
        Err(rejection) => return Err(idem.reject(operation(&parts), rejection, None, &parts)),
    };
    let trailers = collected.trailers().cloned();
    let bytes = collected.to_bytes();
    let digest = Digest {
        fingerprint: fingerprint(&parts, &bytes),
        attempt: attempt::slot(&mut parts).0,
    };
    let deferred = Deferred {
        idem,
        parts: parts.clone(),
        digest: Some(digest),
    };
    let request = Request::from_parts(parts, body::again(bytes, trailers));
    Ok((Box::new(deferred), request))
}

impl Deferred {
    /// Looks for the key under the handler's policy, and names the caller; `None` if the handler
    /// runs as it is.
    pub(crate) fn settle(
        self,
        policy: &'static Policy,
    ) -> Result<Option<Box<Protection>>, Response> {
        let Self {
            idem,
            parts,
            digest,
        } = self;
        let Some(admitted) = admit(&idem, policy, &parts)? else {
            return Ok(None);
        };
        let caller = caller(&idem, policy, &admitted, &parts)?;
        let digest =
            digest.expect("the body was read, since an associated handler names no header");
        let request = Keyed {
            admitted,
            caller,
            fingerprint: digest.fingerprint,
            attempt: Some(digest.attempt),
            selection: Selection::new(),
        };
        let parts = idem.0.renderer.is_some().then_some(parts);
        Ok(Some(Box::new(Protection {
            idem,
            request,
            parts,
        })))
    }
}

/// Method and route alone.
fn outline(parts: &Parts) -> Parts {
    let (mut outline, ()) = http::Request::new(()).into_parts();
    outline.method = parts.method.clone();
    if let Some(route) = parts.extensions.get::<MatchedPath>() {
        outline.extensions.insert(route.clone());
    }
    outline
}

/// What an operation is called as long as it may have a name of its own.
fn operation(parts: &Parts) -> Operation<'_> {
    match parts.extensions.get::<MatchedPath>() {
        Some(route) => Operation::Route {
            method: parts.method.as_str(),
            route: route.as_str(),
        },
        None => Operation::Named(NAME),
    }
}

/// What a handler is called as long as its name is not known.
pub(crate) const NAME: &str = "an associated function";
