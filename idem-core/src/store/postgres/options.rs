//! What can be set of a store over Postgres, and what is refused.

use std::time::Duration;

use crate::error::ConnectError;

/// The longest name of a table: the server cuts names after 63 bytes, and the longest of ours adds
/// a suffix to it.
const MAX_TABLE_LEN: usize = MAX_NAME_LEN - "_id_len".len();
const MAX_NAME_LEN: usize = 63;

/// The settings of a [`PostgresStore`](crate::PostgresStore).
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// use idem_core::PostgresStoreOptions;
///
/// let options = PostgresStoreOptions::default()
///     .with_schema("payments")
///     .with_table("idempotency")
///     .with_keep_expired(Duration::from_hours(24 * 30))
///     .with_readable_callers();
/// assert_eq!((options.max_connections, options.readable_keys), (10, false));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PostgresStoreOptions {
    /// The schema of the table; none by default, so that the `search_path` finds it. It must exist.
    pub schema: Option<String>,
    /// The name of the table; `idem` by default.
    pub table: String,
    /// Whether connecting creates the table if there is none; it does not by default.
    pub migrate: bool,
    /// The most connections of a pool that the store makes; 10 by default. The lease keeper of an
    /// engine has one more, and a second one while that one does not answer.
    pub max_connections: u32,
    /// The longest that a call takes, with its wait for a connection; 1 s by default. The statement of
    /// one that takes longer keeps its place in the pool until the server has ended it, and for 2 min
    /// at most: a server that stalls has no more of our connections than the pool allows, and further
    /// calls fail for want of one.
    pub timeout: Duration,
    /// The longest that a statement waits for a lock that another transaction holds; 300 ms by
    /// default, just below the third of the engine's store timeout that it gives to one try of a
    /// claim. So a claim that meets a lock ends on the server too. Never more than nine tenths of
    /// `timeout`.
    pub lock_timeout: Duration,
    /// How long an expired record stays readable in the table before a purge drops it; 5 min by
    /// default.
    pub keep_expired: Duration,
    /// Whether the table has the keys of clients in clear; it does not by default.
    pub readable_keys: bool,
    /// Whether the table has the callers in clear; it does not by default.
    pub readable_callers: bool,
}

impl Default for PostgresStoreOptions {
    fn default() -> Self {
        Self {
            schema: None,
            table: "idem".to_owned(),
            migrate: false,
            max_connections: 10,
            timeout: Duration::from_secs(1),
            lock_timeout: Duration::from_millis(300),
            keep_expired: Duration::from_mins(5),
            readable_keys: false,
            readable_callers: false,
        }
    }
}

impl PostgresStoreOptions {
    /// Sets the schema of the table: lower-case letters, digits and underscores.
    #[must_use]
    pub fn with_schema(self, schema: impl Into<String>) -> Self {
        Self {
            schema: Some(schema.into()),
            ..self
        }
    }

    /// Sets the name of the table: lower-case letters, digits and underscores, at most 56 bytes.
    #[must_use]
    pub fn with_table(self, table: impl Into<String>) -> Self {
        Self {
            table: table.into(),
            ..self
        }
    }

    /// Creates the table when the store connects, if there is none. Any number of replicas may start
    /// at once.
    #[must_use]
    pub fn with_migration(self) -> Self {
        Self {
            migrate: true,
            ..self
        }
    }

    /// Sets the most connections of a pool that the store makes.
    #[must_use]
    pub fn with_max_connections(self, max_connections: u32) -> Self {
        Self {
            max_connections,
            ..self
        }
    }

    /// Sets the longest that a call takes.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Sets the longest that a statement waits for a lock.
    #[must_use]
    pub fn with_lock_timeout(self, lock_timeout: Duration) -> Self {
        Self {
            lock_timeout,
            ..self
        }
    }

    /// Sets how long an expired record stays readable in the table.
    #[must_use]
    pub fn with_keep_expired(self, keep_expired: Duration) -> Self {
        Self {
            keep_expired,
            ..self
        }
    }

    /// Stores the keys of clients in clear, for those who read the table.
    #[must_use]
    pub fn with_readable_keys(self) -> Self {
        Self {
            readable_keys: true,
            ..self
        }
    }

    /// Stores the callers in clear, for those who read the table: `7`, or `tenant=acme,user=7`.
    #[must_use]
    pub fn with_readable_callers(self) -> Self {
        Self {
            readable_callers: true,
            ..self
        }
    }

    /// Refuses what cannot be meant.
    pub(super) fn check(&self) -> Result<(), ConnectError> {
        let invalid = |setting, expected| {
            Err(ConnectError::Invalid {
                setting,
                expected,
                source: None,
            })
        };
        if self
            .schema
            .as_ref()
            .is_some_and(|schema| !is_name(schema, MAX_NAME_LEN))
        {
            return invalid(
                "schema",
                "lower-case letters, digits and underscores, at most 63 bytes",
            );
        }
        if !is_name(&self.table, MAX_TABLE_LEN) {
            return invalid(
                "table",
                "lower-case letters, digits and underscores, at most 56 bytes",
            );
        }
        if self.max_connections == 0 {
            return invalid("max_connections", "at least 1");
        }
        // The server takes its lock timeout in whole milliseconds, and zero for none.
        let whole = Duration::from_millis(1)..=Duration::from_hours(1);
        if !whole.contains(&self.timeout) {
            return invalid("timeout", "between 1 ms and 1 h");
        }
        if !whole.contains(&self.lock_timeout) {
            return invalid("lock_timeout", "between 1 ms and 1 h");
        }
        Ok(())
    }
}

/// Whether a text is a plain identifier, which needs no escape between quotes.
fn is_name(text: &str, max_len: usize) -> bool {
    let first = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    let mut bytes = text.bytes();
    text.len() <= max_len
        && bytes.next().is_some_and(first)
        && bytes.all(|byte| first(byte) || byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(options: &PostgresStoreOptions) -> Option<String> {
        options.check().err().map(|error| error.to_string())
    }

    #[test]
    fn a_name_is_a_plain_identifier() {
        let named = |name: &str| PostgresStoreOptions::default().with_table(name);
        for name in ["idem", "_", "a1_b2", &"t".repeat(56)] {
            assert_eq!(refusal(&named(name)), None, "{name}");
        }
        for name in [
            "",
            "1a",
            "Idem",
            "a b",
            "a\"b",
            "a;b",
            "a.b",
            "é",
            &"t".repeat(57),
        ] {
            let said = refusal(&named(name)).expect("no name");
            assert!(
                said.starts_with("`table` must be lower-case"),
                "{name}: {said}"
            );
            let schema = PostgresStoreOptions::default().with_schema(name);
            assert_eq!(refusal(&schema).is_some(), name.len() != 57, "{name}");
        }
    }

    #[test]
    fn a_limit_is_neither_zero_nor_for_ever() {
        let default = PostgresStoreOptions::default;
        let none = refusal(&default().with_max_connections(0));
        assert_eq!(
            none.as_deref(),
            Some("`max_connections` must be at least 1")
        );
        for limit in [Duration::ZERO, Duration::MAX] {
            let said = refusal(&default().with_timeout(limit));
            assert_eq!(
                said.as_deref(),
                Some("`timeout` must be between 1 ms and 1 h")
            );
            let said = refusal(&default().with_lock_timeout(limit));
            assert_eq!(
                said.as_deref(),
                Some("`lock_timeout` must be between 1 ms and 1 h")
            );
        }
    }
}
