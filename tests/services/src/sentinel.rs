//! A Redis primary and its replica, with a sentinel that fails over.

use std::{collections::HashMap, net::SocketAddr};

use redis::{RedisResult, cmd};

use crate::{
    redis::Redis,
    replicated::follow,
    server::{NotReady, Server},
};

const MASTER: &str = "idem";

/// A primary, a replica, and a sentinel that watches over them alone.
///
/// It makes a primary of the replica about a second after the primary was killed or paused.
#[derive(Debug)]
pub struct Sentinel {
    primary: Redis,
    replica: Redis,
    watcher: Redis,
}

impl Sentinel {
    /// Starts all three, the first two with this configuration. The sentinel knows the replica when
    /// it returns.
    ///
    /// # Panics
    /// If that does not come to be.
    pub async fn start(config: &[(&str, &str)]) -> Self {
        let primary = Redis::start(config).await;
        let replica = follow(&primary, primary.port(), config).await;
        let watched = format!("monitor {MASTER} 127.0.0.1 {} 1", primary.port());
        let down = format!("down-after-milliseconds {MASTER} 500");
        let retry = format!("failover-timeout {MASTER} 3000");
        let settings = [&watched, &down, &retry].map(|setting| ("sentinel", setting.as_str()));
        let watcher = Redis::launch(&["--sentinel"], &settings);
        watcher.until_ready().await;
        let started = Self {
            primary,
            replica,
            watcher,
        };
        let knows_the_replica = async || {
            let replicas = started.replicas().await?;
            let follows = |replica: &HashMap<String, String>| {
                replica["flags"] == "slave" && replica["master-link-status"] == "ok"
            };
            if replicas.iter().any(follows) {
                return Ok(());
            }
            Err(format!("it knows of {replicas:?}").into())
        };
        started.watcher.until(knows_the_replica).await;
        started
    }

    /// The one that takes writes at first.
    pub fn primary(&self) -> &Redis {
        &self.primary
    }

    /// The one that repeats them at first.
    pub fn replica(&self) -> &Redis {
        &self.replica
    }

    /// The sentinel itself.
    pub fn sentinel(&self) -> &Server {
        &self.watcher
    }

    /// Where clients ask for the primary.
    pub fn urls(&self) -> Vec<String> {
        vec![self.watcher.url()]
    }

    /// The name by which they ask for it.
    pub fn master_name(&self) -> &'static str {
        MASTER
    }

    /// Which of them the sentinel takes for the primary.
    ///
    /// # Panics
    /// If it does not say.
    pub async fn master(&self) -> SocketAddr {
        let named = self.ask().await;
        named.unwrap_or_else(|error| panic!("the sentinel names no primary: {error}"))
    }

    /// Waits until the sentinel takes this one for the primary, and it is one.
    ///
    /// # Panics
    /// If that does not come to be.
    pub async fn until_master(&self, redis: &Redis) {
        let wanted = redis.addr();
        let named = async || match self.ask().await? {
            named if named == wanted => Ok(()),
            other => Err(format!("the primary is {other}").into()),
        };
        self.watcher.until(named).await;
        let info = cmd("INFO").arg("replication").to_owned();
        redis.until_told(&info, &["role:master"]).await;
    }

    async fn replicas(&self) -> RedisResult<Vec<HashMap<String, String>>> {
        let mut connection = self.watcher.connect().await?;
        let question = cmd("SENTINEL").arg("REPLICAS").arg(MASTER).to_owned();
        question.query_async(&mut connection).await
    }

    async fn ask(&self) -> Result<SocketAddr, NotReady> {
        let mut connection = self.watcher.connect().await?;
        let mut question = cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(MASTER);
        let (host, port): (String, u16) = question.query_async(&mut connection).await?;
        Ok(SocketAddr::new(host.parse()?, port))
    }
}
