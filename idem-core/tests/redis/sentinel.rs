//! A primary that Sentinels watch, and its successor.

use std::{iter::once, net::TcpListener, time::Duration};

use idem_core::{RedisStore, RedisStoreOptions, Store, store::Completion};
use idem_services::Sentinel;
use tokio::time::sleep;

use crate::{
    attempt::{Attempt, completed, paid},
    world::patient,
};

#[tokio::test]
async fn the_successor_of_a_primary_is_found() {
    let watched = Sentinel::start(&[]).await;
    let urls = watched.urls();
    let urls = urls.iter().map(String::as_str);
    let options = patient().with_wait_replicas(1, Duration::from_secs(5));
    let store = RedisStore::connect_sentinel(urls, watched.master_name(), options).await;
    let store = store.expect("the store opens");
    let mut first = Attempt::fresh();
    first.acquire(&store).await;
    assert_eq!(first.complete(&store, &paid()).await, Completion::Stored);

    watched.primary().kill();
    watched.until_master(watched.replica()).await;
    // The replica had the outcome before it counted.
    for _ in 0..100 {
        if let Ok(claim) = first.rival().try_claim(&store).await {
            assert_eq!(completed(claim), paid());
            return;
        }
        sleep(Duration::from_millis(50)).await;
    }
    panic!("the successor is not found");
}

/// The Sentinel that is asked first never answers.
#[tokio::test]
async fn a_silent_sentinel_holds_nobody_up() {
    let watched = Sentinel::start(&[]).await;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = format!("redis://{}/", listener.local_addr().expect("an address"));
    let urls = watched.urls();
    let urls = once(&silent).chain(&urls).map(String::as_str);
    let options = RedisStoreOptions::default();
    let store = RedisStore::connect_sentinel(urls, watched.master_name(), options).await;
    let store = store.expect("the other one answers");
    Attempt::fresh().acquire(&store).await;
    let reopened = store.reopen().await.expect("the other one still answers");
    Attempt::fresh().acquire(&*reopened).await;
}

/// A client of the application's own asks them as it will, and is given the time for that.
#[tokio::test]
async fn a_client_of_sentinels_is_given_time_to_ask_them() {
    let watched = Sentinel::start(&[]).await;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = format!("redis://{}/", listener.local_addr().expect("an address"));
    let urls = once(silent).chain(watched.urls()).collect();
    let primary = redis::sentinel::SentinelServerType::Master;
    let name = watched.master_name().to_owned();
    let client = redis::sentinel::SentinelClient::build(urls, name, None, primary);
    let client = client.expect("a client");
    let store = RedisStore::from_sentinel(client, RedisStoreOptions::default()).await;
    let store = store.expect("the other one answers");
    Attempt::fresh().acquire(&store).await;
}
