//! Sending a statement, so that whoever waits for its answer may go away at any moment.
//!
//! Each call is a task of its own. A request that is dropped drops the handle of the task, never a
//! statement half-way: the task ends by itself, and gives a whole connection back. Nothing is begun for
//! somebody who has left.
//!
//! Invariant: a connection whose statement did not end, or ended in a way that was not expected, is
//! closed and not given back. A statement is a transaction of its own.
//!
//! Invariant: as long as the server may work on a statement, its connection has a place of the pool,
//! though its call may be over. So a server that stalls has no more of our backends than the pool has
//! places.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use backon::{BackoffBuilder, ExponentialBuilder};
use sqlx::{
    Arguments, AssertSqlSafe, Encode, PgPool, Postgres, Type,
    error::BoxDynError,
    pool::PoolConnection,
    postgres::{PgArguments, PgRow},
};
use tokio::{
    runtime::Handle,
    time::{Instant, sleep, timeout, timeout_at},
};
use tracing::Instrument;

use super::{
    NAME,
    failure::{Failure, Remedy, failed, remedy},
};
use crate::error::StoreError;

/// What a statement answered: `None` if it is to be sent again.
pub(super) type Read<T> = Result<Option<T>, Failure>;

/// Where statements are sent to.
#[derive(Debug, Clone)]
pub(super) struct Database {
    pool: PgPool,
    limit: Duration,
}

/// A statement and its parameters.
pub(super) struct Statement {
    /// A cheaper one with the same parameters, which need not have an answer.
    first: Option<Arc<str>>,
    sql: Arc<str>,
    parameters: Result<PgArguments, BoxDynError>,
    repeat: Repeat,
}

/// Whether a statement may be sent again when it is not known what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Repeat {
    /// It recognises itself.
    Safe,
    /// It would be told that somebody was faster.
    Unsafe,
}

impl Statement {
    /// A statement that may be sent again.
    pub(super) fn new(sql: &Arc<str>) -> Self {
        Self {
            first: None,
            sql: Arc::clone(sql),
            parameters: Ok(PgArguments::default()),
            repeat: Repeat::Safe,
        }
    }

    /// Sends `first` first.
    pub(super) fn after(self, first: &Arc<str>) -> Self {
        Self {
            first: Some(Arc::clone(first)),
            ..self
        }
    }

    /// Says that the statement is not to be sent again when it is not known what became of it.
    pub(super) fn once(self) -> Self {
        Self {
            repeat: Repeat::Unsafe,
            ..self
        }
    }

    /// Gives the next parameter.
    pub(super) fn bind<'q, T>(mut self, value: T) -> Self
    where
        T: Encode<'q, Postgres> + Type<Postgres>,
    {
        if let Ok(arguments) = &mut self.parameters
            && let Err(error) = arguments.add(value)
        {
            self.parameters = Err(error);
        }
        self
    }
}

impl Database {
    pub(super) fn new(pool: PgPool, limit: Duration) -> Self {
        Self { pool, limit }
    }

    pub(super) fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// One connection more, of a pool of its own, with a place for another one while that one does
    /// not answer. A connection lives on the runtime that made it: this one is made on the runtime of
    /// whoever asks for it.
    pub(super) async fn reopen(&self) -> Result<Self, StoreError> {
        let database = self.clone();
        in_a_task(|_| async move {
            let Self { pool, limit } = database;
            let options = pool.options().clone();
            let own = Self {
                pool: options
                    .min_connections(0)
                    .max_connections(2)
                    .acquire_timeout(limit)
                    .connect_lazy_with((*pool.connect_options()).clone()),
                limit,
            };
            drop(own.acquire(Instant::now() + limit).await?);
            Ok(own)
        })
        .await
    }

    /// Sends the statement until `read` has an answer, at the longest for the limit of a call.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        statement: Statement,
        read: fn(&[PgRow]) -> Read<T>,
    ) -> Result<T, StoreError> {
        let database = self.clone();
        in_a_task(|asker| async move { database.send(statement, read, &asker).await }).await
    }

    /// Carries out several statements that need no answer, as one transaction.
    pub(super) async fn run(&self, script: String, limit: Duration) -> Result<(), StoreError> {
        let database = Self {
            limit,
            ..self.clone()
        };
        in_a_task(|_| async move {
            let deadline = Instant::now() + limit;
            let mut busy = Busy::new(database.acquire(deadline).await?);
            let running = async move {
                let done = sqlx::raw_sql(AssertSqlSafe(script)).execute(&mut **busy.connection());
                let done = done.await;
                busy.ended(done)
            };
            let ended = by(deadline, running).await;
            let Some((connection, done)) = ended else {
                return Err(Failure::Slow { limit });
            };
            done.map(drop).map_err(|error| {
                close(connection);
                failed(error)
            })
        })
        .await
    }

    /// Tries until there is an answer, or none is to be had.
    async fn send<T>(
        &self,
        statement: Statement,
        read: fn(&[PgRow]) -> Read<T>,
        asker: &Asker,
    ) -> Result<T, Failure> {
        let deadline = Instant::now() + self.limit;
        let mut pauses = pauses();
        let mut contended = 0;
        loop {
            let failure = match self.attempt(&statement, read, deadline, asker).await? {
                Tried::Answered(answer) => return Ok(answer),
                Tried::Failed(failure) => failure,
            };
            contended += u32::from(matches!(failure, Failure::Contended));
            let pause = pauses.next().unwrap_or(LONGEST_PAUSE);
            if contended == CONTENDED_TRIES || Instant::now() + pause >= deadline {
                return Err(failure);
            }
            sleep(pause).await;
        }
    }

    /// Tries once, on one connection.
    async fn attempt<T>(
        &self,
        statement: &Statement,
        read: fn(&[PgRow]) -> Read<T>,
        deadline: Instant,
        asker: &Asker,
    ) -> Result<Tried<T>, Failure> {
        let parameters = match &statement.parameters {
            Ok(parameters) => parameters,
            Err(error) => return Err(Failure::Parameter(error.to_string())),
        };
        asker.waits()?;
        let mut connection = self.acquire(deadline).await?;
        asker.waits()?;
        for sql in statement.first.iter().chain([&statement.sql]) {
            let query = sqlx::query_with(AssertSqlSafe(Arc::clone(sql)), parameters.clone());
            let mut busy = Busy::new(connection);
            let running = async move {
                let rows = query.fetch_all(&mut **busy.connection()).await;
                busy.ended(rows)
            };
            let Some((whole, rows)) = by(deadline, running).await else {
                return Err(Failure::Slow { limit: self.limit });
            };
            connection = whole;
            let error = match rows {
                Ok(rows) => match read(&rows)? {
                    Some(answer) => return Ok(Tried::Answered(answer)),
                    None => continue,
                },
                Err(error) => error,
            };
            return match remedy(&error) {
                Remedy::Retry => Ok(Tried::Failed(failed(error))),
                Remedy::GiveUp => Err(failed(error)),
                Remedy::Reconnect if statement.repeat == Repeat::Safe => {
                    close(connection);
                    Ok(Tried::Failed(failed(error)))
                }
                Remedy::Reconnect | Remedy::Close => {
                    close(connection);
                    Err(failed(error))
                }
            };
        }
        Ok(Tried::Failed(Failure::Contended))
    }

    /// A connection of the pool, within the limit of the call.
    async fn acquire(&self, deadline: Instant) -> Result<PoolConnection<Postgres>, Failure> {
        match timeout_at(deadline, self.pool.acquire()).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(sqlx::Error::PoolTimedOut)) | Err(_) => {
                Err(Failure::NoConnection { limit: self.limit })
            }
            Ok(Err(error)) => Err(failed(error)),
        }
    }
}

