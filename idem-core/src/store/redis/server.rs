//! What a store connects to, and how: a server, a Cluster, or whatever Sentinels say is the primary.
//!
//! Invariant: a connection is to a primary of a version that will do, and knows the scripts. It
//! never reads from a replica.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    sync::Arc,
    time::Duration,
};

use futures_util::future::select_ok;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionInfo, Pipeline, RedisResult, Value,
    aio::MultiplexedConnection,
    cluster::{ClusterClient, ClusterConfig},
    cluster_async::ClusterConnection,
    cluster_routing::{
        MultipleNodeRoutingInfo, ResponsePolicy, Route, RoutingInfo, SingleNodeRoutingInfo,
        SlotAddr,
    },
    cmd, from_redis_value,
    sentinel::{SentinelClient, SentinelNodeConnectionInfo, SentinelServerType},
};
use tokio::{sync::Mutex, time::timeout};

use super::{at_once, failure::Failure, options::RedisStoreOptions, script};

/// The first version that will do: the first one whose `SET` takes `NX` and `GET` together, and
/// whose scripts have flags.
pub(super) const OLDEST: &str = "7.0";
/// How much longer a client of Sentinels that is not ours may take: it waits a second for each that
/// does not answer, and then for the primary.
const SENTINELS: Duration = Duration::from_secs(3);

/// What a store connects to.
#[derive(Clone)]
pub(super) enum Server {
    Single(Arc<Client>),
    Cluster(Arc<ClusterClient>),
    Sentinels(Arc<Sentinels>),
    /// The driver looks the primary up with a client that cannot be shared. It is locked for as long
    /// as a connection is made, which has a limit.
    Sentinel(Arc<Mutex<SentinelClient>>),
}

/// Those who know the primary of a service.
pub(super) struct Sentinels {
    pub(super) urls: Vec<ConnectionInfo>,
    pub(super) service: String,
}

/// A connection that many use at once.
#[derive(Clone)]
pub(super) enum Connection {
    Single(MultiplexedConnection),
    Cluster {
        connection: ClusterConnection,
        /// The primaries that answered when it was made.
        primaries: Arc<BTreeSet<String>>,
    },
}

impl Server {
    /// The longest that it may take to make a connection, where a call may take `limit`.
    pub(super) fn patience(&self, limit: Duration) -> Duration {
        match self {
            Self::Single(_) | Self::Cluster(_) | Self::Sentinels(_) => limit,
            Self::Sentinel(_) => limit.saturating_add(SENTINELS),
        }
    }

    /// Makes a connection.
    pub(super) async fn open(&self, options: &RedisStoreOptions) -> Result<Connection, Failure> {
        // Our own limit is around each call.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None);
        let mut connection = match self {
            Self::Single(client) => Connection::Single(
                client
                    .get_multiplexed_async_connection_with_config(&config)
                    .await?,
            ),
            Self::Cluster(client) => {
                let config = ClusterConfig::new()
                    .set_connection_timeout(node_connects(options))
                    .set_response_timeout(node_answers(options));
                Connection::Cluster {
                    connection: client.get_async_connection_with_config(config).await?,
                    primaries: Arc::default(),
                }
            }
            Self::Sentinels(sentinels) => {
                let client = sentinels.primary().await?;
                let connected = client.get_multiplexed_async_connection_with_config(&config);
                Connection::Single(connected.await?)
            }
            Self::Sentinel(sentinel) => {
                let client = sentinel.lock().await.async_get_client().await?;
                let connected = client.get_multiplexed_async_connection_with_config(&config);
                Connection::Single(connected.await?)
            }
        };
        connection.check(options).await?;
        connection.load_scripts(options).await?;
        Ok(connection)
    }
}

/// How long a node of a Cluster may take to accept a connection. Calls to all nodes wait for that when
/// the driver finds out who serves what: twice when a connection to the Cluster is made, and up to four
/// times in a row when a call is for a node that was silent then.
fn node_connects(options: &RedisStoreOptions) -> Duration {
    options.timeout / 8
}

/// How long a node of a Cluster may take to answer: less than a call, since the driver asks a node
/// whether it is there, and more than it may wait for replicas.
fn node_answers(options: &RedisStoreOptions) -> Duration {
    let waits = options.replicas.map_or(Duration::ZERO, |wait| wait.timeout);
    waits + options.timeout.saturating_sub(waits) / 3
}

/// How long the primaries of a Cluster are waited for that need not all answer.
fn all_answer(options: &RedisStoreOptions) -> Duration {
    options.timeout / 4
}

