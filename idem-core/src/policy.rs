//! How one handler is protected, and where its unwritten values come from.
//!
//! A [`Policy`] is built in a constant by the attribute. What it leaves open is taken from the
//! engine's [`Defaults`]; only where the engine sets nothing either do the values of this file
//! hold. Nothing here decides anything about a request.

use std::time::Duration;

use crate::{key::KeyFormat, scope::Scope};

/// The life of a completed record, from its completion: 24 hours.
pub const DEFAULT_TTL: Duration = Duration::from_hours(24);
/// How long a claim lives unrenewed: 30 seconds.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(30);
/// The header that carries the key, in lower case.
pub const DEFAULT_HEADER: &str = "idempotency-key";

/// How long an unknown outcome is kept, if its `ttl` is shorter: somebody must have time to decide.
pub(crate) const UNKNOWN_KEPT: Duration = Duration::from_hours(7 * 24);
/// The longest duration that is taken: 36,500 days.
pub(crate) const LONGEST: Duration = Duration::from_hours(36_500 * 24);

/// What the attribute says about one handler. Built in a constant; each setter is one argument.
///
/// # Examples
/// ```
/// use idem_core::{Policy, Scope};
/// use std::time::Duration;
///
/// const POLICY: &Policy = &Policy::new("shop::create_payment")
///     .scope(Scope::User)
///     .ttl(Duration::from_secs(86_400));
/// assert_eq!(POLICY.name(), "shop::create_payment");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    name: &'static str,
    pub(crate) scope: Scope,
    pub(crate) ttl: Option<Duration>,
    pub(crate) lease: Option<Duration>,
    pub(crate) wait: Option<Duration>,
    pub(crate) required: Option<Required>,
    pub(crate) header: Option<&'static str>,
    pub(crate) key_format: Option<KeyFormat>,
    pub(crate) operation: Option<&'static str>,
    pub(crate) on_lapse: Option<OnLapse>,
}

impl Policy {
    /// A policy that leaves everything to the engine. `name` is the path of the handler, for logs.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            scope: Scope::User,
            ttl: None,
            lease: None,
            wait: None,
            required: None,
            header: None,
            key_format: None,
            operation: None,
            on_lapse: None,
        }
    }

    /// The path of the handler.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Sets the namespace in which a key is unique.
    #[must_use]
    pub const fn scope(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }

    /// Sets the life of a completed record, from its completion.
    ///
    /// # Panics
    /// If it is zero. In a constant, where the attribute puts it, that is a compile error.
    #[must_use]
    pub const fn ttl(self, ttl: Duration) -> Self {
        Self {
            ttl: Some(nonzero(ttl)),
            ..self
        }
    }

    /// Sets how long a claim lives unrenewed.
    ///
    /// # Panics
    /// If it is zero, as [`ttl`](Self::ttl).
    #[must_use]
    pub const fn lease(self, lease: Duration) -> Self {
        Self {
            lease: Some(nonzero(lease)),
            ..self
        }
    }

    /// Waits this long for a running request with the same key, instead of refusing at once.
    ///
    /// # Panics
    /// If it is zero, as [`ttl`](Self::ttl).
    #[must_use]
    pub const fn wait(self, wait: Duration) -> Self {
        Self {
            wait: Some(nonzero(wait)),
            ..self
        }
    }

    /// Refuses requests without a key.
    #[must_use]
    pub const fn required(self, required: Required) -> Self {
        Self {
            required: Some(required),
            ..self
        }
    }

    /// The header that carries the key, where it is not the engine's; in lower case.
    pub const fn own_header(&self) -> Option<&'static str> {
        self.header
    }

    /// Reads the key from another header. `name` is in lower case.
    #[must_use]
    pub const fn header(self, name: &'static str) -> Self {
        Self {
            header: Some(name),
            ..self
        }
    }

    /// Refuses keys of another form.
    #[must_use]
    pub const fn key_format(self, format: KeyFormat) -> Self {
        Self {
            key_format: Some(format),
            ..self
        }
    }

    /// Names the operation, in place of method and route.
    ///
    /// Records are found by it, so that they are kept apart from those of other operations, whatever
    /// the route is called. The path is still part of the fingerprint: after a change of the route a
    /// retry on the new path is refused with 409 `key-reused`, and not replayed. Nothing runs twice.
    #[must_use]
    pub const fn operation(self, operation: &'static str) -> Self {
        Self {
            operation: Some(operation),
            ..self
        }
    }

    /// Says what happens to a key whose owner is gone.
    #[must_use]
    pub const fn on_lapse(self, on_lapse: OnLapse) -> Self {
        Self {
            on_lapse: Some(on_lapse),
            ..self
        }
    }

    /// Fills what the handler left open.
    pub(crate) fn effective(&self, defaults: &Defaults) -> Effective {
        Effective {
            ttl: self.ttl.unwrap_or(defaults.ttl),
            lease: self.lease.unwrap_or(defaults.lease),
            wait: self.wait.or(defaults.wait),
            on_lapse: self.on_lapse.unwrap_or(defaults.on_lapse),
        }
    }
}

/// Passes a duration that is longer than zero, and no longer than 36,500 days.
///
/// # Panics
/// If it is not. In a constant that is a compile error at the expression.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// const TTL: Duration = idem_core::nonzero(Duration::from_hours(24));
/// assert_eq!(TTL, Duration::from_secs(86_400));
/// ```
/// ```compile_fail
/// const TTL: std::time::Duration = idem_core::nonzero(std::time::Duration::ZERO);
/// # let _ = TTL;
/// ```
#[track_caller]
pub const fn nonzero(duration: Duration) -> Duration {
    assert!(!duration.is_zero(), "the duration must be longer than zero");
    assert!(
        duration.as_secs() <= LONGEST.as_secs(),
        "the duration must be at most 36500 days"
    );
    duration
}

