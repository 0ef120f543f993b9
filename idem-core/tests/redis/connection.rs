//! The connection: who drops a call disturbs nobody, and no silence lasts.

use std::{
    env,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{FutureExt, future::join_all};
use idem_core::{
    Record, RedisStoreOptions, Store,
    store::{Claim, Completion},
};
use idem_services::{Direction, Proxy, Redis};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use crate::{
    attempt::{Attempt, LONG, completed, in_progress, paid},
    world::{World, patient},
};

/// The reply to a claim is lost: sent again, it is the same attempt, and its handler runs once.
#[tokio::test]
async fn a_claim_whose_reply_was_lost_goes_on_as_its_owner() {
    let redis = Redis::start(&[]).await;
    let proxy = Proxy::start(redis.addr());
    let world = World::through(&proxy.url(&redis.url()), &redis, patient()).await;
    let mut first = Attempt::fresh();
    proxy.close_on_reply();
    let lost = first.try_claim(&world.store).await;
    lost.expect_err("the reply is lost");
    assert!(world.left(first.key()).await > 0, "it was carried out");

    assert_eq!(first.acquire(&world.store).await.attempt, 1);
    in_progress(first.rival().claim(&world.store).await);
    proxy.close_on_reply();
    let outcome = paid();
    let lost = world
        .store
        .complete(&first.as_lease(), &outcome, LONG)
        .await;
    lost.expect_err("the reply is lost");
    let again = first.complete(&world.store, &outcome).await;
    assert_eq!(again, Completion::Already);
}

/// Fast enough to fail before whoever waits gives up, slow enough for a busy machine.
const LIMIT: Duration = Duration::from_millis(500);

fn hasty() -> RedisStoreOptions {
    RedisStoreOptions::default().with_timeout(LIMIT)
}

async fn ends_in_time(world: &World) {
    let started = Instant::now();
    let call = Attempt::fresh().try_claim(&world.store).await;
    call.expect_err("the server does not answer");
    assert!(started.elapsed() < LIMIT * 10, "{:?}", started.elapsed());
}

/// Asks until the store answers again.
async fn recovers(world: &World) {
    for _ in 0..100 {
        if Attempt::fresh().try_claim(&world.store).await.is_ok() {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
    panic!("the store does not answer");
}

#[tokio::test]
async fn a_server_that_hangs_is_given_up_and_found_again() {
    let redis = Redis::start(&[]).await;
    let world = World::through(&redis.url(), &redis, hasty()).await;
    redis.pause();
    for _ in 0..2 {
        ends_in_time(&world).await;
    }
    redis.resume();
    recovers(&world).await;

    redis.kill();
    ends_in_time(&world).await;
    redis.restart().await;
    recovers(&world).await;
    // A server that started again knows no script.
    let mut first = Attempt::fresh();
    first.acquire(&world.store).await;
    in_progress(first.rival().claim(&world.store).await);
}

/// The connection leads nowhere, and nobody says so: the system would wait for many minutes. The
/// calls are given up by who made them, long before our own limit.
#[tokio::test]
async fn a_connection_that_went_silent_is_replaced() {
    let redis = Redis::start(&[]).await;
    let proxy = Proxy::start(redis.addr());
    let world = World::through(&proxy.url(&redis.url()), &redis, patient()).await;
    recovers(&world).await;
    let before = proxy.connections();
    proxy.drop_replies();
    let hurry = Duration::from_millis(150);
    for _ in 0..2 {
        let attempt = Attempt::fresh();
        let dropped = timeout(hurry, attempt.try_claim(&world.store)).await;
        dropped.expect_err("it is never answered");
    }
    proxy.pass();
    let recovered = timeout(Duration::from_secs(10), recovers(&world)).await;
    recovered.expect("another connection is made");
    assert_eq!(proxy.connections(), before + 1);
}

/// Many calls that are dropped soon say nothing about the connection.
#[tokio::test]
async fn callers_in_a_hurry_do_not_wear_the_connection_out() {
    let redis = Redis::start(&[]).await;
    let proxy = Proxy::start(redis.addr());
    let world = World::through(&proxy.url(&redis.url()), &redis, patient()).await;
    recovers(&world).await;
    let before = proxy.connections();
    for _ in 0..200 {
        let attempt = Attempt::fresh();
        for _ in 0..5 {
            let dropped = attempt.try_claim(&world.store).now_or_never();
            assert!(dropped.is_none(), "it had no time: {dropped:?}");
        }
        in_progress_or_new(&world).await;
    }
    assert_eq!(proxy.connections(), before);
}

async fn in_progress_or_new(world: &World) {
    let claim = Attempt::fresh().claim(&world.store).await;
    assert!(matches!(claim, Claim::Acquired { .. }), "{claim:?}");
}

/// Of those who find no connection, one makes it.
#[tokio::test]
async fn many_calls_make_one_connection() {
    let redis = Redis::start(&[]).await;
    let proxy = Proxy::start(redis.addr());
    let world = World::through(&proxy.url(&redis.url()), &redis, patient()).await;
    proxy.refuse();
    while Attempt::fresh().try_claim(&world.store).await.is_ok() {}
    let before = proxy.connections();
    proxy.pass();
    let attempts: Vec<_> = (0..50).map(|_| Attempt::fresh()).collect();
    let claims = attempts
        .iter()
        .map(|attempt| attempt.try_claim(&world.store));
    assert!(join_all(claims).await.iter().all(Result::is_ok));
    assert_eq!(proxy.connections(), before + 1);
}

/// It is made even if everybody leaves before it is there.
#[tokio::test]
async fn a_slow_connection_is_made_for_those_who_come_later() {
    let redis = Redis::start(&[]).await;
    let proxy = Proxy::start(redis.addr());
    let world = World::through(&proxy.url(&redis.url()), &redis, patient()).await;
    proxy.close_all();
    proxy.until_open(0).await;
    while Attempt::fresh().try_claim(&world.store).await.is_ok() {
        sleep(Duration::from_millis(5)).await;
    }
    let before = proxy.connections();
    proxy.delay(Direction::ToClient, Duration::from_millis(200));
    let hurry = Duration::from_millis(100);
    let mut tries = 0;
    loop {
        let attempt = Attempt::fresh();
        match timeout(hurry, attempt.try_claim(&world.store)).await {
            Err(_) => tries += 1,
            Ok(claim) => panic!("{claim:?} came in less than a round trip"),
        }
        if tries == 10 {
            break;
        }
    }
    proxy.pass();
    in_progress_or_new(&world).await;
    assert!(proxy.connections() <= before + 2);
}

/// A connection lives in the runtime that made it; another runtime makes another.
#[test]
fn a_store_outlives_the_runtime_that_opened_it() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().expect("a runtime")
    };
    let first = runtime();
    let world = first.block_on(World::shared());
    drop(first);
    runtime().block_on(async {
        let _ = Attempt::fresh().try_claim(&world.store).await;
        let reopened = world.store.reopen().await.expect("it opens");
        Attempt::fresh().acquire(&*reopened).await;
        Attempt::fresh().acquire(&world.store).await;
    });
}

/// Calls are dropped at whatever point they have reached, all the time, while others read records
/// that they know: nobody ever gets the reply to a call of somebody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_calls_mix_no_replies_up() {
    let dropped = env::var("IDEM_DROPPED_CALLS").map_or(100_000, |count| {
        count.parse().expect("IDEM_DROPPED_CALLS is a number")
    });
    let redis = Redis::start(&[]).await;
    let world = World::on(&redis).await;
    let other = world.store.reopen().await.expect("it opens");
    let stores: [Arc<dyn Store>; 2] = [Arc::new(world.store.clone()), other];
    let mut known = Vec::new();
    for number in 0..16 {
        let mut attempt = Attempt::fresh();
        attempt.acquire(&world.store).await;
        let record = Record::new(200 + number, format!("answer {number}"));
        let _ = attempt.complete(&world.store, &record).await;
        known.push((attempt, record));
    }
    let known = Arc::new(known);
    let (left, over) = (
        Arc::new(AtomicUsize::new(dropped)),
        Arc::new(AtomicBool::new(false)),
    );
    let mut droppers = JoinSet::new();
    for number in 0..16 {
        let (known, left) = (Arc::clone(&known), Arc::clone(&left));
        let store = Arc::clone(&stores[number % 2]);
        droppers.spawn(async move {
            let countdown = |left: usize| left.checked_sub(1);
            while left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, countdown)
                .is_ok()
            {
                drop_a_call(&*store, &known).await;
            }
        });
    }
    let mut readers = JoinSet::new();
    for number in 0..8 {
        let (known, over) = (Arc::clone(&known), Arc::clone(&over));
        let store = Arc::clone(&stores[number % 2]);
        readers.spawn(async move {
            let mut read = 0;
            while !over.load(Ordering::Relaxed) {
                let (attempt, record) = &known[read % known.len()];
                let claim = attempt.rival().claim(&*store).await;
                assert_eq!(&completed(claim), record);
                read += 1;
            }
            read
        });
    }
    droppers.join_all().await;
    over.store(true, Ordering::Relaxed);
    let read: usize = readers.join_all().await.into_iter().sum();
    eprintln!("{dropped} calls were dropped, {read} answers were right");
    for (attempt, record) in &*known {
        assert_eq!(&completed(attempt.rival().claim(&*stores[0]).await), record);
    }
}

/// Starts a call, lets it come so far, and drops it.
async fn drop_a_call(store: &dyn Store, known: &[(Attempt, Record)]) {
    let (chance, fresh) = (rand::random::<u32>() as usize, Attempt::fresh());
    let (attempt, record) = &known[chance % known.len()];
    let (rival, lease) = (attempt.rival(), fresh.as_lease());
    let leases = [lease; 3];
    let claim = rival.as_claim();
    let call = match chance / 16 % 5 {
        0 => store.claim(&claim).map(drop).boxed(),
        1 => store.inspect(attempt.key()).map(drop).boxed(),
        2 => store.renew(&leases).map(drop).boxed(),
        3 => store
            .complete(&lease, record, Duration::from_millis(50))
            .map(drop)
            .boxed(),
        _ => store
            .release(&lease, idem_core::store::Release::Undo)
            .map(drop)
            .boxed(),
    };
    tokio::pin!(call);
    for _ in 0..chance / 256 % 4 {
        if futures_util::poll!(&mut call).is_ready() {
            return;
        }
        tokio::task::yield_now().await;
    }
}
