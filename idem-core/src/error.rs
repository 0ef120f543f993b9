//! What can go wrong that is not the client's doing.
//!
//! A [`StoreError`] is nobody's fault, is logged with its cause and becomes an opaque 503. A
//! [`ConfigError`] is the developer's, and is found when the engine is built wherever it can be.

use std::{error::Error, fmt, time::Duration};

/// Why a store could not answer.
///
/// After [`Full`](Self::Full) nothing happened. After any other the effect of the call is not known:
/// it may have happened, or happen later.
#[derive(Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// The store could not be reached, or failed.
    Unavailable {
        /// Which store.
        store: &'static str,
        /// What it or its driver said.
        source: Box<dyn Error + Send + Sync>,
    },
    /// No answer came within the engine's limit.
    TimedOut {
        /// The limit.
        limit: Duration,
    },
    /// The store panicked. What it said is in the panic's own message.
    Panicked,
    /// There is no room for another record, and nothing that has expired to make it.
    Full {
        /// Which store.
        store: &'static str,
    },
}

impl StoreError {
    /// A failure of `store` with its cause.
    ///
    /// # Examples
    /// ```
    /// use idem_core::StoreError;
    ///
    /// let error = StoreError::unavailable("redis", std::io::Error::other("broken pipe"));
    /// assert_eq!(error.to_string(), "idempotency store `redis` is unavailable");
    /// assert_eq!(std::error::Error::source(&error).expect("a cause").to_string(), "broken pipe");
    /// ```
    pub fn unavailable(
        store: &'static str,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self::Unavailable {
            store,
            source: source.into(),
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable { store, .. } => {
                write!(f, "idempotency store `{store}` is unavailable")
            }
            Self::TimedOut { limit } => {
                write!(f, "idempotency store did not answer within {limit:?}")
            }
            Self::Panicked => f.write_str("idempotency store panicked"),
            Self::Full { store } => write!(f, "idempotency store `{store}` is full"),
        }
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unavailable { source, .. } => Some(&**source),
            Self::TimedOut { .. } | Self::Panicked | Self::Full { .. } => None,
        }
    }
}

/// Why an engine could not be built.
///
/// # Examples
/// ```
/// use idem_core::{Builder, ConfigError, MemoryStore};
#[doc = include_str!("adapter/bare.md")]
///
/// let user = |_: &http::request::Parts| None::<String>;
/// let twice = Builder::<Bare>::new(MemoryStore::new()).scope("user", user).scope("user", user);
/// let error = twice.build().err().expect("a scope has one resolver");
/// assert_eq!(error, ConfigError::DuplicateScope { name: "user".to_owned() });
/// assert_eq!(error.to_string(), "the scope `user` has two resolvers");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// A duration or a limit that must not be zero is.
    Zero {
        /// The name of the setting.
        setting: &'static str,
    },
    /// A setting has a value that it cannot have.
    Invalid {
        /// The name of the setting.
        setting: &'static str,
        /// What would be right.
        expected: &'static str,
    },
    /// A resolver was registered twice under one name.
    DuplicateScope {
        /// The name.
        name: String,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero { setting } => write!(f, "`{setting}` must not be zero"),
            Self::Invalid { setting, expected } => write!(f, "`{setting}` must be {expected}"),
            Self::DuplicateScope { name } => {
                write!(f, "the scope `{name}` has two resolvers")
            }
        }
    }
}

impl Error for ConfigError {}

/// Why a store could not be opened when the program started.
///
/// # Examples
/// ```
/// use idem_core::ConnectError;
///
/// let old = ConnectError::TooOld { store: "redis", found: "6.2.7".to_owned(), needed: "7.0" };
/// let message = "idempotency store `redis` is of version 6.2.7; it must be 7.0 or later";
/// assert_eq!((old.to_string(), format!("{old:?}")), (message.to_owned(), message.to_owned()));
/// ```
#[cfg(any(feature = "postgres", feature = "redis"))]
#[non_exhaustive]
pub enum ConnectError {
    /// A setting has a value that it cannot have, such as an address that is none.
    Invalid {
        /// The name of the setting.
        setting: &'static str,
        /// What would be right.
        expected: &'static str,
        /// What the driver said of it.
        source: Option<Box<dyn Error + Send + Sync>>,
    },
    /// The server did not answer, or refused us.
    Unavailable(StoreError),
    /// The server lacks what the store needs.
    TooOld {
        /// Which store.
        store: &'static str,
        /// The version of the server.
        found: String,
        /// The first version that will do.
        needed: &'static str,
    },
    /// The server only has a copy of the records, and takes no writes: a replica or a standby.
    ReadOnly {
        /// Which store.
        store: &'static str,
    },
}