/// Which requests without a key are refused with 400 `key-missing`. Those of safe methods never are.
///
/// # Examples
/// ```
/// use idem_core::{Builder, MemoryStore, Policy, Required, engine::Admission};
#[doc = include_str!("adapter/bare.md")]
///
/// let idem: Bare = Builder::new(MemoryStore::new()).build()?;
/// static POLICY: Policy = Policy::new("shop::payment").required(Required::Creating);
/// let keyless = |method| idem.engine.admit(&POLICY, method, || Some("/payments/{id}"), []);
///
/// assert!(matches!(keyless("POST"), Admission::Rejected(refused) if refused.code() == "key-missing"));
/// assert!(matches!(keyless("PUT"), Admission::Unprotected));
/// assert!(matches!(keyless("GET"), Admission::Unprotected));
/// # Ok::<(), idem_core::ConfigError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Required {
    /// None: a request without a key runs unprotected and is counted.
    #[default]
    Never,
    /// POST and PATCH, the methods that are not idempotent by themselves.
    Creating,
    /// Every method but GET, HEAD, OPTIONS and TRACE.
    Any,
}

impl Required {
    /// Whether a request with this unsafe `method` must carry a key.
    pub(crate) fn demands(self, method: &str) -> bool {
        match self {
            Self::Never => false,
            Self::Creating => matches!(method, "POST" | "PATCH"),
            Self::Any => true,
        }
    }
}

/// What happens to a key whose owner's lease ran out without an answer.
///
/// # Examples
/// ```
/// use idem_core::{OnLapse, Policy};
///
/// // Better not paid than paid twice.
/// const POLICY: &Policy = &Policy::new("shop::create_payout").on_lapse(OnLapse::Unknown);
/// assert_eq!(POLICY.name(), "shop::create_payout");
/// assert_eq!(OnLapse::default(), OnLapse::Takeover);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnLapse {
    /// The next equal request runs the handler again, with a larger fence.
    #[default]
    Takeover,
    /// Nothing runs until somebody decides, for seven days or for `ttl` if that is longer; answered
    /// with 409 `outcome-unknown`. A server error and a panic are ends, and are released all the
    /// same, unless the handler answers with [`Outcome::Unknown`].
    Unknown,
}

/// What a handler that returned is worth, said by the handler itself in a response extension.
///
/// # Examples
/// ```
/// use idem_core::Outcome;
///
/// // In axum: `(StatusCode::CONFLICT, Extension(Outcome::Release), "out of stock")`
/// // On actix-web: `Outcome::Release.with(HttpResponse::Conflict().body("out of stock"))`
/// assert_ne!(Outcome::Keep, Outcome::Release);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Store the answer and replay it, whatever its status.
    Keep,
    /// Store nothing and let the next equal request run. The key stays bound to its fingerprint.
    Release,
    /// Store nothing and forget the key: the next request with it may be any.
    Forget,
    /// Nobody knows whether the effect happened: nothing runs until somebody decides.
    Unknown,
}

/// What holds for every handler that does not say otherwise.
#[derive(Debug, Clone)]
pub(crate) struct Defaults {
    pub(crate) ttl: Duration,
    pub(crate) lease: Duration,
    pub(crate) wait: Option<Duration>,
    pub(crate) required: Required,
    pub(crate) header: Box<str>,
    pub(crate) key_format: KeyFormat,
    pub(crate) on_lapse: OnLapse,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            ttl: DEFAULT_TTL,
            lease: DEFAULT_LEASE,
            wait: None,
            required: Required::Never,
            header: DEFAULT_HEADER.into(),
            key_format: KeyFormat::Any,
            on_lapse: OnLapse::Takeover,
        }
    }
}

/// The values that hold for one request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effective {
    pub(crate) ttl: Duration,
    pub(crate) lease: Duration,
    pub(crate) wait: Option<Duration>,
    pub(crate) on_lapse: OnLapse,
}

impl Effective {
    /// How long an unfinished record lives: where it must not run again, until somebody had time
    /// to decide.
    pub(crate) fn unfinished(&self) -> Duration {
        match self.on_lapse {
            OnLapse::Takeover => self.ttl,
            OnLapse::Unknown => self.ttl.max(UNKNOWN_KEPT),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_wins_over_the_engine_and_the_engine_over_the_default() {
        let silent = Policy::new("h");
        let written = silent
            .ttl(Duration::from_secs(1))
            .on_lapse(OnLapse::Unknown);
        let defaults = Defaults {
            ttl: Duration::from_secs(2),
            ..Defaults::default()
        };

        assert_eq!(silent.effective(&Defaults::default()).ttl, DEFAULT_TTL);
        assert_eq!(silent.effective(&defaults).ttl, Duration::from_secs(2));
        assert_eq!(written.effective(&defaults).ttl, Duration::from_secs(1));
        assert_eq!(written.effective(&defaults).on_lapse, OnLapse::Unknown);
    }

    #[test]
    fn required_asks_only_the_methods_it_names() {
        for (required, method, demanded) in [
            (Required::Never, "POST", false),
            (Required::Creating, "POST", true),
            (Required::Creating, "PATCH", true),
            (Required::Creating, "PUT", false),
            (Required::Creating, "DELETE", false),
            (Required::Any, "PUT", true),
            (Required::Any, "QUERY", true),
        ] {
            assert_eq!(required.demands(method), demanded, "{required:?} {method}");
        }
    }
}
