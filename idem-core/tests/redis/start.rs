//! Connecting: what is refused, and what is warned about.

use std::{error::Error, time::Duration};

use idem_core::{ConnectError, RedisStore, RedisStoreOptions, Store};
use idem_services::Redis;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    time::{Instant, timeout},
};

use crate::{
    attempt::{Attempt, completed, in_progress, paid},
    world::{World, patient},
};

/// A server that says of itself what the test wants, whatever it is asked; its URL.
async fn pretender(version: &str, mode: &str, role: &str) -> String {
    let words = ["version", version, "mode", mode, "role", role];
    let words = words.map(|word| format!("${}\r\n{word}\r\n", word.len()));
    let hello = format!("*{}\r\n{}", words.len(), words.concat());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("redis://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut asked = [0; 4096];
            while client.read(&mut asked).await.is_ok_and(|bytes| bytes > 0) {
                let said = client.write_all(hello.as_bytes()).await;
                said.expect("it listens");
            }
        }
    });
    url
}

async fn refused(url: &str) -> ConnectError {
    let refused = RedisStore::connect_with(url, patient()).await;
    refused.expect_err("it is refused")
}

#[tokio::test]
async fn a_server_that_is_too_old_is_refused() {
    let error = refused(&pretender("6.2.7", "standalone", "master").await).await;
    assert_eq!(
        error.to_string(),
        "idempotency store `redis` is of version 6.2.7; it must be 7.0 or later"
    );
}

#[tokio::test]
async fn a_replica_is_refused() {
    let error = refused(&pretender("7.2.4", "standalone", "replica").await).await;
    assert!(matches!(error, ConnectError::ReadOnly { .. }), "{error}");

    let primary = Redis::start(&[]).await;
    let of = format!("127.0.0.1 {}", primary.port());
    let replica = Redis::start(&[("replicaof", &of)]).await;
    let error = refused(&replica.url()).await;
    assert!(matches!(error, ConnectError::ReadOnly { .. }), "{error}");
}

#[tokio::test]
async fn what_is_no_server_of_its_own_is_refused() {
    for mode in ["sentinel", "cluster"] {
        let error = refused(&pretender("7.0.15", mode, "master").await).await;
        assert!(
            matches!(error, ConnectError::Invalid { setting: "url", .. }),
            "{error}"
        );
    }
}

#[tokio::test]
async fn nobody_there_is_said_with_the_cause() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("redis://{}", listener.local_addr().expect("an address"));
    drop(listener);
    let error = refused(&url).await;
    let mut causes = std::iter::successors(Some(&error as &dyn Error), |error| (*error).source());
    assert!(causes.any(|cause| cause.to_string().contains("refused")));
}

/// A server that accepts and says nothing.
#[tokio::test]
async fn connecting_ends_within_its_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("redis://{}", listener.local_addr().expect("an address"));
    let limit = Duration::from_millis(200);
    let started = Instant::now();
    let options = RedisStoreOptions::default().with_timeout(limit);
    let connecting = RedisStore::connect_with(&url, options);
    let refused = timeout(limit * 20, connecting).await.expect("it ends");
    let error = refused.expect_err("nobody answers");
    assert!(matches!(error, ConnectError::Unavailable(_)), "{error}");
    assert!(started.elapsed() >= limit);
}

#[tokio::test]
async fn options_that_cannot_be_are_refused() {
    let options = RedisStoreOptions::default;
    let (none, some) = (Duration::ZERO, Duration::from_millis(100));
    for (options, expected) in [
        (options().with_prefix("{x}"), "prefix"),
        (options().with_timeout(none), "timeout"),
        (options().with_wait_replicas(0, some), "wait_replicas"),
        (options().with_wait_replicas(1, none), "wait_replicas"),
        (
            options().with_wait_replicas(1, options().timeout),
            "wait_replicas",
        ),
    ] {
        let refused = RedisStore::connect_with("redis://127.0.0.1:1", options).await;
        match refused.expect_err("it is refused") {
            ConnectError::Invalid { setting, .. } => assert_eq!(setting, expected),
            other => panic!("{other}"),
        }
    }
    let error = refused("http://127.0.0.1/").await;
    assert!(
        matches!(error, ConnectError::Invalid { setting: "url", .. }),
        "{error}"
    );
}

