//! The store over Postgres: a row for each key, a statement for each call.
//!
//! Invariant: each call is one statement, which is a transaction of its own, and the server's clock
//! alone decides about leases and lives. No session state, no session-level lock, no `LISTEN`.
//!
//! Deliberately not here: waiting on the server. Whoever waits for an attempt looks at its row now
//! and then, and holds no connection in between.

mod call;
mod failure;
mod options;
mod renew;
mod rows;
mod statements;
#[cfg(any(test, feature = "conformance"))]
mod turned;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use sqlx::{
    ConnectOptions, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use tokio::time::{Instant, timeout};

pub use self::options::PostgresStoreOptions;
use self::{
    call::{Database, Statement},
    failure::Failure,
    rows::{Columns, OwnerId, millis, text},
    statements::Statements,
};
use crate::{
    error::{ConnectError, StoreError},
    key::StorageKey,
    record::Record,
    store::{
        Audit, Claim, ClaimRequest, Completion, Fence, LeaseRef, Owner, Release, Released, Renewal,
        Resolve, Resolved, Store, Summary, Takeover, watch::Watch,
    },
};

/// What errors call this store.
const NAME: &str = "postgres";
/// The first version whose SQL and whose table settings are those that we use.
const OLDEST: i32 = 13_00_00;
/// What replicas that start at once take turns on: "idem".
const MIGRATION_LOCK: i64 = 0x6964_656d;
/// How long replicas that start at once may wait for the one that creates the table.
const MIGRATION_LIMIT: Duration = Duration::from_secs(30);
/// A connection that was idle for longer is asked whether it still lives before it is used.
const TRUSTED_FOR: Duration = Duration::from_secs(5);

/// The store over Postgres 13 or later: each record is a row, which stays readable for audit and
/// reconciliation until a purge drops it.
///
/// A clone is another handle on the same records. A first execution costs two statements, its claim
/// and its completion; a replay costs one, which writes nothing.
///
/// # The table
///
/// [`migrate`](Self::migrate) creates it, and so does the file `migrations/0001_idem.sql` of this
/// crate when another tool runs it. Its columns are meant to be read:
/// ```sql
/// SELECT created_at, completed_at, operation, status, reference, attempts
/// FROM idem
/// WHERE state = 2 AND created_at > now() - interval '1 day';
/// ```
/// `state` is 0 for a released record, 1 in progress, 2 completed, 3 unknown. Keys and callers are
/// there as digests, unless [`PostgresStoreOptions`] ask for more: `caller_digest` is equal for all
/// records of one caller. To write to the table is to take part in the protocol; let only
/// [`resolve`](Store::resolve) do so.
///
/// A row whose `format` this build does not know is never taken over, completed or released. Its
/// request is answered with 500 `record-unreadable` until a purge drops it.
///
/// The role of the application needs `SELECT`, `INSERT`, `UPDATE` and `DELETE` on the table, and the
/// right to create it only where it migrates.
///
/// # Expired records
///
/// An expired record is absent for every call at once, and is dropped by the purge of an engine,
/// [`keep_expired`](PostgresStoreOptions::keep_expired) later. Any number of engines may purge at
/// once. Where the database is to do so itself, switch it off with
/// [`Builder::without_purge`](crate::Builder::without_purge) and let `pg_cron` run this:
/// ```sql
#[doc = include_str!("postgres/pg_cron.sql")]
/// ```
/// Its 5 minutes are what `keep_expired` is for an engine, which has no say in this. It drops 10 000
/// rows a minute at most, as many as 166 new keys a second leave behind. Where there are more, raise
/// its `LIMIT`, or let it run more often: since version 1.5, `'10 seconds'` is a schedule too.
///
/// # Durability
///
/// A claim that was acknowledged must survive whatever the database survives: a claim that is
/// forgotten is a handler that runs twice. So leave `fsync` and `synchronous_commit` on. Where a
/// standby may be promoted, name a quorum in `synchronous_standby_names`: with asynchronous replicas
/// a failover forgets the claims and the outcomes that the new primary had not received, and the
/// requests that belong to them run again when they are retried. Only the primary is asked: a
/// standby cannot claim.
///
/// # Poolers
///
/// A pooler in session mode needs nothing. In transaction mode it has to follow prepared statements:
/// `PgBouncer` 1.21 or later with `max_prepared_statements` above 0. Without that, errors say so.
///
/// # Errors
///
/// [`StoreError::Unavailable`] with a [source](std::error::Error::source) that says what happened.
/// Serialization failures and deadlocks are none: whatever the default isolation level, a statement
/// that meets one is sent again within the limit of the call.
///
/// # Cancel safety
///
/// Each call is carried out in a task of its own, and ends within
/// [`timeout`](PostgresStoreOptions::timeout), whether or not anybody still waits for it. It needs a
/// tokio runtime with its timer and I/O enabled. A connection lives on the runtime on which it was
/// made: where several runtimes share a pool, one that is blocked or has ended can cost another one a
/// call.
///
/// # Examples
/// ```no_run
/// use idem_core::{PostgresStore, PostgresStoreOptions};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), idem_core::ConnectError> {
/// let options = PostgresStoreOptions::default().with_migration();
/// let store = PostgresStore::connect_with("postgres://shop@localhost/shop", options).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct PostgresStore {
    database: Database,
    shared: Arc<Shared>,
}

