//! A primary that Sentinels watch, and its successor.

use std::time::Duration;

use idem_core::{RedisStore, store::Completion};
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
