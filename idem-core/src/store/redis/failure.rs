//! Why a server gave no answer that we can use.

use std::{error::Error, fmt, time::Duration};

use redis::RedisError;

use super::NAME;
use crate::{
    error::{ConnectError, StoreError},
    record::Unreadable,
};

/// What went wrong. It is cloned for all who waited for one connection.
#[derive(Debug, Clone)]
pub(super) enum Failure {
    /// What the server or the driver said.
    Redis(RedisError),
    /// There was no answer in time.
    TimedOut { limit: Duration },
    /// The runtime in which a connection was made has ended.
    Stopped,
    /// The server is of this version.
    TooOld { found: String },
    /// The server is a replica.
    Replica,
    /// The server is of another kind than the one that it was taken for.
    Mode { expected: &'static str },
    /// The server has no room.
    Full,
    /// The write was done, and too few replicas have it.
    Unacknowledged { by: u64, of: u32 },
    /// There is a record that this build cannot read. It was not touched.
    Unreadable(Unreadable),
    /// The record was ours, and was not a moment later.
    Changed,
    /// The answer is none that our command can have.
    Answer,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // At a level of its own it would only say the same again.
            Self::Redis(error) => error.fmt(f),
            Self::TimedOut { limit } => write!(f, "no answer within {limit:?}"),
            Self::Stopped => f.write_str("the runtime ended while the connection was made"),
            Self::TooOld { found } => write!(f, "the server is of version {found}"),
            Self::Replica => f.write_str("the server is a replica"),
            Self::Mode { expected } => write!(f, "the server is not {expected}"),
            Self::Full => f.write_str("the server has no memory left"),
            Self::Unacknowledged { by, of } => write!(f, "{by} of {of} replicas acknowledged"),
            Self::Unreadable(unreadable) => unreadable.fmt(f),
            Self::Changed => f.write_str("the record changed meanwhile"),
            Self::Answer => f.write_str("the server gave an answer that makes no sense"),
        }
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Redis(error) => error.source(),
            Self::Unreadable(unreadable) => unreadable.source(),
            Self::TimedOut { .. }
            | Self::Stopped
            | Self::TooOld { .. }
            | Self::Replica
            | Self::Mode { .. }
            | Self::Full
            | Self::Unacknowledged { .. }
            | Self::Changed
            | Self::Answer => None,
        }
    }
}

impl From<RedisError> for Failure {
    fn from(error: RedisError) -> Self {
        Self::Redis(error)
    }
}

impl From<Unreadable> for Failure {
    fn from(unreadable: Unreadable) -> Self {
        Self::Unreadable(unreadable)
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Full => Self::Full { store: NAME },
            other => Self::unavailable(NAME, other),
        }
    }
}

impl From<Failure> for ConnectError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::TooOld { found } => Self::TooOld {
                store: NAME,
                found,
                needed: super::server::OLDEST,
            },
            Failure::Replica => Self::ReadOnly { store: NAME },
            Failure::Mode { expected } => Self::Invalid {
                setting: "url",
                expected,
                source: None,
            },
            other => Self::Unavailable(other.into()),
        }
    }
}
