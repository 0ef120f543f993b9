//! What goes wrong between us and the server, and what to do about it.

use std::{error::Error, fmt, time::Duration};

use sqlx::{
    error::DatabaseError,
    postgres::{PgDatabaseError, PgSeverity},
};

use super::NAME;
use crate::{
    error::StoreError,
    record::{Unreadable, Unwritable},
};

/// Why a call has no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// The call was not made in a runtime.
    NoRuntime,
    /// No connection was to be had.
    NoConnection { limit: Duration },
    /// Nobody waited for the call any more, and it was not begun.
    Abandoned,
    /// The server did not answer.
    Slow { limit: Duration },
    /// The record changed whenever we looked.
    Contended,
    /// Another transaction holds the record.
    Locked(sqlx::Error),
    /// The disk of the server is full, and nothing was stored.
    Full(sqlx::Error),
    /// There is no table.
    NoTable(sqlx::Error),
    /// A pooler between us and the server mixes prepared statements up.
    Pooler(sqlx::Error),
    /// The row is of a format that this build does not know, or not as this build wrote it.
    Unreadable(Unreadable),
    /// The row has a state that this build does not know.
    State(i16),
    /// A parameter that cannot be sent.
    Parameter(String),
    /// A record that no layout can hold.
    Unwritable(Unwritable),
    /// Anything else that the driver or the server said.
    Driver(sqlx::Error),
}

impl Failure {
    /// The failure that an error of this store comes from.
    pub(super) fn of(error: &StoreError) -> Option<&Self> {
        match error {
            StoreError::Unavailable { source, .. } => source.downcast_ref(),
            StoreError::TimedOut { .. } | StoreError::Panicked | StoreError::Full { .. } => None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRuntime => f.write_str("a call needs a tokio runtime, and there is none"),
            Self::NoConnection { limit } => {
                write!(f, "the pool had no connection within {limit:?}")
            }
            Self::Abandoned => f.write_str("nobody waited for the call any more"),
            Self::Slow { limit } => write!(f, "the server did not answer within {limit:?}"),
            Self::Contended => f.write_str("others changed the record whenever we looked"),
            Self::Locked(_) => f.write_str("another transaction has the record locked"),
            Self::Full(_) => f.write_str("the disk of the server is full"),
            Self::NoTable(_) => f.write_str(
                "the table does not exist; call `PostgresStore::migrate`, or connect with \
                 `PostgresStoreOptions::with_migration`",
            ),
            Self::Pooler(_) => f.write_str(
                "a connection pooler mixed prepared statements up; use PgBouncer 1.21 or later \
                 with `max_prepared_statements` above 0, or `pool_mode = session`",
            ),
            Self::Unreadable(unreadable) => unreadable.fmt(f),
            Self::State(state) => write!(f, "the record has the unknown state {state}"),
            Self::Parameter(error) => f.write_str(error),
            Self::Unwritable(unwritable) => unwritable.fmt(f),
            Self::Driver(error) => error.fmt(f),
        }
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Locked(error)
            | Self::Full(error)
            | Self::NoTable(error)
            | Self::Pooler(error) => Some(error),
            Self::Driver(error) => error.source(),
            Self::Abandoned
            | Self::NoRuntime
            | Self::NoConnection { .. }
            | Self::Slow { .. }
            | Self::Contended
            | Self::Parameter(_)
            | Self::Unreadable(_)
            | Self::State(_)
            | Self::Unwritable(_) => None,
        }
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        StoreError::unavailable(NAME, failure)
    }
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        failed(error)
    }
}

/// What to do about a connection and its statement.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Nothing happened, and it would go better next time.
    Retry,
    /// Nothing happened. The connection is whole.
    GiveUp,
    /// The connection is lost; another one may do.
    Reconnect,
    /// The connection is not to be trusted any more.
    Close,
}

pub(super) fn remedy(error: &sqlx::Error) -> Remedy {
    let sqlx::Error::Database(database) = error else {
        return match error {
            sqlx::Error::Io(_) => Remedy::Reconnect,
            _ => Remedy::Close,
        };
    };
    let code = database.code().unwrap_or_default();
    match &*code {
        // Shut down by an administrator, by a crash, or not up yet.
        "57P01" | "57P02" | "57P03" => Remedy::Reconnect,
        // What a pooler says of itself: it had no connection of the server for us.
        "08P01" if is_fatal(&**database) => Remedy::Reconnect,
        _ if is_fatal(&**database) => Remedy::Close,
        // Serialization failure, deadlock.
        "40001" | "40P01" => Remedy::Retry,
        // A statement that does not fit its table any more, or is another one of that name.
        "0A000" | "42P05" => Remedy::Close,
        _ => match code.get(..2) {
            // The protocol, a standby or a transaction that is not ours, no such statement, a fault of
            // the server: on this connection it may stay so.
            Some("08" | "25" | "26" | "XX") => Remedy::Close,
            // The transaction is rolled back, and that is all.
            _ => Remedy::GiveUp,
        },
    }
}

/// Whether the server ends the connection after this error.
fn is_fatal(error: &dyn DatabaseError) -> bool {
    let severity = error
        .try_downcast_ref::<PgDatabaseError>()
        .map(PgDatabaseError::severity);
    severity != Some(PgSeverity::Error)
}

pub(super) fn failed(error: sqlx::Error) -> Failure {
    let database = error.as_database_error();
    let fatal = database.is_some_and(is_fatal);
    match database.and_then(DatabaseError::code).as_deref() {
        Some("55P03") => Failure::Locked(error),
        Some("53100") => Failure::Full(error),
        Some("42P01") => Failure::NoTable(error),
        // No such prepared statement, one of that name already, parameters of another one.
        Some("26000" | "42P05" | "08P01") if !fatal => Failure::Pooler(error),
        _ => Failure::Driver(error),
    }
}