/// What all handles share.
struct Shared {
    statements: Statements,
    options: PostgresStoreOptions,
    lock_timeout: String,
    watch: Watch,
}

impl PostgresStore {
    /// Connects to a database, with the default options: a pool of 10 connections, the table `idem`
    /// on the `search_path`, and a limit of 1 s for each call.
    ///
    /// # Errors
    /// As [`connect_with`](Self::connect_with).
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example() -> Result<(), idem_core::ConnectError> {
    /// use idem_core::PostgresStore;
    ///
    /// let store = PostgresStore::connect("postgres://shop:secret@localhost/shop").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        Self::connect_with(url, PostgresStoreOptions::default()).await
    }

    /// Connects to a database, creates the table if the options ask for it, and
    /// [checks](Self::check) both.
    ///
    /// # Errors
    /// [`ConnectError::Invalid`] for a setting that cannot be meant, or a table that does not exist;
    /// [`ConnectError::TooOld`] for a server before version 13; [`ConnectError::ReadOnly`] for a
    /// standby; [`ConnectError::Unavailable`] if the server did not answer, or refused us.
    ///
    /// # Cancel safety
    /// Cancel safe: what was connected is closed.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example() -> Result<(), idem_core::ConnectError> {
    /// use idem_core::{PostgresStore, PostgresStoreOptions};
    ///
    /// let options = PostgresStoreOptions::default().with_schema("payments").with_max_connections(20);
    /// let store = PostgresStore::connect_with("postgres://localhost/shop", options).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect_with(
        url: &str,
        options: PostgresStoreOptions,
    ) -> Result<Self, ConnectError> {
        options.check()?;
        call::runtime().map_err(|none| ConnectError::Unavailable(none.into()))?;
        // PgBouncer refuses a start-up parameter that it does not know. And our statements are always
        // the same ones.
        let address = address(url)?
            .extra_float_digits(None)
            .disable_statement_logging();
        // A pool that finds no server would only say that it has no connection.
        let limit = options.timeout;
        let greeted = match timeout(limit, address.connect()).await {
            Ok(connected) => connected.map_err(failure::failed),
            Err(_) => Err(Failure::Slow { limit }),
        };
        drop(greeted.map_err(|failure| ConnectError::Unavailable(failure.into()))?);
        // A connection that was lost without a word leaves the call the time to make another one.
        let ping_limit = options.timeout / 10;
        let pool = PgPoolOptions::new()
            .max_connections(options.max_connections)
            .acquire_timeout(options.timeout)
            .test_before_acquire(false)
            .before_acquire(move |connection, meta| {
                Box::pin(async move {
                    if meta.idle_for > TRUSTED_FOR {
                        let ping = timeout(ping_limit, sqlx::Connection::ping(connection)).await;
                        ping.map_err(|late| sqlx::Error::Io(late.into()))??;
                    }
                    Ok(true)
                })
            })
            .connect_lazy_with(address);
        let store = Self::from_pool_with(pool, options)?;
        store.check_server().await?;
        if store.shared.options.migrate {
            store.migrate().await?;
        }
        store.check_table().await?;
        Ok(store)
    }

    /// Shares a pool with the application, with the default options. Nothing is checked yet; see
    /// [`check`](Self::check) and [`migrate`](Self::migrate).
    ///
    /// No call holds a connection while a handler runs or a request waits. The pool is of sqlx 0.9.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use idem_core::PostgresStore;
    ///
    /// let pool = sqlx::PgPool::connect("postgres://localhost/shop").await?;
    /// let store = PostgresStore::from_pool(pool);
    /// store.migrate().await?;
    /// store.check().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_pool(pool: PgPool) -> Self {
        Self::new(pool, PostgresStoreOptions::default())
    }

    /// Shares a pool with the application. Of the options, `max_connections` and `migrate` say nothing
    /// here: the pool is the application's, and [`migrate`](Self::migrate) is called.
    ///
    /// # Errors
    /// [`ConnectError::Invalid`] for a setting that cannot be meant.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use idem_core::{PostgresStore, PostgresStoreOptions};
    ///
    /// let pool = sqlx::PgPool::connect("postgres://localhost/shop").await?;
    /// let options = PostgresStoreOptions::default().with_table("idempotency_keys");
    /// let store = PostgresStore::from_pool_with(pool, options)?;
    /// store.check().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_pool_with(
        pool: PgPool,
        options: PostgresStoreOptions,
    ) -> Result<Self, ConnectError> {
        options.check()?;
        Ok(Self::new(pool, options))
    }

    fn new(pool: PgPool, options: PostgresStoreOptions) -> Self {
        Self {
            database: Database::new(pool, options.timeout),
            shared: Arc::new(Shared {
                statements: Statements::new(&options),
                // A little less than a call, so that a wait ends on the server.
                lock_timeout: millis(options.lock_timeout.min(options.timeout / 10 * 9))
                    .to_string(),
                options,
                watch: Watch::default(),
            }),
        }
    }

    /// Creates the table and its index, if they are not there. Any number of replicas may start at
    /// once. The schema must exist.
    ///
    /// Where the application's role may not create tables, run `migrations/0001_idem.sql` with
    /// another; this then finds nothing to do.
    ///
    /// # Errors
    /// [`ConnectError::Unavailable`]: the table may be there or not. It is safe to migrate again.
    ///
    /// # Cancel safety
    /// Cancel safe: it is one transaction, which ends by itself.
    pub async fn migrate(&self) -> Result<(), ConnectError> {
        let statements = self.statements();
        let exists = Statement::new(&statements.exists)
            .bind(&*statements.table)
            .bind(&*statements.index);
        let there = self.database.ask(exists, rows::there).await;
        // Who may not create tables may still start where there is one.
        if there.map_err(ConnectError::Unavailable)? {
            return Ok(());
        }
        // One transaction, in one message, so that it is one behind a pooler too. Without the lock
        // two that create the same table at once could both fail.
        let script = format!(
            "SELECT pg_advisory_xact_lock({MIGRATION_LOCK});\n{}",
            statements.migrate
        );
        let created = self.database.run(script, MIGRATION_LIMIT).await;
        created.map_err(ConnectError::Unavailable)
    }

    /// Checks that server and table will do, as [`connect`](Self::connect) does: the server is of
    /// version 13 or later, a primary, and stores UTF-8; the table exists, and may be read.
    ///
    /// # Errors
    /// As [`connect_with`](Self::connect_with).
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn check(&self) -> Result<(), ConnectError> {
        self.check_server().await?;
        self.check_table().await
    }

    async fn check_server(&self) -> Result<(), ConnectError> {
        let asked = self
            .database
            .ask(Statement::new(&self.statements().server), rows::server);
        let server = asked.await.map_err(ConnectError::Unavailable)?;
        if server.number < OLDEST {
            return Err(ConnectError::TooOld {
                store: NAME,
                found: server.version,
                needed: "13",
            });
        }
        if server.copies {
            return Err(ConnectError::ReadOnly { store: NAME });
        }
        if server.encoding != "UTF8" {
            return Err(ConnectError::Invalid {
                setting: "server_encoding",
                expected: "UTF8",
                source: None,
            });
        }
        Ok(())
    }

    async fn check_table(&self) -> Result<(), ConnectError> {
        let nobody = StorageKey::from_bytes([0; 32]);
        match self.inspect(&nobody).await {
            Ok(_) => Ok(()),
            Err(error) if matches!(Failure::of(&error), Some(Failure::NoTable(_))) => {
                Err(ConnectError::Invalid {
                    setting: "table",
                    expected: "the name of a table that exists",
                    source: Some(error.into()),
                })
            }
            Err(error) => Err(ConnectError::Unavailable(error)),
        }
    }

    fn statements(&self) -> &Statements {
        &self.shared.statements
    }

    /// A statement that changes a record, with its first parameters.
    fn change(&self, sql: &Arc<str>, key: &StorageKey) -> Statement {
        Statement::new(sql)
            .bind(&*self.shared.lock_timeout)
            .bind(&key.as_bytes()[..])
    }

    /// The parameters that say whose record it is.
    fn with_audit(&self, statement: Statement, audit: &Audit<'_>) -> Statement {
        let options = &self.shared.options;
        let key = options.readable_keys.then(|| audit.key.as_str());
        let caller = options.readable_callers.then(|| audit.caller.to_clear());
        statement
            .bind(text(audit.namespace))
            .bind(text(audit.operation))
            .bind(audit.key.hint())
            .bind(&audit.caller.digest()[..])
            .bind(key)
            .bind(caller.flatten().as_deref().map(text))
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address is left out: it may have a password.
        f.debug_struct("PostgresStore")
            .field("table", &self.statements().table)
            .field("connections", &self.database.pool().size())
            .field("idle", &self.database.pool().num_idle())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn claim(&self, claim: &ClaimRequest<'_>) -> Result<Claim, StoreError> {
        let statements = self.statements();
        let statement = self
            .change(&statements.claim, claim.key)
            .bind(OwnerId(claim.owner))
            .bind(claim.fingerprint.as_bytes())
            .bind(millis(claim.lease))
            .bind(millis(claim.ttl));
        let statement = self
            .with_audit(statement, &claim.audit)
            .bind(claim.takeover == Takeover::Allowed);
        let statement = statement.after(&statements.claim_first);
        let claimed = self.database.ask(statement, rows::claim).await;
        claimed.map_err(|error| match Failure::of(&error) {
            // The transaction was rolled back: nothing happened.
            Some(Failure::Full(_)) => StoreError::Full { store: NAME },
            _ => error,
        })
    }

    async fn renew(&self, leases: &[LeaseRef<'_>]) -> Result<Vec<Renewal>, StoreError> {
        let limit = self.shared.options.timeout;
        renew::renew(&self.database, &self.statements().renew, leases, limit).await
    }

    async fn complete(
        &self,
        lease: &LeaseRef<'_>,
        record: &Record,
        ttl: Duration,
    ) -> Result<Completion, StoreError> {
        let columns = Columns::of(record).map_err(Failure::Unwritable)?;
        let statement = self
            .change(&self.statements().complete, lease.key)
            .bind(OwnerId(lease.owner))
            .bind(lease.fingerprint.as_bytes())
            .bind(millis(ttl));
        let statement = self
            .with_audit(statement, &lease.audit)
            .bind(columns.status)
            .bind(columns.flags)
            .bind(&columns.headers[..])
            .bind(&columns.body[..])
            .bind(columns.reference)
            .bind(lease.grant.map(|grant| rows::fence(grant.fence)))
            .bind(lease.grant.map(|grant| grant.attempt.cast_signed()));
        let statement = statement.after(&self.statements().complete_first);
        let completion = self.database.ask(statement, rows::completion).await?;
        self.shared.watch.ended(lease.key);
        Ok(completion)
    }

    async fn release(&self, lease: &LeaseRef<'_>, how: Release) -> Result<Released, StoreError> {
        let (how, keep) = match how {
            Release::Bound => (0_i16, None),
            Release::Forget => (1, None),
            Release::Undo => (2, None),
            Release::Unknown { keep } => (3, Some(millis(keep))),
        };
        let statement = self
            .change(&self.statements().release, lease.key)
            .bind(OwnerId(lease.owner))
            .bind(how)
            .bind(keep);
        let released = self.database.ask(statement, rows::released).await?;
        self.shared.watch.ended(lease.key);
        Ok(released)
    }

    async fn inspect(&self, key: &StorageKey) -> Result<Option<Summary>, StoreError> {
        let statement = Statement::new(&self.statements().inspect).bind(&key.as_bytes()[..]);
        self.database.ask(statement, rows::summary).await
    }

    async fn resolve(
        &self,
        key: &StorageKey,
        expected: Fence,
        how: Resolve,
    ) -> Result<Resolved, StoreError> {
        let statements = self.statements();
        let expected = rows::fence(expected);
        let stays = |state: i16| {
            self.change(&statements.resolve, key)
                .bind(expected)
                .bind(OwnerId(Owner::random()))
                .bind(state)
        };
        let statement = match how {
            Resolve::Complete { record, ttl } => {
                let columns = Columns::of(&record).map_err(Failure::Unwritable)?;
                stays(2)
                    .bind(millis(ttl))
                    .bind(columns.status)
                    .bind(columns.flags)
                    .bind(&columns.headers[..])
                    .bind(&columns.body[..])
                    .bind(columns.reference)
            }
            Resolve::Release => stays(0)
                .bind(None::<i64>)
                .bind(None::<i16>)
                .bind(0_i16)
                .bind(None::<&[u8]>)
                .bind(None::<&[u8]>)
                .bind(None::<&str>),
            Resolve::Forget => self.change(&statements.forget, key).bind(expected),
        };
        let resolved = self.database.ask(statement.once(), rows::resolved).await?;
        self.shared.watch.ended(key);
        Ok(resolved)
    }

    async fn changed(&self, key: &StorageKey, until: Instant) -> Result<(), StoreError> {
        call::runtime()?;
        let runs = || {
            let statement = Statement::new(&self.statements().runs).bind(&key.as_bytes()[..]);
            self.database.ask(statement, rows::runs)
        };
        self.shared.watch.wait(key, until, runs).await
    }

    async fn purge(&self, limit: u32) -> Result<u64, StoreError> {
        let statement = Statement::new(&self.statements().purge)
            .bind(i64::from(limit))
            .bind(millis(self.shared.options.keep_expired));
        self.database.ask(statement, rows::purged).await
    }

    async fn reopen(&self) -> Result<Arc<dyn Store>, StoreError> {
        Ok(Arc::new(Self {
            database: self.database.reopen().await?,
            shared: Arc::clone(&self.shared),
        }))
    }
}

/// Reads a URL. The driver takes any scheme for its own.
fn address(url: &str) -> Result<PgConnectOptions, ConnectError> {
    let invalid = |source| ConnectError::Invalid {
        setting: "url",
        expected: "the URL of a Postgres database, `postgres://…`",
        source,
    };
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err(invalid(None));
    }
    url.parse()
        .map_err(|error: sqlx::Error| invalid(Some(error.into())))
}
