//! What a store connects to, and how: a server, a Cluster, or whatever Sentinels say is the primary.
//!
//! Invariant: a connection is to a primary of a version that will do, and knows the scripts. It
//! never reads from a replica.

use std::{collections::HashMap, fmt, sync::Arc};

use redis::{
    AsyncConnectionConfig, Client, Cmd, Pipeline, RedisResult, Value,
    aio::MultiplexedConnection,
    cluster::ClusterClient,
    cluster_async::ClusterConnection,
    cluster_routing::{
        MultipleNodeRoutingInfo, ResponsePolicy, Route, RoutingInfo, SingleNodeRoutingInfo,
        SlotAddr,
    },
    cmd, from_redis_value,
    sentinel::SentinelClient,
};
use tokio::sync::Mutex;

use super::{failure::Failure, script};

/// The first version that will do: the first one whose `SET` takes `NX` and `GET` together, and
/// whose scripts have flags.
pub(super) const OLDEST: &str = "7.0";

/// What a store connects to.
#[derive(Clone)]
pub(super) enum Server {
    Single(Arc<Client>),
    Cluster(Arc<ClusterClient>),
    /// The driver looks the primary up with a client that cannot be shared. It is locked for as long
    /// as a connection is made, which has a limit.
    Sentinel(Arc<Mutex<SentinelClient>>),
}

/// A connection that many use at once.
#[derive(Clone)]
pub(super) enum Connection {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Server {
    /// Makes a connection.
    pub(super) async fn open(&self) -> Result<Connection, Failure> {
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
            Self::Cluster(client) => Connection::Cluster(client.get_async_connection().await?),
            Self::Sentinel(sentinel) => {
                let client = sentinel.lock().await.async_get_client().await?;
                let connected = client.get_multiplexed_async_connection_with_config(&config);
                Connection::Single(connected.await?)
            }
        };
        connection.check().await?;
        connection.load_scripts().await?;
        Ok(connection)
    }
}

/// Never a credential: those are in the URLs.
impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single(client) => write!(f, "{}", client.get_connection_info().addr()),
            Self::Cluster(_) => f.write_str("Cluster"),
            Self::Sentinel(_) => f.write_str("Sentinel"),
        }
    }
}

impl Connection {
    pub(super) fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }

    /// Sends one command to the primary that has `key`. An answer that is an error is an answer.
    pub(super) async fn send(&mut self, key: &str, command: &Cmd) -> RedisResult<Value> {
        match self {
            Self::Single(connection) => connection.send_packed_command(command).await,
            Self::Cluster(connection) => {
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
            Self::Cluster(connection) => {
                let primary = primary_of(key);
                connection.route_pipeline(commands, 0, count, primary).await
            }
        }
    }

    /// What all primaries answer.
    pub(super) async fn ask_primaries(&mut self, command: Cmd) -> RedisResult<Vec<Value>> {
        match self {
            Self::Single(connection) => {
                let answer = connection.send_packed_command(&command).await;
                Ok(vec![answer?.extract_error()?])
            }
            Self::Cluster(connection) => {
                let all = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
                let answers = connection.route_command(command, all).await?;
                match answers.extract_error()? {
                    Value::Map(answers) => Ok(answers.into_iter().map(|(_, it)| it).collect()),
                    other => Ok(vec![other]),
                }
            }
        }
    }

    /// Refuses a server that is not what we need. `HELLO` is the one command that is never denied.
    async fn check(&mut self) -> Result<(), Failure> {
        let hellos = match self.ask_primaries(cmd("HELLO")).await {
            // Before 6.0 there was no such command.
            Err(error) if error.code() == Some("ERR") => {
                let found = "5 or earlier".to_owned();
                return Err(Failure::TooOld { found });
            }
            hellos => hellos?,
        };
        let is_cluster = self.is_cluster();
        for hello in hellos {
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
        }
        Ok(())
    }

    async fn load_scripts(&mut self) -> Result<(), Failure> {
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
            Self::Cluster(connection) => {
                for script in script::ALL {
                    let everywhere = RoutingInfo::MultiNode((
                        MultipleNodeRoutingInfo::AllMasters,
                        Some(ResponsePolicy::AllSucceeded),
                    ));
                    // A node that is down gets it when it is first missed there.
                    if connection
                        .route_command(script.load(), everywhere)
                        .await
                        .is_err()
                    {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Warns of a server that drops records before they expire. One that does not say is not asked
    /// again: many are set up so that nobody may ask.
    pub(super) async fn warn_of_eviction(&mut self) {
        let mut ask = cmd("CONFIG");
        ask.arg("GET").arg("maxmemory-policy");
        let answers = match self.ask_primaries(ask).await {
            Ok(answers) => answers,
            Err(error) => {
                tracing::debug!(%error, "cannot tell whether Redis evicts records");
                return;
            }
        };
        for answer in answers {
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
