//! What an engine tells the outside: events, and counts of them.
//!
//! An event carries the operation and never a key, a caller or a body. What identifies a record
//! in a log is [`StorageKey`]'s `Display`: eight digits of a digest.

use std::{
    error::Error,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::{decide::Settlement, error::StoreError, key::StorageKey, request::in_words};

/// Hears every event of an engine, beside the log and the counts, which always do.
///
/// It is called on the request's own path and must not block. If it panics, that is logged and
/// changes nothing.
///
/// # Examples
/// ```
/// use idem_core::observe::{Event, EventKind, Observer};
///
/// #[derive(Debug)]
/// struct Alarm;
///
/// impl Observer for Alarm {
///     fn observe(&self, event: &Event<'_>) {
///         if let EventKind::LeaseLost = event.kind {
///             eprintln!("two attempts at {} may have overlapped", event.operation);
///         }
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an `Observer`",
    label = "implement `Observer` for a type of yours; a closure is none"
)]
pub trait Observer: fmt::Debug + Send + Sync + 'static {
    /// Hears one event.
    fn observe(&self, event: &Event<'_>);
}

/// One thing that happened.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Event<'a> {
    /// The operation.
    pub operation: Operation<'a>,
    /// The record, where one was involved.
    pub record: Option<StorageKey>,
    /// What happened.
    pub kind: EventKind<'a>,
}

/// The operation of an event; `Display` gives its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation<'a> {
    /// By name.
    Named(&'a str),
    /// By method and route template.
    Route {
        /// The method.
        method: &'a str,
        /// The route template.
        route: &'a str,
    },
}

/// A method that a client made up is shown as `OTHER`: labels must not grow without end.
impl fmt::Display for Operation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::Route { method, route } => write!(f, "{} {route}", in_words(method)),
        }
    }
}

/// The name of an operation, as it is in the storage key and as it is shown.
#[derive(Debug, Clone)]
pub(crate) struct Name {
    exact: Box<str>,
    /// Where it is not the exact one.
    shown: Option<Box<str>>,
}

impl Name {
    pub(crate) fn of(operation: Operation<'_>) -> Self {
        match operation {
            Operation::Named(name) => Self {
                exact: name.into(),
                shown: None,
            },
            Operation::Route { method, route } => {
                let differs = in_words(method) != method;
                Self {
                    exact: format!("{method} {route}").into(),
                    shown: differs.then(|| operation.to_string().into()),
                }
            }
        }
    }

    /// As it is part of the storage key.
    pub(crate) fn exact(&self) -> &str {
        &self.exact
    }

    pub(crate) fn shown(&self) -> Operation<'_> {
        Operation::Named(self.shown.as_deref().unwrap_or(&self.exact))
    }
}

/// What happened.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum EventKind<'a> {
    /// A handler ran to its end.
    Executed {
        /// The status of its answer; `None` if it panicked.
        status: Option<u16>,
        /// Which attempt it was.
        attempt: u32,
        /// What becomes of the record.
        settlement: Settlement,
        /// Whether that is in the store; if not, the client has its answer, and it is tried further.
        stored: bool,
    },
    /// What came of an attempt is in the store at last.
    StoredLate {
        /// How long after the answer.
        after: Duration,
    },
    /// A request was answered from a record.
    Replayed {
        /// The stored status.
        status: u16,
    },
    /// A request was refused.
    Rejected {
        /// The code of the refusal.
        code: &'static str,
        /// What the client is not told.
        cause: Option<&'a (dyn Error + 'static)>,
    },
    /// A request without a key ran unprotected, on a method that is not safe.
    Unprotected,
    /// A claim was acquired after an earlier attempt had ended without an outcome.
    Takeover {
        /// Which attempt begins.
        attempt: u32,
    },
    /// A lease was renewed later than it should have been.
    RenewalLate {
        /// By how much.
        by: Duration,
    },
    /// A renewal failed and is tried again.
    RenewalFailed {
        /// Why.
        error: &'a StoreError,
    },
    /// Renewal ended because the handler runs longer than `max_execution`. Its lease will lapse.
    RenewalEnded,
    /// Another attempt has the record, or it vanished, while this one runs. Their effects may
    /// both have happened.
    LeaseLost,
    /// Storing what came of an attempt failed and is tried again.
    CompletionRetried {
        /// Why.
        error: &'a StoreError,
    },
    /// Storing what came of an attempt was given up. When the lease lapses, an equal request will
    /// run again.
    CompletionLost {
        /// Why.
        error: &'a StoreError,
    },
    /// A claim whose handler did not start could not be taken back. The key is blocked until its
    /// lease lapses.
    ReleaseFailed {
        /// Why.
        error: &'a StoreError,
    },
    /// A handler ran unprotected because the store was down and the engine was told to go on.
    Bypassed {
        /// Why.
        error: &'a StoreError,
    },
    /// The client left and the handler went on in a task of its own.
    Detached,
}

