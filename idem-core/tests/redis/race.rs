//! Many clients, each with a connection of its own, at many keys.

use std::{sync::Arc, time::Duration};

use idem_core::{
    RedisStore,
    store::{Claim, Release},
};
use idem_services::Redis;
use tokio::{sync::Barrier, task::JoinSet, time::sleep};

use crate::{
    attempt::{Attempt, LONG, paid},
    world::{World, patient},
};

const CLIENTS: usize = 50;
const KEYS: usize = 200;

/// Whatever was there before, of all claims of a key exactly one is acquired.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_fifty_clients_one_wins_each_key() {
    let redis = Redis::start(&[]).await;
    let world = World::on(&redis).await;
    let options = patient().with_prefix(&world.prefix);
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let client = RedisStore::connect_with(&redis.url(), options.clone()).await;
        clients.push(client.expect("it connects"));
    }
    let moment = Duration::from_millis(1);
    let mut kinds = [const { Vec::new() }; 4];
    for _ in 0..KEYS {
        let [fresh, lapsed, expired, released] = &mut kinds;
        fresh.push(Attempt::fresh());
        let mut attempt = Attempt::fresh().with_lease(moment);
        attempt.acquire(&world.store).await;
        lapsed.push(attempt.with_lease(LONG));
        let mut attempt = Attempt::fresh().with_lease(LONG).with_ttl(moment);
        attempt.acquire(&world.store).await;
        let _ = attempt.complete(&world.store, &paid()).await;
        expired.push(attempt.with_ttl(LONG));
        let mut attempt = Attempt::fresh();
        attempt.acquire(&world.store).await;
        let _ = attempt.release(&world.store, Release::Bound).await;
        released.push(attempt);
    }
    sleep(Duration::from_millis(20)).await;
    for keys in kinds {
        one_wins_each(&clients, keys).await;
    }
}

async fn one_wins_each(clients: &[RedisStore], keys: Vec<Attempt>) {
    let (keys, start) = (Arc::new(keys), Arc::new(Barrier::new(clients.len())));
    let mut racers = JoinSet::new();
    for client in clients {
        let (client, keys, start) = (client.clone(), Arc::clone(&keys), Arc::clone(&start));
        racers.spawn(async move {
            let mut won = Vec::new();
            for (number, key) in keys.iter().enumerate() {
                start.wait().await;
                match key.rival().claim(&client).await {
                    Claim::Acquired { .. } => won.push(number),
                    Claim::InProgress { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
            won
        });
    }
    let mut won: Vec<_> = racers.join_all().await.into_iter().flatten().collect();
    won.sort_unstable();
    assert_eq!(won, (0..keys.len()).collect::<Vec<_>>());
}
