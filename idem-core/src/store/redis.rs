//! The store over Redis: one string for each record, with the key's own expiry.
//!
//! A claim is one native command, `SET … NX GET PX`: it stores a new record or answers with the one
//! that is there, and most facts can be read from that. A script decides only when an unfinished
//! record of the same request is met, since then the server's clock matters. All other changes are
//! scripts that compare the owner.
//!
//! Invariant: a call touches one key, in one atomic step of the primary. Every write carries its
//! expiry, and no value goes before its successor is accepted. A value of another version is left
//! alone.

mod answer;
mod claim;
mod failure;
mod layout;
mod link;
mod look;
mod options;
mod renew;
mod script;
mod server;
#[cfg(any(test, feature = "conformance"))]
mod turned;

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use redis::{
    Client, ConnectionAddr, IntoConnectionInfo, cluster::ClusterClient, io::tcp::TcpSettings,
    sentinel::SentinelClient,
};
use tokio::time::Instant;

pub use self::options::{RedisStoreOptions, WaitReplicas};
use self::{
    answer::Answer,
    layout::{Claimed, Meta, lease_millis, millis},
    link::Link,
    server::{Sentinels, Server},
};
use super::watch::Watch;
use crate::{
    error::{ConnectError, StoreError},
    key::StorageKey,
    record::Record,
    store::{
        Claim, ClaimRequest, Completion, Fence, LeaseRef, Owner, Release, Released, Renewal,
        Resolve, Resolved, Store, Summary,
    },
};

/// What errors call this store.
const NAME: &str = "redis";

/// The store over Redis 7.0 or later, or Valkey: a single server, a Cluster, or one that Sentinels
/// watch. A clone is another handle on the same connection.
///
/// # What is promised
///
/// At most one attempt per key holds a live lease while the primary survives. Redis replicates
/// behind the answer: across a failover, or when a server loses its data, a claim or an outcome may
/// be lost, and its handler may run again. Where that must not happen, keep the records in Postgres.
///
/// # What the server needs
///
/// * `maxmemory-policy noeviction`. A record that is evicted is a second charge; connecting logs a
///   warning if the server is set to evict. When memory is full, new keys are refused with
///   [`StoreError::Full`], and keys that are known go on.
/// * `appendonly yes`, so that records survive a restart.
/// * `min-replicas-to-write 1` and `min-replicas-max-lag 10` where there are replicas, so that a
///   primary which lost them takes no claims. See
///   [`with_wait_replicas`](RedisStoreOptions::with_wait_replicas) for more.
/// * Nobody else who sets an expiry: that of an unfinished record is the store's own. `PERSIST` on
///   one is mended; `EXPIRE` cuts a lease.
/// * A user who may do `+@read +@write +@scripting +time` on `~idem:*`, or on what
///   [`with_prefix`](RedisStoreOptions::with_prefix) says. `+config|get` lets the store see the
///   eviction policy, `+wait` lets it wait for replicas. In a Cluster it needs `+cluster|slots`, and
///   with Sentinels `+role`, and for a database other than 0 `+select`.
///
/// A lease lasts 49 days at most.
///
/// Keys are digests: neither a client's key nor a caller is readable in Redis. A record also holds
/// the namespace, the operation, and of a key of twenty characters or more the first and last four.
///
/// # Examples
/// ```no_run
/// use idem_core::{Builder, RedisStore};
#[doc = include_str!("../adapter/bare.md")]
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = RedisStore::connect("redis://127.0.0.1/").await?;
/// let engine = Builder::<Bare>::new(store).build()?.engine;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RedisStore {
    link: Arc<Link>,
    watch: Arc<Watch>,
}

