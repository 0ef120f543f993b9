//! A store with a prefix of its own, and a raw connection to look behind it.

use std::{collections::HashMap, time::Duration};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use idem_core::{RedisStore, RedisStoreOptions, StorageKey};
use idem_services::Redis;
use redis::{FromRedisValue, aio::MultiplexedConnection};

pub(crate) struct World {
    pub(crate) store: RedisStore,
    pub(crate) prefix: String,
    connection: MultiplexedConnection,
}

impl World {
    /// On the server that the tests of this process share.
    pub(crate) async fn shared() -> Self {
        Self::on(Redis::shared().await).await
    }

    /// On a server of the test's own.
    pub(crate) async fn on(redis: &Redis) -> Self {
        Self::through(&redis.url(), redis, patient()).await
    }

    /// On a server that is reached by another URL than its own.
    pub(crate) async fn through(url: &str, redis: &Redis, options: RedisStoreOptions) -> Self {
        let prefix = format!("idem:test:{:016x}:", rand::random::<u64>());
        let store = RedisStore::connect_with(url, options.with_prefix(&prefix)).await;
        Self {
            store: store.expect("the store opens"),
            prefix,
            connection: redis.connection().await,
        }
    }

    /// The name of a record.
    pub(crate) fn name(&self, key: &StorageKey) -> String {
        let id = URL_SAFE_NO_PAD.encode(key.as_bytes());
        format!("{}{{{id}}}", self.prefix)
    }

    /// Asks the server, past the store.
    pub(crate) async fn ask<T: FromRedisValue>(&self, command: &str, arguments: &[&str]) -> T {
        let mut words = command.split(' ');
        let mut ask = redis::cmd(words.next().expect("a command"));
        for argument in words.chain(arguments.iter().copied()) {
            ask.arg(argument);
        }
        let answer = ask.query_async(&mut self.connection.clone()).await;
        answer.unwrap_or_else(|error| panic!("{command}: {error}"))
    }

    /// Puts a value in the place of a record's, with the expiry that it has.
    pub(crate) async fn put(&self, key: &StorageKey, value: &[u8]) {
        let mut set = redis::cmd("SET");
        set.arg(self.name(key)).arg(value).arg("KEEPTTL");
        let set = set.query_async::<()>(&mut self.connection.clone()).await;
        set.expect("it is stored");
    }

    /// The value of a record.
    pub(crate) async fn value(&self, key: &StorageKey) -> Option<Vec<u8>> {
        self.ask("GET", &[&self.name(key)]).await
    }

    /// How long a record lives, in milliseconds; -1 if it has no expiry, -2 if there is none.
    pub(crate) async fn left(&self, key: &StorageKey) -> i64 {
        self.ask("PTTL", &[&self.name(key)]).await
    }

    /// How often each command was carried out on this server since its counters were reset.
    pub(crate) async fn counts(&self) -> HashMap<String, u64> {
        let stats: String = self.ask("INFO commandstats", &[]).await;
        let count = |line: &str| {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            let calls = rest.split(',').next()?.parse().ok()?;
            Some((name.to_owned(), calls))
        };
        stats.lines().filter_map(count).collect()
    }
}

/// Options for a machine that is busy with other tests.
pub(crate) fn patient() -> RedisStoreOptions {
    RedisStoreOptions::default().with_timeout(Duration::from_secs(20))
}