#[cfg(any(feature = "postgres", feature = "redis"))]
impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid {
                setting, expected, ..
            } => write!(f, "`{setting}` must be {expected}"),
            Self::Unavailable(StoreError::Unavailable { store, .. }) => {
                write!(f, "idempotency store `{store}` could not be opened")
            }
            Self::Unavailable(_) => f.write_str("idempotency store could not be opened"),
            Self::TooOld {
                store,
                found,
                needed,
            } => write!(
                f,
                "idempotency store `{store}` is of version {found}; it must be {needed} or later"
            ),
            Self::ReadOnly { store } => write!(
                f,
                "idempotency store `{store}` is a replica; connect to its primary"
            ),
        }
    }
}

/// The message with its causes: it is what a `main` function prints of an error.
#[cfg(any(feature = "postgres", feature = "redis"))]
impl fmt::Debug for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", crate::observe::Chain(self))
    }
}

#[cfg(any(feature = "postgres", feature = "redis"))]
impl Error for ConnectError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Invalid { source, .. } => match source {
                Some(source) => Some(&**source),
                None => None,
            },
            Self::Unavailable(error) => Some(error),
            Self::TooOld { .. } | Self::ReadOnly { .. } => None,
        }
    }
}

/// A mistake of the application that shows only when a request comes. The client gets a bare 500
/// `not-configured`; this is what the log says, and what to write.
///
/// # Examples
/// ```
/// use idem_core::NotConfigured;
///
/// let missing = NotConfigured::NoResolver { scope: "tenant" };
/// assert_eq!(
///     missing.to_string(),
///     "the scope `tenant` has no resolver; register one with `.scope(\"tenant\", …)`"
/// );
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum NotConfigured {
    /// The engine is not installed.
    NoEngine {
        /// How the framework at hand installs it.
        remedy: &'static str,
    },
    /// The request has no route template, as in a fallback handler.
    NoRoute,
    /// What stands before the handler has taken the body, so that nothing tells two requests apart.
    NoBody,
    /// Nobody put a [`Principal`](crate::Principal) there.
    NoPrincipal,
    /// The resolver of this scope found nobody.
    NoCaller {
        /// The name of the scope.
        scope: &'static str,
    },
    /// No resolver has this name.
    NoResolver {
        /// The name of the scope.
        scope: &'static str,
    },
    /// The resolver of this scope failed.
    ResolverFailed {
        /// The name of the scope.
        scope: &'static str,
        /// What it said.
        source: Box<dyn Error + Send + Sync>,
    },
}

impl fmt::Display for NotConfigured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoEngine { remedy } => write!(f, "no `Idempotency` is installed; {remedy}"),
            Self::NoRoute => f.write_str(
                "the handler has no route, so its operation has no name; write `operation = \"…\"` in `#[idempotent]`",
            ),
            Self::NoBody => f.write_str(
                "a middleware has read the body, which is part of what the key stands for; put it back with `set_payload`",
            ),
            Self::NoPrincipal => f.write_str(
                "no `Principal` in the request's extensions; insert one where requests are authenticated, or register a resolver with `.scope(\"user\", …)`",
            ),
            Self::NoCaller { scope } => write!(
                f,
                "the resolver of the scope `{scope}` found no caller; authenticate before the handler, or return `Ok(None)` for an anonymous one"
            ),
            Self::NoResolver { scope } => write!(
                f,
                "the scope `{scope}` has no resolver; register one with `.scope(\"{scope}\", …)`"
            ),
            Self::ResolverFailed { scope, .. } => {
                write!(f, "the resolver of the scope `{scope}` failed")
            }
        }
    }
}

impl Error for NotConfigured {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::ResolverFailed { source, .. } => Some(&**source),
            Self::NoEngine { .. }
            | Self::NoRoute
            | Self::NoBody
            | Self::NoPrincipal
            | Self::NoCaller { .. }
            | Self::NoResolver { .. } => None,
        }
    }
}