impl Sentinels {
    /// The primary that the first one to answer names. All are asked at once, since one that is
    /// silent must not hold up the others.
    async fn primary(&self) -> RedisResult<Client> {
        let ask = |url: &ConnectionInfo| {
            let client = self.client(vec![url.clone()]);
            Box::pin(async move { client?.async_get_client().await })
        };
        let (primary, _) = select_ok(self.urls.iter().map(ask)).await?;
        Ok(primary)
    }

    fn client(&self, urls: Vec<ConnectionInfo>) -> RedisResult<SentinelClient> {
        let servers = SentinelNodeConnectionInfo::default().set_tcp_settings(at_once());
        let primary = SentinelServerType::Master;
        SentinelClient::build(urls, self.service.clone(), Some(servers), primary)
    }

    /// Fails if there is none, or one cannot be a Sentinel.
    pub(super) fn check(&self) -> RedisResult<()> {
        self.client(self.urls.clone()).map(drop)
    }
}

/// Never a credential: those are in the URLs.
impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single(client) => write!(f, "{}", client.get_connection_info().addr()),
            Self::Cluster(_) => f.write_str("Cluster"),
            Self::Sentinels(_) | Self::Sentinel(_) => f.write_str("Sentinel"),
        }
    }
}

impl Connection {
    pub(super) fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster { .. })
    }

    /// Whether `other` reaches all primaries that this one does, and more.
    pub(super) fn reaches_less_than(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Cluster { primaries, .. },
                Self::Cluster {
                    primaries: others, ..
                },
            ) => primaries.len() < others.len() && primaries.is_subset(others),
            (Self::Single(_), _) | (_, Self::Single(_)) => false,
        }
    }

    /// Sends one command to the primary that has `key`. An answer that is an error is an answer.
    pub(super) async fn send(&mut self, key: &str, command: &Cmd) -> RedisResult<Value> {
        match self {
            Self::Single(connection) => connection.send_packed_command(command).await,
            Self::Cluster { connection, .. } => {
                let primary = RoutingInfo::SingleNode(primary_of(key));
                connection.route_command(command.clone(), primary).await
            }
        }
    }

    /// Sends some commands in one go, over one connection to the primary that has `key`.
    pub(super) async fn send_all(
        &mut self,
        key: &str,
        commands: Pipeline,
    ) -> RedisResult<Vec<Value>> {
        let count = commands.len();
        match self {
            Self::Single(connection) => connection.send_packed_commands(&commands, 0, count).await,
            Self::Cluster { connection, .. } => {
                let primary = primary_of(key);
                connection.route_pipeline(commands, 0, count, primary).await
            }
        }
    }

    /// What all primaries answer, by their addresses. In a Cluster it is what those answer that the
    /// driver is connected to.
    pub(super) async fn ask_primaries(
        &mut self,
        command: &Cmd,
    ) -> RedisResult<Vec<(String, Value)>> {
        match self {
            Self::Single(connection) => {
                let answer = connection.send_packed_command(command).await;
                Ok(vec![(String::new(), answer?.extract_error()?)])
            }
            Self::Cluster { connection, .. } => {
                let all = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
                let answers = connection.route_command(command.clone(), all).await?;
                match answers.extract_error()? {
                    Value::Map(answers) => answers
                        .into_iter()
                        .map(|(node, answer)| Ok((from_redis_value(node)?, answer)))
                        .collect(),
                    other => Ok(vec![(String::new(), other)]),
                }
            }
        }
    }

    /// What the primaries say of themselves. If one of a Cluster falls silent, that of one will do.
    async fn hellos(&mut self, options: &RedisStoreOptions) -> RedisResult<Vec<(String, Value)>> {
        let hello = cmd("HELLO");
        if !self.is_cluster() {
            return self.ask_primaries(&hello).await;
        }
        match timeout(all_answer(options), self.ask_primaries(&hello)).await {
            Ok(Ok(hellos)) => return Ok(hellos),
            Ok(Err(error)) if !error.is_io_error() => return Err(error),
            Ok(Err(_)) | Err(_) => {}
        }
        match self {
            Self::Single(_) => self.ask_primaries(&hello).await,
            Self::Cluster { connection, .. } => {
                let any = RoutingInfo::MultiNode((
                    MultipleNodeRoutingInfo::AllMasters,
                    Some(ResponsePolicy::OneSucceeded),
                ));
                let answer = connection.route_command(hello, any).await?;
                Ok(vec![(String::new(), answer.extract_error()?)])
            }
        }
    }

    /// Refuses a server that is not what we need. `HELLO` is the one command that is never denied.
    async fn check(&mut self, options: &RedisStoreOptions) -> Result<(), Failure> {
        let hellos = match self.hellos(options).await {
            // Before 6.0 there was no such command.
            Err(error) if error.code() == Some("ERR") => {
                let found = "5 or earlier".to_owned();
                return Err(Failure::TooOld { found });
            }
            hellos => hellos?,
        };
        let is_cluster = self.is_cluster();
        let mut reached = BTreeSet::new();
        for (address, hello) in hellos {
            let hello = Hello::read(hello)?;
            if !hello.is_new_enough() {
                return Err(Failure::TooOld {
                    found: hello.version,
                });
            }
            match (hello.mode.as_str(), is_cluster) {
                ("sentinel", _) => {
                    let expected = "that of a server, not of a Sentinel";
                    return Err(Failure::Mode { expected });
                }
                ("cluster", false) => {
                    let expected = "that of a server outside of a Cluster";
                    return Err(Failure::Mode { expected });
                }
                _ => {}
            }
            // Not by what it is not: a proxy may call a primary by another name.
            if matches!(hello.role.as_str(), "replica" | "slave") {
                return Err(Failure::Replica);
            }
            if !address.is_empty() {
                reached.insert(address);
            }
        }
        match self {
            Self::Single(_) => {}
            Self::Cluster { primaries, .. } => *primaries = Arc::new(reached),
        }
        Ok(())
    }

    async fn load_scripts(&mut self, options: &RedisStoreOptions) -> Result<(), Failure> {
        match self {
            Self::Single(connection) => {
                let mut loads = Pipeline::new();
                for script in script::ALL {
                    loads.add_command(script.load());
                }
                let count = loads.len();
                for loaded in connection.send_packed_commands(&loads, 0, count).await? {
                    loaded.extract_error()?;
                }
            }
            Self::Cluster { connection, .. } => {
                let load = async {
                    for script in script::ALL {
                        let everywhere = RoutingInfo::MultiNode((
                            MultipleNodeRoutingInfo::AllMasters,
                            Some(ResponsePolicy::AllSucceeded),
                        ));
                        connection.route_command(script.load(), everywhere).await?;
                    }
                    Ok::<_, Failure>(())
                };
                // A node that is down or silent gets them when they are first missed there.
                let _ = timeout(all_answer(options), load).await;
            }
        }
        Ok(())
    }

    /// Warns of a server that drops records before they expire. One that does not say is not asked
    /// again: many are set up so that nobody may ask.
    pub(super) async fn warn_of_eviction(&mut self, options: &RedisStoreOptions) {
        let mut ask = cmd("CONFIG");
        ask.arg("GET").arg("maxmemory-policy");
        let answers = match timeout(all_answer(options), self.ask_primaries(&ask)).await {
            Ok(Ok(answers)) => answers,
            Ok(Err(error)) => {
                tracing::debug!(%error, "cannot tell whether Redis evicts records");
                return;
            }
            Err(_) => return,
        };
        for (_, answer) in answers {
            let policy = from_redis_value::<HashMap<String, String>>(answer)
                .ok()
                .and_then(|mut settings| settings.remove("maxmemory-policy"));
            if let Some(policy) = policy.filter(|policy| policy != "noeviction") {
                tracing::warn!(
                    %policy,
                    "Redis may evict records before they expire, and their handlers would run again; set `maxmemory-policy noeviction`"
                );
            }
        }
    }
}

/// The primary that has the key, whatever the client was told about reading from replicas.
fn primary_of(key: &str) -> SingleNodeRoutingInfo {
    SingleNodeRoutingInfo::SpecificNode(Route::with_key(key, SlotAddr::Master))
}

/// What a server says of itself.
struct Hello {
    version: String,
    mode: String,
    role: String,
}

impl Hello {
    fn read(answer: Value) -> Result<Self, Failure> {
        let mut parts: HashMap<String, Value> =
            from_redis_value(answer).map_err(|_| Failure::Answer)?;
        let mut part = |name| {
            let part = parts.remove(name).ok_or(Failure::Answer)?;
            from_redis_value::<String>(part).map_err(|_| Failure::Answer)
        };
        Ok(Self {
            version: part("version")?,
            mode: part("mode")?,
            role: part("role")?,
        })
    }

    fn is_new_enough(&self) -> bool {
        let major = self.version.split('.').next();
        major.is_some_and(|major| major.parse::<u32>().is_ok_and(|major| major >= 7))
    }
}
