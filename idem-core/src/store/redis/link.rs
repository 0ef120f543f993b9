//! The connection of a store: made when it is first needed, by one for all, and made anew when it
//! is of no use any more.
//!
//! It is of no use when it broke, when its server stopped to be a primary, and when several calls
//! in a row went unanswered: one into a black hole would otherwise last until the system gives it up.
//! One to a Cluster stays in use meanwhile, since the silence of one node says nothing of the others;
//! it is left for one that reaches other nodes.
//!
//! Invariant: nothing is sent twice here, apart from a script that was not known; the driver of a Cluster
//! may do so within a call, which recognises its owner. Who drops a call disturbs nobody: the connection
//! is made in a task, and replies find their call or nobody.

use std::{
    fmt,
    future::Future,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use redis::{Cmd, ErrorKind, Pipeline, RedisError, ServerErrorKind, Value, cmd};
use tokio::{
    runtime::Handle,
    sync::watch,
    time::{Instant, timeout},
};

use super::{
    failure::Failure,
    layout::millis,
    options::{RedisStoreOptions, WaitReplicas},
    script::Script,
    server::{Connection, Server},
};

/// How many calls in a row go unanswered on a connection that is given up: one fewer than the tries
/// of a claim, so that the last try has another one.
const UNANSWERED: u32 = 2;
/// For how long at least, so that callers who are in a hurry do not wear out a good connection.
const SHORTEST_SILENCE: Duration = Duration::from_millis(250);
/// How long a connection to a Cluster lasts at least when it has errors of single nodes, and how long
/// at least until another one is made: it repairs itself.
const CLUSTER_REPAIR: Duration = Duration::from_secs(1);
/// How long the silence of one node of a Cluster is remembered while others answer.
const CLUSTER_MEMORY: Duration = Duration::from_secs(5);

/// How long a Cluster has to replace a node that is silent: what it takes by default to miss it.
const CLUSTER_FAILOVER: Duration = Duration::from_secs(15);

/// The connection of one store.
pub(super) struct Link {
    server: Server,
    options: Arc<RedisStoreOptions>,
    current: Mutex<Current>,
}

#[derive(Default)]
struct Current {
    opened: Option<Arc<Opened>>,
    /// May succeed it; see [`Link::look_elsewhere`].
    next: Option<Arc<Opened>>,
    looked: Option<Instant>,
    /// Since when there are others that reach less.
    kept: Option<Instant>,
}

impl Current {
    /// Leaves the connection for the next one once that is there, unless that reaches less.
    fn succeed(&mut self) {
        let Some(next) = &self.next else {
            return;
        };
        let made = next.connection.borrow().clone();
        // Its runtime has ended if there is none yet and nobody to make it.
        if made.is_none() && next.connection.has_changed().is_ok() {
            return;
        }
        let next = self.next.take();
        let Some(Ok(new)) = made else {
            return;
        };
        let old = self.opened.as_ref();
        let old = old.and_then(|old| old.connection.borrow().clone());
        match old {
            Some(Ok(old)) if new.reaches_less_than(&old) && !self.was_kept_long() => {}
            Some(_) | None => {
                self.opened = next;
                self.kept = None;
            }
        }
    }

    /// One that reaches less makes all calls wait while it looks for who is missing, and so it is
    /// kept off for some time; yet it learns who else serves those slots.
    fn was_kept_long(&mut self) -> bool {
        self.kept.get_or_insert_with(Instant::now).elapsed() >= CLUSTER_FAILOVER
    }

    fn is(&self, opened: &Arc<Opened>) -> bool {
        self.opened
            .as_ref()
            .is_some_and(|it| Arc::ptr_eq(it, opened))
    }
}

/// One connection, or the attempt to make one.
struct Opened {
    connection: watch::Receiver<Option<Result<Connection, Failure>>>,
    since: Instant,
    /// Whether `silence` says something.
    is_silent: AtomicBool,
    silence: Mutex<Silence>,
}

/// The calls that went unanswered since the last answer.
#[derive(Debug, Default)]
struct Silence {
    unanswered: u32,
    since: Option<Instant>,
}

impl Link {
    pub(super) fn new(server: Server, options: Arc<RedisStoreOptions>) -> Self {
        Self {
            server,
            options,
            current: Mutex::default(),
        }
    }

    /// Another one to the same server, in the runtime that is current when it is first used.
    pub(super) fn again(&self) -> Self {
        Self::new(self.server.clone(), Arc::clone(&self.options))
    }

    pub(super) fn options(&self) -> &RedisStoreOptions {
        &self.options
    }

    /// Does some work on the connection, within the limit of a call.
    pub(super) async fn within<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        within(self.options.timeout, work).await
    }

    /// Does some work on a new connection, within the time that it may take to make one.
    pub(super) async fn within_opening<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        within(self.server.patience(self.options.timeout), work).await
    }

    /// The connection, once there is one.
    pub(super) async fn lane(&self) -> Result<Lane<'_>, Failure> {
        loop {
            let opened = self.current();
            let known = opened.connection.borrow().clone();
            let connection = match known {
                Some(Ok(connection)) => connection,
                // It failed for those who waited for it; we try anew.
                Some(Err(_)) => {
                    self.drop_connection(&opened);
                    continue;
                }
                None => {
                    let mut made = opened.connection.clone();
                    let made = made.wait_for(Option::is_some).await;
                    let made = made.ok().and_then(|made| made.clone());
                    made.unwrap_or(Err(Failure::Stopped))
                        .inspect_err(|_| self.drop_connection(&opened))?
                }
            };
            return Ok(Lane {
                link: self,
                opened,
                connection,
            });
        }
    }

    fn current(&self) -> Arc<Opened> {
        let mut current = self.lock();
        current.succeed();
        let opened = &mut current.opened;
        Arc::clone(opened.get_or_insert_with(|| Arc::new(self.open())))
    }

    /// Makes a connection in a task, so that it is made even if all who wait for it leave.
    fn open(&self) -> Opened {
        let (made, connection) = watch::channel(None);
        let (server, options) = (self.server.clone(), Arc::clone(&self.options));
        let limit = server.patience(options.timeout);
        tokio::spawn(async move {
            let opened = timeout(limit, server.open(&options)).await;
            made.send_replace(Some(opened.unwrap_or(Err(Failure::TimedOut { limit }))));
        });
        Opened {
            connection,
            since: Instant::now(),
            is_silent: AtomicBool::new(false),
            silence: Mutex::default(),
        }
    }

    /// The next call makes a connection anew. Calls that still use this one keep it as long.
    fn drop_connection(&self, opened: &Arc<Opened>) {
        let mut current = self.lock();
        if current.is(opened) {
            current.opened = None;
        }
    }

    /// Makes another connection to a Cluster, and leaves this one for it if it reaches other nodes: a
    /// node may have been replaced that nobody has said goodbye for.
    fn look_elsewhere(&self, opened: &Arc<Opened>) {
        let mut current = self.lock();
        let was_soon = |at: &Instant| at.elapsed() < CLUSTER_REPAIR;
        let soon = was_soon(&opened.since) || current.looked.as_ref().is_some_and(was_soon);
        // A call may be dropped outside of any runtime.
        let can_spawn = Handle::try_current().is_ok();
        if current.is(opened) && current.next.is_none() && !soon && can_spawn {
            current.looked = Some(Instant::now());
            current.next = Some(Arc::new(self.open()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    // It is large, and would be moved twice more.
    let work = pin!(work);
    timeout(limit, work)
        .await
        .unwrap_or(Err(Failure::TimedOut { limit }))
}

/// The connection in the hands of one call.
#[derive(Clone)]
pub(super) struct Lane<'a> {
    link: &'a Link,
    opened: Arc<Opened>,
    connection: Connection,
}

/// Whether enough replicas have a write.
#[must_use]
pub(super) struct Acknowledged(Result<(), Failure>);

impl Acknowledged {
    /// Fails if they have not. It means nothing where nothing was written.
    pub(super) fn required(self) -> Result<(), Failure> {
        self.0
    }
}

impl Lane<'_> {
    pub(super) fn is_cluster(&self) -> bool {
        self.connection.is_cluster()
    }

    pub(super) fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Sends one command.
    pub(super) async fn send(&mut self, key: &str, command: &Cmd) -> Result<Value, Failure> {
        let pending = Pending::new(self.link, &self.opened, self.connection.is_cluster());
        let answer = self.connection.send(key, command).await;
        pending.answered();
        let answer = answer.and_then(Value::extract_error);
        answer.map_err(|error| self.judge(error))
    }

    /// Sends some commands in one go. An answer that is an error stands for itself.
    pub(super) async fn send_all(
        &mut self,
        key: &str,
        commands: Pipeline,
    ) -> Result<Vec<Result<Value, Failure>>, Failure> {
        let pending = Pending::new(self.link, &self.opened, self.connection.is_cluster());
        let answers = self.connection.send_all(key, commands).await;
        pending.answered();
        let answers = answers.map_err(|error| self.judge(error))?;
        let judged = |answer: Value| answer.extract_error().map_err(|error| self.judge(error));
        Ok(answers.into_iter().map(judged).collect())
    }

    /// Sends one command that may write, and asks whether enough replicas have what it wrote: on the
    /// same connection, since that is what the question is about.
    pub(super) async fn send_durably(
        &mut self,
        key: &str,
        command: &Cmd,
    ) -> Result<(Value, Acknowledged), Failure> {
        let Some(wait) = self.link.options.replicas else {
            return Ok((self.send(key, command).await?, Acknowledged(Ok(()))));
        };
        let mut both = Pipeline::with_capacity(2);
        both.add_command(command.clone());
        both.add_command(wait_command(wait));
        let answers = self.send_all(key, both).await?;
        let [answer, acknowledged] = <[_; 2]>::try_from(answers).map_err(|_| Failure::Answer)?;
        Ok((answer?, Acknowledged(enough(acknowledged, wait.replicas))))
    }

    /// Runs a script, which is made known first if it is not.
    pub(super) async fn run(
        &mut self,
        script: &Script,
        key: &str,
        call: &Cmd,
    ) -> Result<Value, Failure> {
        match self.send(key, call).await {
            Err(failure) if is_unknown_script(&failure) => {
                self.send(key, &script.load()).await?;
                self.send(key, call).await
            }
            answer => answer,
        }
    }

    /// Runs a script that may write; see [`send_durably`](Self::send_durably).
    pub(super) async fn run_durably(
        &mut self,
        script: &Script,
        key: &str,
        call: &Cmd,
    ) -> Result<(Value, Acknowledged), Failure> {
        match self.send_durably(key, call).await {
            Err(failure) if is_unknown_script(&failure) => {
                self.send(key, &script.load()).await?;
                self.send_durably(key, call).await
            }
            answer => answer,
        }
    }

    /// Drops the connection if the error says that it is of no use any more.
    fn judge(&self, error: RedisError) -> Failure {
        if is_fatal(&error) {
            if !self.is_cluster() {
                tracing::debug!(%error, "connection to Redis is made anew");
                self.link.drop_connection(&self.opened);
            } else if !is_closed(&error) {
                self.link.look_elsewhere(&self.opened);
            } else if self.opened.since.elapsed() >= CLUSTER_REPAIR {
                tracing::debug!(%error, "connection to a Redis Cluster is made anew");
                self.link.drop_connection(&self.opened);
            }
        }
        Failure::Redis(error)
    }
}

/// Whether the next call should rather have another connection: this one broke, or its server is not
/// the primary, or not any more.
fn is_fatal(error: &RedisError) -> bool {
    let role = matches!(
        error.kind(),
        ErrorKind::Server(
            ServerErrorKind::ReadOnly
                | ServerErrorKind::BusyLoading
                | ServerErrorKind::MasterDown
                | ServerErrorKind::ClusterDown
        )
    );
    role || error.is_io_error() || error.is_unrecoverable_error()
}

/// Whether the error may be that the task which has the connections to all nodes is gone.
fn is_closed(error: &RedisError) -> bool {
    error.is_connection_dropped() && !error.is_connection_refusal()
}

pub(super) fn is_unknown_script(failure: &Failure) -> bool {
    let unknown = ErrorKind::Server(ServerErrorKind::NoScript);
    matches!(failure, Failure::Redis(error) if error.kind() == unknown)
}

/// Whether the server refused a write for want of memory.
pub(super) fn is_out_of_memory(failure: &Failure) -> bool {
    matches!(failure, Failure::Redis(error) if error.code() == Some("OOM"))
}

fn wait_command(wait: WaitReplicas) -> Cmd {
    let mut command = cmd("WAIT");
    command.arg(wait.replicas).arg(millis(wait.timeout));
    command
}

fn enough(answer: Result<Value, Failure>, of: u32) -> Result<(), Failure> {
    match answer? {
        Value::Int(by) => match u64::try_from(by) {
            Ok(by) if by >= of.into() => Ok(()),
            Ok(by) => Err(Failure::Unacknowledged { by, of }),
            Err(_) => Err(Failure::Answer),
        },
        _ => Err(Failure::Answer),
    }
}

/// A call without an answer yet. One that is dropped was given up.
struct Pending<'a> {
    link: &'a Link,
    opened: &'a Arc<Opened>,
    sent: Instant,
    is_cluster: bool,
    is_answered: bool,
}

