//! The request of an associated function, whose policy is known only when it runs.
//!
//! Its body is read whenever there is a key; key and caller are looked at after the last extractor.

use actix_web::{Error, HttpRequest};
use idem_core::{Fingerprint, Policy, Selection, engine::Keyed, observe::Operation};

use crate::{
    install::Idempotency,
    request::{Known, Protection, admit, caller, refuse},
};

/// Stands where a free handler has the type that carries its policy.
#[derive(Debug, Clone, Copy)]
pub struct Associated;

impl Known for Associated {
    const POLICY: Option<&'static Policy> = None;
}

/// A request that waits for its policy.
pub(crate) struct Deferred {
    pub(crate) idem: Idempotency,
    /// Of a request with a key.
    pub(crate) digest: Option<Box<Digest>>,
}

/// What is kept of a body.
pub(crate) struct Digest {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) attempt: idem_core::Attempt,
}

/// Whether the body of a request is to be read.
pub(crate) fn may_be_keyed(idem: &Idempotency, request: &HttpRequest) -> bool {
    let name = idem.0.header.as_ref();
    let has_key = name.is_some_and(|name| request.headers().contains_key(name));
    let engine = &idem.0.engine;
    engine.may_be_keyed(request.method().as_str(), has_key)
}

impl Deferred {
    /// Looks for the key under the handler's policy, and names the caller; `None` if the handler
    /// runs as it is.
    pub(crate) fn settle(
        self,
        policy: &'static Policy,
        request: &HttpRequest,
    ) -> Result<Option<Box<Protection>>, Error> {
        let Self { idem, digest } = self;
        let admitted = match admit(&idem, policy, request) {
            Ok(None) => return Ok(None),
            Ok(Some(admitted)) => admitted,
            Err(rejection) => return Err(refuse(&idem, &rejection, request)),
        };
        let caller = caller(&idem, policy, &admitted, request)?;
        let digest =
            digest.expect("the body was read, since an associated handler names no header");
        let request = Keyed {
            admitted,
            caller,
            fingerprint: digest.fingerprint,
            attempt: Some(digest.attempt),
            selection: Selection::new(),
        };
        Ok(Some(Box::new(Protection { idem, request })))
    }
}

/// What an operation is called as long as it may have a name of its own. `route` is the template.
pub(crate) fn operation<'a>(request: &'a HttpRequest, route: Option<&'a str>) -> Operation<'a> {
    match route {
        Some(route) => Operation::Route {
            method: request.method().as_str(),
            route,
        },
        None => Operation::Named(NAME),
    }
}

/// What a handler is called as long as its name is not known.
pub(crate) const NAME: &str = "an associated function";
