//! A Redis primary and its replica, with a failover by hand.

use redis::cmd;

use crate::{proxy::Proxy, redis::Redis};

/// A primary, a replica, and a proxy on the way from one to the other.
#[derive(Debug)]
pub struct Replicated {
    primary: Redis,
    replica: Redis,
    link: Proxy,
}

impl Replicated {
    /// Starts both with this configuration; the replica follows when it returns.
    ///
    /// # Panics
    /// If that does not come to be.
    pub async fn start(config: &[(&str, &str)]) -> Self {
        let primary = Redis::start(config).await;
        let link = Proxy::start(primary.addr());
        let replica = follow(&primary, link.addr().port(), config).await;
        Self {
            primary,
            replica,
            link,
        }
    }

    /// The one that takes writes.
    pub fn primary(&self) -> &Redis {
        &self.primary
    }

    /// The one that repeats them.
    pub fn replica(&self) -> &Redis {
        &self.replica
    }

    /// What is between them. A delay [`ToClient`](crate::Direction::ToClient) makes the replica lag;
    /// what is on the way when the primary is killed and the replica promoted is lost.
    pub fn link(&self) -> &Proxy {
        &self.link
    }

    /// Makes a primary of the replica. Nobody tells the primary.
    ///
    /// # Panics
    /// If the replica does not obey.
    pub async fn promote(&self) {
        let mut replica = self.replica.connection().await;
        let promotion = cmd("REPLICAOF").arg("NO").arg("ONE").to_owned();
        let promoted = promotion.exec_async(&mut replica).await;
        promoted.unwrap_or_else(|error| panic!("the replica is not promoted: {error}"));
    }
}

/// Starts a replica of a primary, and waits until it follows.
pub(crate) async fn follow(primary: &Redis, port: u16, config: &[(&str, &str)]) -> Redis {
    let primary_addr = format!("127.0.0.1 {port}");
    let mut config = config.to_vec();
    config.push(("replicaof", &primary_addr));
    let replica = Redis::start(&config).await;
    let info = cmd("INFO").arg("replication").to_owned();
    replica.until_told(&info, &["master_link_status:up"]).await;
    primary.until_told(&info, &["state=online"]).await;
    replica
}