impl<'a> Pending<'a> {
    fn new(link: &'a Link, opened: &'a Arc<Opened>, is_cluster: bool) -> Self {
        Self {
            link,
            opened,
            sent: Instant::now(),
            is_cluster,
            is_answered: false,
        }
    }

    fn answered(mut self) {
        self.is_answered = true;
        if self.opened.is_silent.load(Ordering::Relaxed) {
            let mut silence = self.opened.silence();
            let memory = if self.is_cluster {
                CLUSTER_MEMORY
            } else {
                Duration::ZERO
            };
            if silence.since.is_none_or(|since| since.elapsed() >= memory) {
                self.opened.is_silent.store(false, Ordering::Relaxed);
                *silence = Silence::default();
            }
        }
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if self.is_answered {
            return;
        }
        let mut silence = self.opened.silence();
        self.opened.is_silent.store(true, Ordering::Relaxed);
        silence.unanswered += 1;
        let since = *silence.since.get_or_insert(self.sent);
        if silence.unanswered >= UNANSWERED && since.elapsed() >= SHORTEST_SILENCE {
            if self.is_cluster {
                self.link.look_elsewhere(self.opened);
                return;
            }
            tracing::warn!(
                unanswered = silence.unanswered,
                "Redis is silent, connecting anew"
            );
            self.link.drop_connection(self.opened);
        }
    }
}

impl Opened {
    fn silence(&self) -> MutexGuard<'_, Silence> {
        self.silence.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