/// Speaks `tracing`: events of routine at `debug`, of note at `info` and `warn`, failures with
/// their causes at `error`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TracingObserver;

impl Observer for TracingObserver {
    fn observe(&self, event: &Event<'_>) {
        let operation = event.operation;
        let record = event.record.map(tracing::field::display);
        match event.kind {
            EventKind::Executed {
                status,
                attempt,
                settlement,
                stored: false,
            } => {
                tracing::warn!(%operation, record, status, attempt, ?settlement, "executed, not stored yet");
            }
            EventKind::StoredLate { after } => {
                tracing::warn!(%operation, record, ?after, "stored at last");
            }
            EventKind::Executed {
                status,
                attempt,
                settlement,
                stored: true,
            } => match settlement {
                Settlement::Complete => {
                    tracing::info!(%operation, record, status, attempt, "executed, kept");
                }
                Settlement::Release => {
                    tracing::warn!(%operation, record, status, attempt, "executed, released");
                }
                Settlement::Forget => {
                    tracing::info!(%operation, record, status, attempt, "executed, forgotten");
                }
                Settlement::Unknown => {
                    tracing::warn!(%operation, record, status, attempt, "executed, outcome unknown");
                }
            },
            EventKind::Replayed { status } => {
                tracing::info!(%operation, record, status, "replayed");
            }
            EventKind::Rejected { code, cause: None } => {
                tracing::info!(%operation, record, code, "rejected");
            }
            EventKind::Rejected {
                code,
                cause: Some(cause),
            } => {
                let cause = Chain(cause);
                tracing::error!(%operation, record, code, %cause, "rejected");
            }
            EventKind::Unprotected => tracing::debug!(%operation, "no key: runs unprotected"),
            EventKind::Takeover { attempt } => {
                tracing::warn!(%operation, record, attempt, "runs again after an attempt without an outcome");
            }
            EventKind::RenewalLate { by } => {
                tracing::warn!(%operation, record, ?by, "lease renewed late");
            }
            EventKind::RenewalFailed { error } => {
                tracing::warn!(%operation, record, cause = %Chain(error), "lease not renewed, will retry");
            }
            EventKind::RenewalEnded => {
                tracing::error!(%operation, record, "handler exceeds `max_execution`, its lease will lapse");
            }
            EventKind::LeaseLost => {
                tracing::error!(%operation, record, "lease lost while the handler runs");
            }
            EventKind::CompletionRetried { error } => {
                tracing::warn!(%operation, record, cause = %Chain(error), "outcome not stored, will retry");
            }
            EventKind::CompletionLost { error } => {
                tracing::error!(%operation, record, cause = %Chain(error), "outcome lost, a retry may run again");
            }
            EventKind::ReleaseFailed { error } => {
                tracing::error!(%operation, record, cause = %Chain(error), "claim not released, blocked until its lease lapses");
            }
            EventKind::Bypassed { error } => {
                tracing::error!(%operation, cause = %Chain(error), "store is down: runs unprotected");
            }
            EventKind::Detached => {
                tracing::debug!(%operation, record, "client left, handler goes on");
            }
        }
    }
}

/// An error with its causes on one line.
pub(crate) struct Chain<'a>(pub(crate) &'a (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let (mut said, mut cause) = (self.0.to_string(), self.0.source());
        while let Some(error) = cause {
            let says = error.to_string();
            // Some drivers say their cause themselves.
            if !said.ends_with(&says) {
                write!(f, ": {says}")?;
            }
            (said, cause) = (says, error.source());
        }
        Ok(())
    }
}