impl RedisStore {
    /// Connects to the server at a URL: `redis://user:password@host:6379/0`, `rediss://…` for TLS
    /// (feature `redis-tls`), `unix:///path`.
    ///
    /// # Errors
    /// [`ConnectError`] says whether the URL, the server's version or its role is at fault, or
    /// whether the server did not answer.
    ///
    /// # Cancel safety
    /// Cancel safe, as are the other constructors.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example() -> Result<(), idem_core::ConnectError> {
    /// let store = idem_core::RedisStore::connect("redis://127.0.0.1/").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        Self::connect_with(url, RedisStoreOptions::default()).await
    }

    /// Connects to the server at a URL, with options.
    ///
    /// # Errors
    /// As [`connect`](Self::connect), and [`ConnectError::Invalid`] for an option.
    ///
    /// # Examples
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// use idem_core::{RedisStore, RedisStoreOptions};
    ///
    /// # async fn example() -> Result<(), idem_core::ConnectError> {
    /// let options = RedisStoreOptions::default()
    ///     .with_prefix("shop:idem:")
    ///     .with_wait_replicas(1, Duration::from_millis(100));
    /// let store = RedisStore::connect_with("redis://127.0.0.1/", options).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect_with(url: &str, options: RedisStoreOptions) -> Result<Self, ConnectError> {
        encrypted([url])?;
        let info = url.into_connection_info().map_err(not_a_url)?;
        // Naming the library is a command that a strict user may not send.
        let settings = info.redis_settings().clone().set_skip_set_lib_name();
        let info = info
            .set_redis_settings(settings)
            .set_tcp_settings(at_once());
        let client = Client::open(info).map_err(not_a_url)?;
        Self::open(Server::Single(Arc::new(client)), options).await
    }

    /// Connects to a Cluster, through whichever of these URLs answers.
    ///
    /// # Errors
    /// As [`connect_with`](Self::connect_with).
    ///
    /// # Examples
    /// ```no_run
    /// use idem_core::{RedisStore, RedisStoreOptions};
    ///
    /// # async fn example() -> Result<(), idem_core::ConnectError> {
    /// let nodes = ["redis://10.0.0.1/", "redis://10.0.0.2/"];
    /// let store = RedisStore::connect_cluster(nodes, RedisStoreOptions::default()).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect_cluster<'a>(
        urls: impl IntoIterator<Item = &'a str>,
        options: RedisStoreOptions,
    ) -> Result<Self, ConnectError> {
        // A call may be redirected, and a node replaced meanwhile; our own limit is around it all, and
        // those of a node are set with each connection.
        const REDIRECTS: u32 = 3;
        let client = ClusterClient::builder(encrypted(urls)?)
            .retries(REDIRECTS)
            .min_retry_wait(10)
            .max_retry_wait(100)
            .overall_response_timeout(None)
            .tcp_settings(at_once())
            .build()
            .map_err(not_a_url)?;
        Self::open(Server::Cluster(Arc::new(client)), options).await
    }

    /// Connects to the primary that these Sentinels name for `service`, and to its successor after a
    /// failover.
    ///
    /// User and password in the URLs are those of the Sentinels. Where the servers ask for some too,
    /// use [`from_sentinel`](Self::from_sentinel).
    ///
    /// # Errors
    /// As [`connect_with`](Self::connect_with).
    ///
    /// # Examples
    /// ```no_run
    /// use idem_core::{RedisStore, RedisStoreOptions};
    ///
    /// # async fn example() -> Result<(), idem_core::ConnectError> {
    /// let sentinels = ["redis://10.0.0.1:26379/", "redis://10.0.0.2:26379/"];
    /// let options = RedisStoreOptions::default();
    /// let store = RedisStore::connect_sentinel(sentinels, "payments", options).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect_sentinel<'a>(
        urls: impl IntoIterator<Item = &'a str>,
        service: &str,
        options: RedisStoreOptions,
    ) -> Result<Self, ConnectError> {
        let urls = encrypted(urls)?.into_iter();
        let urls = urls.map(IntoConnectionInfo::into_connection_info);
        let sentinels = Sentinels {
            urls: urls.collect::<Result<_, _>>().map_err(not_a_url)?,
            service: service.to_owned(),
        };
        sentinels.check().map_err(not_a_url)?;
        Self::open(Server::Sentinels(Arc::new(sentinels)), options).await
    }

    /// Connects with a client that the application has set up, with certificates of its own say.
    ///
    /// # Errors
    /// As [`connect_with`](Self::connect_with).
    ///
    /// # Examples
    /// ```no_run
    /// use idem_core::{RedisStore, RedisStoreOptions};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = redis::Client::open("redis://127.0.0.1/")?;
    /// let store = RedisStore::from_client(client, RedisStoreOptions::default()).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn from_client(
        client: Client,
        options: RedisStoreOptions,
    ) -> Result<Self, ConnectError> {
        if matches!(
            client.get_connection_info().addr(),
            ConnectionAddr::TcpTls { .. }
        ) {
            provide_cryptography();
        }
        Self::open(Server::Single(Arc::new(client)), options).await
    }

    /// Connects with a client of a Cluster that the application has set up. What it says of reading
    /// from replicas does not apply here.
    ///
    /// # Errors
    /// As [`connect_with`](Self::connect_with).
    ///
    /// # Examples
    /// ```no_run
    /// use idem_core::{RedisStore, RedisStoreOptions};
    /// use redis::cluster::ClusterClient;
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = ClusterClient::builder(["redis://10.0.0.1/"]).password("secret").build()?;
    /// let store = RedisStore::from_cluster(client, RedisStoreOptions::default()).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn from_cluster(
        client: ClusterClient,
        options: RedisStoreOptions,
    ) -> Result<Self, ConnectError> {
        provide_cryptography();
        Self::open(Server::Cluster(Arc::new(client)), options).await
    }

    /// Connects with a client of Sentinels that the application has set up, for the primary.
    ///
    /// This client waits up to a second for each Sentinel that does not answer, and connecting may
    /// take three seconds more than a call. [`connect_sentinel`](Self::connect_sentinel) asks all at
    /// once, with clients that nobody shares.
    ///
    /// # Errors
    /// As [`connect_with`](Self::connect_with).
    ///
    /// # Examples
    /// ```no_run
    /// use idem_core::{RedisStore, RedisStoreOptions};
    /// use redis::{ConnectionAddr, sentinel::{SentinelClientBuilder, SentinelServerType}};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let sentinels = [ConnectionAddr::Tcp("10.0.0.1".to_owned(), 26379)];
    /// let client = SentinelClientBuilder::new(sentinels, "payments", SentinelServerType::Master)?
    ///     .set_client_to_redis_password("secret")
    ///     .build()?;
    /// let store = RedisStore::from_sentinel(client, RedisStoreOptions::default()).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn from_sentinel(
        client: SentinelClient,
        options: RedisStoreOptions,
    ) -> Result<Self, ConnectError> {
        provide_cryptography();
        let server = Server::Sentinel(Arc::new(tokio::sync::Mutex::new(client)));
        Self::open(server, options).await
    }

    async fn open(server: Server, options: RedisStoreOptions) -> Result<Self, ConnectError> {
        options.check()?;
        let link = Link::new(server, Arc::new(options));
        let greeting = async {
            let mut lane = link.lane().await?;
            lane.connection().warn_of_eviction(link.options()).await;
            Ok(())
        };
        link.within_opening(greeting).await?;
        Ok(Self {
            link: Arc::new(link),
            watch: Arc::default(),
        })
    }

    /// The name of a record. The braces are what a Cluster places it by.
    fn name(&self, key: &StorageKey) -> String {
        let prefix = &self.link.options().prefix;
        let mut name = String::with_capacity(prefix.len() + 45);
        name.push_str(prefix);
        name.push('{');
        URL_SAFE_NO_PAD.encode_string(key.as_bytes(), &mut name);
        name.push('}');
        name
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("link", &self.link)
            .field("options", self.link.options())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for RedisStore {
    async fn claim(&self, claim: &ClaimRequest<'_>) -> Result<Claim, StoreError> {
        let name = self.name(claim.key);
        let claimed = Claimed::new(claim, SystemTime::now());
        let work = async {
            let mut lane = self.link.lane().await?;
            claim::claim(&mut lane, &name, claim, &claimed).await
        };
        Ok(self.link.within(work).await?)
    }

    async fn renew(&self, leases: &[LeaseRef<'_>]) -> Result<Vec<Renewal>, StoreError> {
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        // Before whoever asks us leaves, with all that is known.
        let until = Instant::now() + self.link.options().timeout * 3 / 4;
        let work = async {
            let lane = self.link.lane().await?;
            let calls = leases.iter().map(|lease| {
                let name = self.name(lease.key);
                let call = renew::call(&name, lease.owner, lease.lease);
                (name, call)
            });
            Ok(renew::all(&lane, calls.collect(), until).await)
        };
        let answers = self.link.within(work).await?;
        Ok(renew::told_apart(leases, answers)?)
    }

    async fn complete(
        &self,
        lease: &LeaseRef<'_>,
        record: &Record,
        ttl: Duration,
    ) -> Result<Completion, StoreError> {
        let name = self.name(lease.key);
        let response = encoded(record)?;
        let meta = Meta::restored(lease, SystemTime::now());
        let (fence, attempt) = lease
            .grant
            .map_or((0, 1), |grant| (grant.fence.get(), grant.attempt));
        let mut call = script::COMPLETE.on(&name);
        call.arg(lease.owner.as_bytes())
            .arg(&response[..])
            .arg(millis(ttl))
            .arg(lease.fingerprint.as_bytes())
            .arg(meta.as_bytes())
            .arg(fence)
            .arg(attempt)
            .arg(lease_millis(lease.lease));
        let work = async {
            let mut lane = self.link.lane().await?;
            let completed = lane.run_durably(&script::COMPLETE, &name, &call).await;
            let (answer, acknowledged) = completed?;
            let answer = Answer::read(answer)?;
            let completion = match answer.status()? {
                "stored" => Completion::Stored,
                "restored" => Completion::Restored,
                "already" => Completion::Already,
                "released" => return Ok(Completion::Released),
                "superseded" => return Ok(Completion::Superseded),
                _ => return Err(answer.failure()),
            };
            acknowledged.required()?;
            Ok(completion)
        };
        let completion = self.link.within(work).await?;
        self.watch.ended(lease.key);
        Ok(completion)
    }

    async fn release(&self, lease: &LeaseRef<'_>, how: Release) -> Result<Released, StoreError> {
        let name = self.name(lease.key);
        let mut call = script::RELEASE.on(&name);
        call.arg(lease.owner.as_bytes());
        match how {
            Release::Bound => call.arg("bound"),
            Release::Forget => call.arg("forget"),
            Release::Undo => call.arg("undo"),
            Release::Unknown { keep } => call.arg("unknown").arg(millis(keep)),
        };
        let work = async {
            let mut lane = self.link.lane().await?;
            let answer = Answer::read(lane.run(&script::RELEASE, &name, &call).await?)?;
            match answer.status()? {
                "done" => Ok(Released::Done),
                "ended" => Ok(Released::Ended),
                "superseded" => Ok(Released::Superseded),
                "gone" => Ok(Released::Gone),
                _ => Err(answer.failure()),
            }
        };
        let released = self.link.within(work).await?;
        self.watch.ended(lease.key);
        Ok(released)
    }

    async fn inspect(&self, key: &StorageKey) -> Result<Option<Summary>, StoreError> {
        let name = self.name(key);
        let work = async { look::summary(&mut self.link.lane().await?, &name).await };
        Ok(self.link.within(work).await?)
    }

    async fn resolve(
        &self,
        key: &StorageKey,
        expected: Fence,
        how: Resolve,
    ) -> Result<Resolved, StoreError> {
        let name = self.name(key);
        let mut call = script::RESOLVE.on(&name);
        call.arg(expected.get()).arg(Owner::random().as_bytes());
        let is_outcome = matches!(how, Resolve::Complete { .. });
        match how {
            Resolve::Complete { record, ttl } => {
                let response = encoded(&record)?;
                call.arg("complete").arg(&response[..]).arg(millis(ttl))
            }
            Resolve::Release => call.arg("release"),
            Resolve::Forget => call.arg("forget"),
        };
        let work = async {
            let mut lane = self.link.lane().await?;
            let resolved = lane.run_durably(&script::RESOLVE, &name, &call).await;
            let (answer, acknowledged) = resolved?;
            let answer = Answer::read(answer)?;
            match answer.status()? {
                "done" if is_outcome => acknowledged.required().map(|()| Resolved::Done),
                "done" => Ok(Resolved::Done),
                "stale" => Ok(Resolved::Stale {
                    fence: answer.fence(1)?,
                }),
                "gone" => Ok(Resolved::Gone),
                _ => Err(answer.failure()),
            }
        };
        let resolved = self.link.within(work).await?;
        self.watch.ended(key);
        Ok(resolved)
    }

    async fn changed(&self, key: &StorageKey, until: Instant) -> Result<(), StoreError> {
        let name = self.name(key);
        let runs = async || look::runs(&mut self.link.lane().await?, &name).await;
        let look = || async { Ok(self.link.within(runs()).await?) };
        self.watch.wait(key, until, look).await
    }

    /// Redis drops what has expired.
    async fn purge(&self, _: u32) -> Result<u64, StoreError> {
        Ok(0)
    }

    async fn reopen(&self) -> Result<Arc<dyn Store>, StoreError> {
        let link = self.link.again();
        let opening = async { link.lane().await.map(drop) };
        link.within_opening(opening).await?;
        Ok(Arc::new(Self {
            link: Arc::new(link),
            watch: Arc::clone(&self.watch),
        }))
    }
}

/// The bytes of a record. One that has none is stored without its body: that its key is completed
/// is what counts.
fn encoded(record: &Record) -> Result<Bytes, StoreError> {
    record
        .encode()
        .or_else(|_| record.remnant().encode())
        .map_err(|unwritable| StoreError::unavailable(NAME, unwritable))
}

/// The driver's TLS takes the process's own cryptography, and panics where there is none, or more
/// than one to choose from. Whatever the application has chosen stays.
fn provide_cryptography() {
    #[cfg(feature = "redis-tls")]
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // If somebody was faster, there is one now.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

/// A command is small, and is not to wait for the acknowledgement of the one before.
fn at_once() -> TcpSettings {
    TcpSettings::default().set_nodelay(true)
}

/// The same URLs; if one of them asks for TLS, it will be there.
fn encrypted<'a>(urls: impl IntoIterator<Item = &'a str>) -> Result<Vec<&'a str>, ConnectError> {
    let is_tls = |url: &&str| url.starts_with("rediss:") || url.starts_with("valkeys:");
    let urls: Vec<_> = urls.into_iter().collect();
    if urls.iter().any(is_tls) {
        if cfg!(not(feature = "redis-tls")) {
            return Err(ConnectError::Invalid {
                setting: "url",
                expected: "without TLS, since the feature `redis-tls` is off",
                source: None,
            });
        }
        provide_cryptography();
    }
    Ok(urls)
}

fn not_a_url(error: redis::RedisError) -> ConnectError {
    ConnectError::Invalid {
        setting: "url",
        expected: "such as `redis://user:password@host:6379/0`",
        source: Some(Box::new(error)),
    }
}
