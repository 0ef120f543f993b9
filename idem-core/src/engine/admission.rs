//! Looking at the head of a request: is it protected, is its key valid, what is its operation?

use std::error::Error;

use super::Engine;
use crate::{
    error::NotConfigured,
    key::{IdempotencyKey, KeyRules},
    observe::{EventKind, Name, Operation},
    policy::Policy,
    record::Record,
    rejection::Rejection,
    request::is_safe,
};

/// What to do with a request, as far as its head tells.
#[derive(Debug)]
#[must_use]
pub enum Admission {
    /// Its method is safe, or it has no key and needs none: the handler runs as it is.
    Unprotected,
    /// It has a valid key.
    Keyed(Admitted),
    /// It is refused.
    Rejected(Rejection),
}

/// A request with a valid key.
#[derive(Debug)]
pub struct Admitted {
    pub(super) policy: &'static Policy,
    pub(super) key: IdempotencyKey,
    pub(super) operation: Name,
}

impl Admitted {
    /// The operation, for events.
    pub fn operation(&self) -> Operation<'_> {
        self.operation.shown()
    }
}

impl Engine {
    /// The lower-case name of the header that carries the key of this handler.
    pub fn header<'a>(&'a self, policy: &Policy) -> &'a str {
        policy.header.unwrap_or(&self.0.settings.defaults.header)
    }

    /// Whether the body of a request must be read before its handler's policy is known: it may turn
    /// out to be protected. `has_key` says whether it has the key's header.
    pub fn may_be_keyed(&self, method: &str, has_key: bool) -> bool {
        has_key && !is_safe(method)
    }

    /// Looks at the head of a request: is it protected, and is its key valid?
    ///
    /// `route` gives the route template, and `lines` are the lines of the key's header. Allocates
    /// nothing unless there is a key, and asks for the route only if somebody is to be told of it.
    pub fn admit<'a, R: AsRef<str>>(
        &self,
        policy: &'static Policy,
        method: &str,
        route: impl FnOnce() -> Option<R>,
        lines: impl IntoIterator<Item = &'a [u8]>,
    ) -> Admission {
        if is_safe(method) {
            return Admission::Unprotected;
        }
        let defaults = &self.0.settings.defaults;
        let rules = KeyRules {
            max_len: self.0.settings.max_key_len,
            format: policy.key_format.unwrap_or(defaults.key_format),
        };
        let key = IdempotencyKey::from_lines(lines, &rules);
        let demanded = policy.required.unwrap_or(defaults.required).demands(method);
        let observers = &self.0.observers;
        if matches!(key, Ok(None)) && !demanded && !observers.hear_of_unprotected() {
            observers.count(EventKind::Unprotected);
            return Admission::Unprotected;
        }
        let route = route();
        let route = route.as_ref().map(AsRef::as_ref);
        let operation = match (policy.operation, route) {
            (Some(name), _) => Operation::Named(name),
            (None, Some(route)) => Operation::Route { method, route },
            (None, None) => Operation::Named(policy.name()),
        };
        match key {
            Err(reason) => {
                Admission::Rejected(self.reject(operation, Rejection::KeyInvalid(reason), None))
            }
            Ok(None) if demanded => {
                let header = self.header(policy).into();
                Admission::Rejected(self.reject(operation, Rejection::KeyMissing { header }, None))
            }
            Ok(None) => {
                observers.tell(operation, None, EventKind::Unprotected);
                Admission::Unprotected
            }
            Ok(Some(_)) if policy.operation.is_none() && route.is_none() => {
                let cause = NotConfigured::NoRoute;
                Admission::Rejected(self.reject(operation, Rejection::NotConfigured, Some(&cause)))
            }
            Ok(Some(key)) => Admission::Keyed(Admitted {
                policy,
                key,
                operation: Name::of(operation),
            }),
        }
    }

    /// Tells the observers of a refusal, and passes it on.
    pub fn reject(
        &self,
        operation: Operation<'_>,
        rejection: Rejection,
        cause: Option<&(dyn Error + 'static)>,
    ) -> Rejection {
        let code = rejection.code();
        self.0
            .observers
            .tell(operation, None, EventKind::Rejected { code, cause });
        rejection
    }

    /// The answer to a refusal: a problem document.
    pub fn problem(&self, rejection: &Rejection) -> Record {
        rejection.problem(&self.0.settings.problem_base)
    }
}