#[tokio::test]
async fn a_server_that_may_evict_is_warned_about() {
    let redis = Redis::start(&[("maxmemory-policy", "allkeys-lru")]).await;
    let logs = crate::logs::Logs::captured();
    let world = World::on(&redis).await;
    let said = logs.text();
    assert!(
        said.contains("WARN") && said.contains("allkeys-lru") && said.contains("noeviction"),
        "{said}"
    );
    Attempt::fresh().acquire(&world.store).await;
    let _: () = world
        .ask("CONFIG SET maxmemory-policy noeviction", &[])
        .await;
    let before = logs.text().len();
    World::on(&redis).await;
    assert_eq!(logs.text().len(), before);
}

#[tokio::test]
async fn debug_shows_no_credentials() {
    let redis = Redis::shared().await;
    let url = redis.url().replace("redis://", "redis://default:hunter2@");
    let world = World::shared().await;
    // The default user takes any password.
    let store = RedisStore::connect_with(&url, patient()).await;
    let store = store.expect("it connects");
    let shown = format!(
        "{store:?} {:?}",
        refused("redis://ada:hunter2@nowhere.invalid").await
    );
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(shown.contains(&redis.addr().to_string()), "{shown}");
    let mut first = Attempt::fresh();
    first.acquire(&world.store).await;
    drop(store);
}

#[tokio::test]
async fn a_client_of_the_applications_own_will_do() {
    let redis = Redis::shared().await;
    let client = redis::Client::open(redis.url()).expect("a URL");
    let prefix = format!("idem:test:{:016x}:", rand::random::<u64>());
    let store = RedisStore::from_client(client, patient().with_prefix(prefix)).await;
    let store = store.expect("it connects");
    let mut first = Attempt::fresh();
    first.acquire(&store).await;
    in_progress(first.rival().claim(&store).await);
}

/// The newer protocol has other answers to the same commands.
#[tokio::test]
async fn either_protocol_will_do() {
    let redis = Redis::shared().await;
    for protocol in ["resp2", "resp3"] {
        let url = format!("{}/?protocol={protocol}", redis.url());
        let store = RedisStore::connect_with(&url, patient()).await;
        let store = store.expect("it connects");
        let mut first = Attempt::fresh();
        let granted = first.acquire(&store).await;
        assert_eq!(in_progress(first.rival().claim(&store).await).0, granted);
        let summary = store.inspect(first.key()).await.expect("it answers");
        assert_eq!(summary.expect("a record").grant, granted);
        let _ = first.renew(&store).await;
        let _ = first.complete(&store, &paid()).await;
        assert_eq!(completed(first.rival().claim(&store).await), paid());
    }
}

/// The driver's TLS has a cryptography of its own choice nowhere: without ours it would panic.
#[cfg(feature = "redis-tls")]
#[tokio::test]
async fn tls_has_what_it_needs() {
    let plain = pretender("7.0.15", "standalone", "master").await;
    let error = refused(&plain.replace("redis://", "rediss://")).await;
    // It was spoken to, and its answer was no handshake.
    let mut causes = std::iter::successors(Some(&error as &dyn Error), |error| (*error).source());
    assert!(
        causes.any(|cause| cause.to_string().contains("InvalidContentType")
            || cause.to_string().contains("corrupt message")),
        "{error:?}"
    );
}

#[cfg(not(feature = "redis-tls"))]
#[tokio::test]
async fn tls_is_refused_where_it_was_not_built_in() {
    let error = refused("rediss://127.0.0.1/").await;
    assert!(
        matches!(error, ConnectError::Invalid { setting: "url", .. }),
        "{error}"
    );
    // It says what to do.
    assert!(error.to_string().contains("`redis-tls`"), "{error}");
    let error = RedisStore::connect_cluster(["rediss://127.0.0.1/"], patient()).await;
    let error = error.expect_err("it has no TLS").to_string();
    assert!(error.contains("`redis-tls`"), "{error}");
}