/// How often each thing happened since the engine was built.
///
/// # Examples
/// ```
/// use idem_core::Counts;
///
/// // As `idem.counts()` gives it.
/// let counts = Counts::default();
/// assert_eq!((counts.executed, counts.replayed, counts.leases_lost), (0, 0, 0));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Handlers that ran to their end under a claim.
    pub executed: u64,
    /// Requests answered from a record.
    pub replayed: u64,
    /// Requests refused.
    pub rejected: u64,
    /// Requests without a key, on methods that are not safe.
    pub unprotected: u64,
    /// Claims that followed an attempt without an outcome.
    pub takeovers: u64,
    /// Renewals that were late.
    pub renewals_late: u64,
    /// Renewals that failed.
    pub renewals_failed: u64,
    /// Attempts that outlived `max_execution`.
    pub renewals_ended: u64,
    /// Leases lost to another attempt, or with their record.
    pub leases_lost: u64,
    /// Completions that were tried again.
    pub completions_retried: u64,
    /// Completions, or releases, that came after the answer.
    pub completions_late: u64,
    /// Completions that were given up.
    pub completions_lost: u64,
    /// Releases that failed.
    pub releases_failed: u64,
    /// Requests that ran unprotected because the store was down.
    pub bypassed: u64,
    /// Handlers that outlived their client.
    pub detached: u64,
}

/// The observers of one engine.
#[derive(Debug)]
pub(crate) struct Observers {
    totals: Totals,
    others: Vec<Arc<dyn Observer>>,
}

impl Observers {
    pub(crate) fn new(others: Vec<Arc<dyn Observer>>) -> Self {
        Self {
            totals: Totals::default(),
            others,
        }
    }

    pub(crate) fn tell(
        &self,
        operation: Operation<'_>,
        record: Option<StorageKey>,
        kind: EventKind<'_>,
    ) {
        let event = Event {
            operation,
            record,
            kind,
        };
        self.count(kind);
        TracingObserver.observe(&event);
        for observer in &self.others {
            // An observer must not cost a record or a lease.
            let heard = catch_unwind(AssertUnwindSafe(|| observer.observe(&event)));
            if heard.is_err() {
                tracing::error!(?observer, "observer panicked");
            }
        }
    }

    /// Counts what nobody else is told of.
    pub(crate) fn count(&self, kind: EventKind<'_>) {
        self.totals.add(kind);
    }

    /// Whether anybody is told of a request that runs unprotected.
    pub(crate) fn hear_of_unprotected(&self) -> bool {
        !self.others.is_empty() || tracing::enabled!(tracing::Level::DEBUG)
    }

    pub(crate) fn counts(&self) -> Counts {
        self.totals.read()
    }
}

macro_rules! totals {
    ($($field:ident: $pattern:pat,)*) => {
        #[derive(Debug, Default)]
        struct Totals { $($field: AtomicU64,)* }

        impl Totals {
            fn add(&self, kind: EventKind<'_>) {
                let total = match kind { $($pattern => &self.$field,)* };
                total.fetch_add(1, Ordering::Relaxed);
            }

            fn read(&self) -> Counts {
                Counts { $($field: self.$field.load(Ordering::Relaxed),)* }
            }
        }
    };
}

totals! {
    executed: EventKind::Executed { .. },
    replayed: EventKind::Replayed { .. },
    rejected: EventKind::Rejected { .. },
    unprotected: EventKind::Unprotected,
    takeovers: EventKind::Takeover { .. },
    renewals_late: EventKind::RenewalLate { .. },
    renewals_failed: EventKind::RenewalFailed { .. },
    renewals_ended: EventKind::RenewalEnded,
    leases_lost: EventKind::LeaseLost,
    completions_retried: EventKind::CompletionRetried { .. },
    completions_late: EventKind::StoredLate { .. },
    completions_lost: EventKind::CompletionLost { .. },
    releases_failed: EventKind::ReleaseFailed { .. },
    bypassed: EventKind::Bypassed { .. },
    detached: EventKind::Detached,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_logged_with_all_its_causes() {
        let cause = StoreError::unavailable("redis", std::io::Error::other("broken pipe"));
        assert_eq!(
            Chain(&cause).to_string(),
            "idempotency store `redis` is unavailable: broken pipe"
        );
    }

    #[test]
    fn each_event_is_counted_once_under_its_name() {
        let observers = Observers::new(Vec::new());
        let operation = Operation::Route {
            method: "POST",
            route: "/pay",
        };
        observers.tell(operation, None, EventKind::Unprotected);
        observers.tell(operation, None, EventKind::Detached);
        observers.tell(operation, None, EventKind::Detached);
        let made_up = Operation::Route {
            method: "X17",
            route: "/pay",
        };
        let name = Name::of(made_up);
        assert_eq!(
            (name.exact(), name.shown().to_string().as_str()),
            ("X17 /pay", "OTHER /pay")
        );
        assert_eq!(Name::of(operation).shown().to_string(), "POST /pay");

        let expected = Counts {
            unprotected: 1,
            detached: 2,
            ..Counts::default()
        };
        assert_eq!(observers.counts(), expected);
        assert_eq!(operation.to_string(), "POST /pay");
    }
}