/// What came of one try.
enum Tried<T> {
    Answered(T),
    /// Another try may do better.
    Failed(Failure),
}

/// The runtime of whoever calls.
pub(super) fn runtime() -> Result<Handle, Failure> {
    Handle::try_current().map_err(|_| Failure::NoRuntime)
}

/// Whoever waits for a call, seen from its task.
#[derive(Clone)]
struct Asker(Weak<()>);

impl Asker {
    /// Fails once nobody waits any more. What is begun then would land after its caller has taken it
    /// back.
    fn waits(&self) -> Result<(), Failure> {
        if self.0.strong_count() == 0 {
            return Err(Failure::Abandoned);
        }
        Ok(())
    }
}

/// Runs `call` to its end, whether or not anybody waits for it.
async fn in_a_task<T, C>(call: impl FnOnce(Asker) -> C) -> Result<T, StoreError>
where
    T: Send + 'static,
    C: Future<Output = Result<T, Failure>> + Send + 'static,
{
    let present = Arc::new(());
    let call = call(Asker(Arc::downgrade(&present)));
    let answer = runtime()?.spawn(call.in_current_span()).await;
    drop(present);
    match answer {
        Ok(answer) => answer.map_err(StoreError::from),
        Err(ended) if ended.is_panic() => Err(StoreError::Panicked),
        Err(ended) => Err(StoreError::unavailable(NAME, ended)),
    }
}

/// A connection with a statement on its way. Dropped half-way, it is closed.
struct Busy(Option<PoolConnection<Postgres>>);

/// A connection whose statement has ended, and how.
type Ended<T> = (PoolConnection<Postgres>, Result<T, sqlx::Error>);

impl Busy {
    fn new(connection: PoolConnection<Postgres>) -> Self {
        Self(Some(connection))
    }

    fn connection(&mut self) -> &mut PoolConnection<Postgres> {
        self.0.as_mut().expect("it is taken only when it ended")
    }

    fn ended<T>(mut self, how: Result<T, sqlx::Error>) -> Ended<T> {
        let connection = self.0.take();
        (connection.expect("it is taken only here"), how)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            close(connection);
        }
    }
}

/// Waits for the end of a statement until `deadline`. One that goes on keeps its place of the pool,
/// and nobody is told how it ended.
async fn by<T: Send + 'static>(
    deadline: Instant,
    running: impl Future<Output = Ended<T>> + Send + 'static,
) -> Option<Ended<T>> {
    let mut running = Box::pin(running);
    if let Ok(ended) = timeout_at(deadline, &mut running).await {
        return Some(ended);
    }
    tokio::spawn(async move {
        // A connection goes back to the pool if its statement ended in order, and else is closed.
        if let Ok((connection, Err(error))) = timeout(PLACE_KEPT, running).await
            && matches!(remedy(&error), Remedy::Reconnect | Remedy::Close)
        {
            close(connection);
        }
    });
    None
}

/// Closes a connection at once: what it still has to say is for nobody.
fn close(connection: PoolConnection<Postgres>) {
    drop(connection.detach());
}

/// How long a statement whose call is over keeps its place. A server that stalls for longer gets new
/// backends of ours as seldom as this; a connection on which nothing is heard any more, because the
/// server was lost without a word, costs its place for as long.
const PLACE_KEPT: Duration = Duration::from_mins(2);
/// How often a record may have changed before a call gives up.
const CONTENDED_TRIES: u32 = 8;
/// The longest pause before a statement is sent again.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// 1 ms, growing to [`LONGEST_PAUSE`], jittered.
pub(super) fn pauses() -> impl Iterator<Item = Duration> {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(1))
        .with_max_delay(LONGEST_PAUSE)
        .without_max_times()
        .with_jitter()
        .build()
}
