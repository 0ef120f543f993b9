//! What a store over Redis can be told.

use std::time::Duration;

use crate::error::ConnectError;

/// How a [`RedisStore`](crate::RedisStore) names its keys, and for what it waits.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// use idem_core::RedisStoreOptions;
///
/// let options = RedisStoreOptions::default()
///     .with_prefix("shop:idem:")
///     .with_timeout(Duration::from_millis(500));
/// assert_eq!(options.prefix, "shop:idem:");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedisStoreOptions {
    /// What each key begins with; `idem:v1:` by default. Without braces: those mark the part of a
    /// key by which a Cluster places it.
    pub prefix: String,
    /// The longest wait for an answer, with the time that it takes to connect; 1 s by default.
    ///
    /// The engine has a limit of its own, [`store_timeout`](crate::Builder::store_timeout), of which
    /// a claim gets a third for each of three tries. The shorter of the two holds.
    pub timeout: Duration,
    /// How many replicas must have a claim and an outcome before they count; none by default.
    pub replicas: Option<WaitReplicas>,
}

/// How many replicas must have a write before it counts, and for how long it waits for them.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// use idem_core::{RedisStoreOptions, WaitReplicas};
///
/// let timeout = Duration::from_millis(100);
/// let options = RedisStoreOptions::default().with_wait_replicas(1, timeout);
/// assert_eq!(options.replicas, Some(WaitReplicas { replicas: 1, timeout }));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitReplicas {
    /// How many; at least one.
    pub replicas: u32,
    /// For how long; longer than zero, and shorter than [`RedisStoreOptions::timeout`].
    pub timeout: Duration,
}

impl RedisStoreOptions {
    /// Sets what each key begins with. Records under another prefix are not seen.
    #[must_use]
    pub fn with_prefix(self, prefix: impl Into<String>) -> Self {
        Self {
            prefix: prefix.into(),
            ..self
        }
    }

    /// Sets the longest wait for an answer.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Lets each claim and each outcome wait until so many replicas have it, at most so long. If
    /// fewer have it by then, the call fails; the engine sends it again, and the write that was done
    /// is recognised.
    ///
    /// It narrows the window in which a failover loses a claim, and does not close it: a replica
    /// without the write may be promoted all the same. It is not consensus.
    ///
    /// It costs a round trip to the slowest of those replicas, and the calls that share the
    /// connection wait for it one after another. Replays wait too, since they begin as claims. Leave
    /// the wait well below a third of the engine's [`store_timeout`](crate::Builder::store_timeout),
    /// and allow the command `WAIT` to the user.
    #[must_use]
    pub fn with_wait_replicas(self, replicas: u32, timeout: Duration) -> Self {
        Self {
            replicas: Some(WaitReplicas { replicas, timeout }),
            ..self
        }
    }

    pub(super) fn check(&self) -> Result<(), ConnectError> {
        let invalid = |setting, expected| {
            Err(ConnectError::Invalid {
                setting,
                expected,
                source: None,
            })
        };
        if self.prefix.contains(['{', '}']) {
            return invalid("prefix", "without braces");
        }
        if self.timeout.is_zero() {
            return invalid("timeout", "longer than zero");
        }
        match self.replicas {
            Some(wait) if wait.replicas == 0 => {
                invalid("wait_replicas", "for at least one replica")
            }
            // The server takes zero for an endless wait.
            Some(wait) if wait.timeout.is_zero() || wait.timeout >= self.timeout => invalid(
                "wait_replicas",
                "longer than zero and shorter than `timeout`",
            ),
            Some(_) | None => Ok(()),
        }
    }
}

impl Default for RedisStoreOptions {
    fn default() -> Self {
        Self {
            prefix: "idem:v1:".to_owned(),
            timeout: Duration::from_secs(1),
            replicas: None,
        }
    }
}
