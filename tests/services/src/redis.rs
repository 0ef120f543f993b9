//! A Redis server.

use std::{fmt::Write, ops::Deref};

use redis::{AsyncConnectionConfig, Client, Cmd, RedisResult, aio::MultiplexedConnection};
use tokio::sync::OnceCell;

use crate::server::{PATIENCE, Server, program};

/// What is set unless the test sets it otherwise.
const DEFAULTS: &[(&str, &str)] = &[
    ("save", ""),
    ("appendonly", "no"),
    ("maxmemory-policy", "noeviction"),
    // A replica is to be served at once; the delay of five seconds waits for others.
    ("repl-diskless-sync-delay", "0"),
];

/// One process of `redis-server`.
#[derive(Debug)]
pub struct Redis(Server);

impl Redis {
    /// Starts one. It persists nothing and evicts nothing, unless the configuration says otherwise;
    /// a later line wins over an earlier one, and over ours.
    ///
    /// # Panics
    /// If it does not become ready.
    pub async fn start(config: &[(&str, &str)]) -> Self {
        let redis = Self::launch(&[], config);
        redis.until_ready().await;
        redis
    }

    /// The one that the tests of this process share. Nobody may pause, kill or empty it.
    ///
    /// # Panics
    /// If it does not become ready.
    pub async fn shared() -> &'static Self {
        static SHARED: OnceCell<Redis> = OnceCell::const_new();
        SHARED.get_or_init(|| Self::start(&[])).await
    }

    /// Starts one, and does not wait until it is ready.
    pub(crate) fn launch(arguments: &[&str], config: &[(&str, &str)]) -> Self {
        let program = program("redis-server", &[], "redis-server");
        let mut command = vec![program.into(), "redis.conf".into()];
        command.extend(arguments.iter().map(Into::into));
        let server = Server::new("redis-server", None, &command);
        let port = server.port().to_string();
        let mut file = String::new();
        let ours = [("bind", "127.0.0.1"), ("port", &port)];
        for (name, value) in ours.iter().chain(DEFAULTS).chain(config) {
            let value = if value.is_empty() { "\"\"" } else { value };
            let _ = writeln!(file, "{name} {value}");
        }
        server.write("redis.conf", &file);
        server.run();
        Self(server)
    }

    pub(crate) async fn until_ready(&self) {
        self.until(async || {
            let mut connection = self.connect().await?;
            let _: () = redis::cmd("PING").query_async(&mut connection).await?;
            Ok(())
        })
        .await;
    }

    /// Waits until this report of it says all of these things.
    pub(crate) async fn until_told(&self, report: &Cmd, wanted: &[&str]) {
        self.until(async || {
            let mut connection = self.connect().await?;
            let told: String = report.query_async(&mut connection).await?;
            match wanted.iter().find(|part| !told.contains(**part)) {
                None => Ok(()),
                Some(missing) => Err(format!("no `{missing}` in:\n{told}").into()),
            }
        })
        .await;
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("redis://{}", self.addr())
    }

    /// Starts it again with the same port, configuration and files, after an end by SIGKILL if it
    /// runs.
    ///
    /// # Panics
    /// If it does not become ready.
    pub async fn restart(&self) {
        self.0.run();
        self.until_ready().await;
    }

    /// A connection of the test's own.
    ///
    /// # Panics
    /// If there is none to be had.
    pub async fn connection(&self) -> MultiplexedConnection {
        let connected = self.connect().await;
        connected.unwrap_or_else(|error| panic!("no connection to {}: {error}", self.url()))
    }

    pub(crate) async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        // The defaults are too short for a busy machine.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(Some(PATIENCE));
        Client::open(self.url())?
            .get_multiplexed_async_connection_with_config(&config)
            .await
    }
}

impl Deref for Redis {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.0
    }
}
