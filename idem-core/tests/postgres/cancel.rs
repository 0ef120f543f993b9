//! Requests that are dropped at any moment leave whole connections behind.

use std::{
    env,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use idem_core::{
    PostgresStore, PostgresStoreOptions, Store,
    store::{Fence, Release, Resolve},
};
use idem_services::Proxy;
use sqlx::{Executor, PgPool, Row, postgres::PgPoolOptions};
use tokio::{task::JoinSet, time::timeout};

use crate::{
    attempt::{Attempt, causes, completed, record},
    subjects::postgres::Postgres,
};

/// A store over a pool of so many connections, which the test uses too.
async fn sharing(connections: u32) -> (Postgres, PostgresStore, PgPool) {
    let url = idem_services::Postgres::shared().await.url();
    let subject = Postgres::new().await;
    let pool = PgPoolOptions::new().max_connections(connections);
    let pool = pool.connect(&url).await.expect("a pool");
    let options = PostgresStoreOptions::default()
        .with_table(&subject.table)
        .with_timeout(Duration::from_secs(20));
    let store = PostgresStore::from_pool_with(pool.clone(), options).expect("valid");
    (subject, store, pool)
}

/// Every call, over one key.
fn calls<'a>(store: &'a PostgresStore, attempt: &'a Attempt) -> Vec<BoxFuture<'a, ()>> {
    vec![
        Box::pin(async { drop(attempt.claim(store).await) }),
        Box::pin(async { drop(attempt.rival().claim(store).await) }),
        Box::pin(async { drop(attempt.renew(store).await) }),
        Box::pin(async { drop(store.inspect(&attempt.id).await) }),
        Box::pin(async {
            let how = Resolve::Release;
            drop(store.resolve(&attempt.id, Fence::new(1), how).await);
        }),
        Box::pin(async { drop(store.purge(10).await) }),
        Box::pin(async {
            let until = tokio::time::Instant::now() + Duration::from_millis(30);
            drop(store.changed(&attempt.id, until).await);
        }),
        Box::pin(async { drop(attempt.complete(store, &record("paid")).await) }),
        Box::pin(async { drop(attempt.release(store, Release::Undo).await) }),
        Box::pin(async { drop(store.reopen().await) }),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_call_leaves_no_transaction_in_the_pool() {
    let (subject, store, pool) = sharing(1).await;
    let number = calls(&store, &Attempt::fresh()).len();
    // From before the first poll to after the answer.
    for micros in (0..=3_000).step_by(150) {
        for call in 0..number {
            let attempt = Attempt::fresh();
            let call = calls(&store, &attempt).swap_remove(call);
            let _ = timeout(Duration::from_micros(micros), call).await;
            // As one message: the time of its transaction is that of the message, unless the
            // transaction is an older one. An aborted one would refuse it.
            let row = pool.fetch_one(sqlx::raw_sql(
                "SELECT coalesce(pg_current_xact_id_if_assigned()::text, 'none') || ' '
                     || (now() = statement_timestamp()) || ' ' || current_setting('lock_timeout')",
            ));
            let row = row.await.expect("a whole connection");
            assert_eq!(row.get::<String, _>(0), "none true 0");
        }
    }
    assert_eq!(pool.size(), 1);
    drop(subject);
}

/// P-08: a claim that waits for a connection when its request leaves does not land later, when the
/// engine has taken it back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_was_dropped_before_it_was_sent_is_never_sent() {
    let (subject, store, pool) = sharing(1).await;
    let attempt = Attempt::fresh();
    let held = pool.acquire().await.expect("a connection");
    let claim = attempt.claim(&store);
    timeout(Duration::from_millis(50), claim)
        .await
        .expect_err("there is no connection");
    drop(held);
    // Whoever waits for a connection is served in turn.
    Attempt::fresh().acquire(&store).await;
    let found = store.inspect(&attempt.id).await;
    assert_eq!(found.expect("the store answers"), None);
    drop(subject);
}

/// Nobody waits any more, and nothing is heard: the call ends by itself. Its place is kept as long as
/// the server may work on it, and is free once the connection ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_call_without_an_answer_gives_its_place_back() {
    let server = idem_services::Postgres::shared().await;
    let proxy = Proxy::start(server.addr());
    let limit = Duration::from_millis(500);
    let url = proxy.url(&server.url());
    let subject = Postgres::at(&url, |options| {
        options.with_max_connections(1).with_timeout(limit)
    });
    let subject = subject.await;
    Attempt::fresh().acquire(&subject.store).await;
    // A connection is tried once more when it is given back.
    tokio::time::sleep(limit / 2).await;
    proxy.drop_replies();
    let attempt = Attempt::fresh();
    let call = attempt.claim(&subject.store);
    timeout(limit / 5, call)
        .await
        .expect_err("it is not answered");
    proxy.struck().await;
    proxy.pass();
    tokio::time::sleep(limit).await;
    let kept = Attempt::fresh().claim(&subject.store).await;
    let error = kept.expect_err("the place is kept");
    assert!(causes(&error).contains("had no connection"), "{error:?}");
    proxy.close_all();
    Attempt::fresh().acquire(&subject.store).await;
}

/// So many futures are dropped; `IDEM_DROPS=100000` makes it the whole number.
const DROPS: usize = 10_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_reads_the_reply_of_one_that_was_dropped() {
    let drops = env::var("IDEM_DROPS").map_or(DROPS, |number| number.parse().expect("a number"));
    let (subject, store, _pool) = sharing(2).await;
    let mut known = Vec::new();
    for number in 0..20 {
        let mut attempt = Attempt::fresh();
        attempt.acquire(&store).await;
        let record = record(format!("payment {number}"));
        let _ = attempt.complete(&store, &record).await;
        known.push((attempt, record));
    }
    let (known, started) = (Arc::new(known), Instant::now());
    let mut workers = JoinSet::new();
    for _ in 0..8 {
        let (known, store) = (Arc::clone(&known), store.clone());
        workers.spawn(async move {
            for _ in 0..drops / 8 {
                let any = |number: usize| rand::random_range(0..number);
                let (other, _) = &known[any(known.len())];
                let call = calls(&store, other).swap_remove(any(6));
                let _ = timeout(Duration::from_micros(rand::random_range(0..400)), call).await;
                let (attempt, record) = &known[any(known.len())];
                let found = attempt.rival().claim(&store).await.expect("an answer");
                assert_eq!(found, completed(record));
            }
        });
    }
    workers.join_all().await;
    eprintln!("{drops} drops in {:?}", started.elapsed());
    drop(subject);
}
