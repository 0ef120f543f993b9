//! Replicas, and a primary that is none any more.

use std::{error::Error, time::Duration};

use idem_core::{
    RedisStore, Store, StoreError,
    store::{Claim, Completion, Resolve, Resolved},
};
use idem_services::{Proxy, Redis};
use tokio::time::Instant;

use crate::{
    attempt::{Attempt, LONG, completed, in_progress, paid},
    world::{World, patient},
};

async fn replica_of(primary: &Redis) -> Redis {
    let of = format!("127.0.0.1 {}", primary.port());
    Redis::start(&[("replicaof", &of), ("repl-ping-replica-period", "1")]).await
}

/// Waits until the primary has so many replicas, and they have what it has.
async fn until_in_step(world: &World, replicas: usize) {
    let (marker, wanted) = (format!("{}marker", world.prefix), replicas.to_string());
    for _ in 0..200 {
        let _: () = world.ask("SET", &[&marker, "", "PX", "1000"]).await;
        let acknowledged: usize = world.ask("WAIT", &[&wanted, "100"]).await;
        let info: String = world.ask("INFO replication", &[]).await;
        if acknowledged == replicas && info.matches("state=online").count() == replicas {
            return;
        }
    }
    panic!("the replicas do not catch up");
}

/// Asks until there is an answer.
async fn until_ok<T>(ask: impl AsyncFn() -> Result<T, StoreError>) -> T {
    for _ in 0..50 {
        if let Ok(answer) = ask().await {
            return answer;
        }
    }
    panic!("there is no answer");
}

/// The primary was demoted, and another server answers at its address.
#[tokio::test]
async fn a_demoted_primary_is_left_for_its_successor() {
    let (old, new) = (Redis::start(&[]).await, Redis::start(&[]).await);
    let world = World::on(&old).await;
    let store = &world.store;
    let mut first = Attempt::fresh();
    first.acquire(store).await;

    let port = new.port().to_string();
    let _: () = world.ask("REPLICAOF 127.0.0.1", &[&port]).await;
    // A replica takes no writes, not even ones that would write nothing.
    let refused = first.rival().try_claim(store).await;
    let error = refused.expect_err("it is a replica");
    let cause = error.source().expect("a cause").to_string();
    assert!(cause.contains("replica"), "{cause}");
    let refused = first.rival().try_claim(store).await;
    let error = refused.expect_err("it still is");
    let cause = error.source().expect("a cause").to_string();
    assert!(cause.contains("replica"), "{cause}");
    // Nor is it read from.
    let looked = store.inspect(first.key()).await;
    looked.expect_err("it still is");

    let _: () = world.ask("REPLICAOF NO ONE", &[]).await;
    let mut second = Attempt::fresh();
    second.acquire(store).await;
    assert_eq!(second.complete(store, &paid()).await, Completion::Stored);
    assert_eq!(completed(second.rival().claim(store).await), paid());
}

#[tokio::test]
async fn a_claim_and_an_outcome_wait_for_replicas() {
    let primary = Redis::start(&[]).await;
    let replica = replica_of(&primary).await;
    let options = patient().with_wait_replicas(1, Duration::from_secs(10));
    let world = World::through(&primary.url(), &primary, options).await;
    until_in_step(&world, 1).await;
    let store = &world.store;
    let mut behind = replica.connection().await;

    let mut first = Attempt::fresh();
    first.acquire(store).await;
    let get = || {
        let mut get = redis::cmd("GET");
        get.arg(world.name(first.key()));
        get
    };
    let there: Option<Vec<u8>> = get().query_async(&mut behind).await.expect("it answers");
    assert_eq!(there, world.value(first.key()).await);
    assert_eq!(first.complete(store, &paid()).await, Completion::Stored);
    let there: Option<Vec<u8>> = get().query_async(&mut behind).await.expect("it answers");
    assert_eq!(there, world.value(first.key()).await);
    assert_eq!(completed(first.rival().claim(store).await), paid());
}

/// Too few replicas have the claim: it fails, and sent again, it is the claim that it was.
#[tokio::test]
async fn too_few_replicas_are_an_error_and_not_another_attempt() {
    let primary = Redis::start(&[]).await;
    let options = patient().with_wait_replicas(2, Duration::from_secs(1));
    let world = World::through(&primary.url(), &primary, options).await;
    let store = &world.store;
    let replica = replica_of(&primary).await;
    until_in_step(&world, 1).await;
    let short = |error: StoreError| {
        let cause = error.source().expect("a cause").to_string();
        assert_eq!(cause, "1 of 2 replicas acknowledged");
    };

    let mut first = Attempt::fresh();
    let started = Instant::now();
    short(first.try_claim(store).await.expect_err("one is missing"));
    assert!(started.elapsed() >= Duration::from_millis(900));
    short(first.try_claim(store).await.expect_err("one is missing"));
    // Where nothing was written, nothing is missing.
    let (grant, _) = in_progress(first.rival().claim(store).await);
    assert_eq!(grant.attempt, 1);
    let claim = first.stranger().claim(store).await;
    assert!(matches!(claim, Claim::Mismatch { .. }), "{claim:?}");

    let other = replica_of(&primary).await;
    until_in_step(&world, 2).await;
    // A busy machine may need more than one try.
    let again = until_ok(async || first.try_claim(store).await).await;
    assert_eq!(again, Claim::Acquired { grant });
    first.grant = Some(grant);
    drop(other);
    until_in_step(&world, 1).await;
    let outcome = paid();
    let completion = store.complete(&first.as_lease(), &outcome, first.ttl).await;
    short(completion.expect_err("one is missing"));
    let _other = replica_of(&primary).await;
    until_in_step(&world, 2).await;
    let complete = async || store.complete(&first.as_lease(), &outcome, first.ttl).await;
    assert_eq!(until_ok(complete).await, Completion::Already);
    drop(replica);
}

/// An operator's outcome is one, too.
#[tokio::test]
async fn an_operators_outcome_waits_for_replicas() {
    let primary = Redis::start(&[]).await;
    let options = patient().with_wait_replicas(1, Duration::from_millis(100));
    let world = World::through(&primary.url(), &primary, options).await;
    let mut attempt = Attempt::fresh();
    let url = primary.url();
    let impatient = RedisStore::connect_with(&url, patient().with_prefix(&world.prefix));
    let impatient = impatient.await.expect("it opens");
    let grant = attempt.acquire(&impatient).await;
    let how = || Resolve::Complete {
        record: paid(),
        ttl: LONG,
    };
    let resolved = world.store.resolve(attempt.key(), grant.fence, how()).await;
    let error = resolved.expect_err("there are none");
    let cause = error.source().expect("a cause").to_string();
    assert_eq!(cause, "0 of 1 replicas acknowledged");
    // It was done.
    let again = world.store.resolve(attempt.key(), grant.fence, how()).await;
    assert!(matches!(again, Ok(Resolved::Stale { .. })), "{again:?}");
}

/// The address leads to another server from one moment to the next, as after a failover by name.
#[tokio::test]
async fn a_broken_connection_is_made_anew() {
    let redis = Redis::start(&[]).await;
    let proxy = Proxy::start(redis.addr());
    let world = World::through(&proxy.url(&redis.url()), &redis, patient()).await;
    let mut first = Attempt::fresh();
    first.acquire(&world.store).await;
    proxy.close_all();
    proxy.until_open(0).await;
    // Whether the driver has noticed by now or not.
    let claim = first.rival().try_claim(&world.store).await;
    if let Ok(claim) = claim {
        in_progress(claim);
    }
    in_progress(first.rival().claim(&world.store).await);
}
