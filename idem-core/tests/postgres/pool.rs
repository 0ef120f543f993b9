//! The pool: shared with handlers, and apart from the keeper's.

use std::{sync::Arc, thread, time::Duration};

use futures_util::FutureExt;
use idem_core::{
    PostgresStore, PostgresStoreOptions, Store,
    store::{Claim, Fence, Release, Renewal, Resolve},
};
use sqlx::postgres::PgPoolOptions;
use tokio::{
    runtime::Builder,
    sync::Barrier,
    task::JoinSet,
    time::{Instant, timeout},
};

use crate::{
    attempt::{Attempt, causes, completed, record},
    subjects::postgres::Postgres,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_holds_a_connection_while_a_handler_runs_or_waits() {
    const REQUESTS: usize = 20;
    let url = idem_services::Postgres::shared().await.url();
    let subject = Postgres::new().await;
    let pool = PgPoolOptions::new().max_connections(5);
    let pool = pool.connect(&url).await.expect("a pool");
    let options = PostgresStoreOptions::default()
        .with_table(&subject.table)
        .with_timeout(Duration::from_secs(20));
    let store = PostgresStore::from_pool_with(pool.clone(), options).expect("valid");
    for same in [false, true] {
        let (first, start) = (Attempt::fresh(), Arc::new(Barrier::new(REQUESTS)));
        let mut requests = JoinSet::new();
        for _ in 0..REQUESTS {
            let mut attempt = if same {
                first.rival()
            } else {
                Attempt::fresh()
            };
            let (store, pool, start) = (store.clone(), pool.clone(), Arc::clone(&start));
            requests.spawn(async move {
                start.wait().await;
                loop {
                    match attempt.claim(&store).await.expect("an answer") {
                        Claim::Acquired { grant } => {
                            attempt.grant = Some(grant);
                            for _ in 0..3 {
                                let work = sqlx::query("SELECT pg_sleep(0.005)");
                                work.execute(&pool).await.expect("the handler works");
                            }
                            let _ = attempt.complete(&store, &record("paid")).await;
                            return true;
                        }
                        Claim::InProgress { .. } => {
                            let until = Instant::now() + Duration::from_secs(10);
                            let waited = store.changed(&attempt.id, until).await;
                            waited.expect("an answer");
                        }
                        other => {
                            assert_eq!(other, completed(&record("paid")));
                            return false;
                        }
                    }
                }
            });
        }
        let ran = timeout(Duration::from_secs(20), requests.join_all()).await;
        let ran = ran.expect("all finish").into_iter().filter(|ran| *ran);
        assert_eq!(ran.count(), if same { 1 } else { REQUESTS });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_waits_for_a_connection_no_longer_than_its_limit() {
    let url = idem_services::Postgres::shared().await.url();
    let subject = Postgres::new().await;
    let pool = PgPoolOptions::new().max_connections(1);
    let pool = pool.connect(&url).await.expect("a pool");
    let limit = Duration::from_millis(300);
    let options = PostgresStoreOptions::default()
        .with_table(&subject.table)
        .with_timeout(limit);
    let store = PostgresStore::from_pool_with(pool.clone(), options).expect("valid");
    let held = pool.acquire().await.expect("the only connection");
    let since = Instant::now();
    let error = Attempt::fresh()
        .claim(&store)
        .await
        .expect_err("it is held");
    assert!(
        causes(&error).contains("no connection within 300ms"),
        "{error:?}"
    );
    assert!(since.elapsed() < limit * 5, "{:?}", since.elapsed());
    drop(held);
    Attempt::fresh().acquire(&store).await;
}

/// A connection lives on the runtime that made it, so that the keeper's is to be its own: here the
/// only worker of the application is blocked, and its connections with it.
#[test]
fn a_reopened_store_answers_while_the_applications_only_worker_is_blocked() {
    let runtime = || {
        Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime")
    };
    let application = runtime();
    let (subject, attempt) = application.block_on(async {
        let url = idem_services::Postgres::shared().await.url();
        let subject = Postgres::at(&url, |options| options.with_max_connections(1)).await;
        let mut attempt = Attempt::fresh();
        attempt.acquire(&subject.store).await;
        (subject, attempt)
    });
    let (opened, reopened) = std::sync::mpsc::channel();
    let (block, blocked) = std::sync::mpsc::channel();
    let store = subject.store.clone();
    let keeper = thread::spawn(move || {
        runtime().block_on(async move {
            let own = store.reopen().await.expect("a connection");
            opened.send(()).expect("the test waits");
            blocked.recv().expect("the worker is blocked");
            for _ in 0..20 {
                let renewal = timeout(Duration::from_secs(5), attempt.renew(&*own)).await;
                let renewal = renewal.expect("in time").expect("an answer");
                assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
            }
            // The control: a connection of the blocked runtime is not heard.
            let short = Duration::from_millis(300);
            timeout(short, attempt.renew(&store))
                .await
                .expect_err("it is blocked");
        });
    });
    application.block_on(async {
        // Nothing of this runtime is polled from here on until the keeper is done.
        reopened.recv().expect("the keeper opens");
        block.send(()).expect("the keeper waits");
        keeper.join().expect("the keeper renews");
    });
}

#[test]
fn a_call_without_a_runtime_is_an_error() {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let (subject, attempt) = runtime.block_on(async { (Postgres::new().await, Attempt::fresh()) });
    let (store, lease) = (&subject.store, attempt.as_lease());
    let until = runtime.block_on(async { Instant::now() });
    let calls = [
        attempt
            .claim(store)
            .now_or_never()
            .map(|answer| answer.map(drop)),
        store
            .renew(&[lease])
            .now_or_never()
            .map(|answer| answer.map(drop)),
        attempt
            .complete(store, &record("paid"))
            .now_or_never()
            .map(|answer| answer.map(drop)),
        attempt
            .release(store, Release::Undo)
            .now_or_never()
            .map(|answer| answer.map(drop)),
        store
            .inspect(&attempt.id)
            .now_or_never()
            .map(|answer| answer.map(drop)),
        store
            .resolve(&attempt.id, Fence::new(1), Resolve::Forget)
            .now_or_never()
            .map(|answer| answer.map(drop)),
        store.purge(1).now_or_never().map(|answer| answer.map(drop)),
        store.reopen().now_or_never().map(|answer| answer.map(drop)),
        store.changed(&attempt.id, until).now_or_never(),
    ];
    for (number, call) in calls.into_iter().enumerate() {
        let error = call.expect("at once").expect_err("there is no runtime");
        assert!(
            causes(&error).contains("needs a tokio runtime"),
            "{number}: {error:?}"
        );
    }
    let connected = PostgresStore::connect("postgres://localhost").now_or_never();
    let error = connected
        .expect("at once")
        .expect_err("there is no runtime");
    assert!(
        causes(&error).contains("needs a tokio runtime"),
        "{error:?}"
    );
}
