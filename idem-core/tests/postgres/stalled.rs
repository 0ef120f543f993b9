//! A server that works on what nobody waits for any more: its backends stay as few as the pool's places.

use std::time::Duration;

use futures_util::future::join_all;
use idem_core::{
    PostgresStore, PostgresStoreOptions, Store,
    store::{Claim, Completion, Renewal},
};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row};
use tokio::time::{Instant, sleep};

use crate::attempt::{Attempt, causes, completed, record};

const PLACES: u32 = 4;
const LIMIT: Duration = Duration::from_millis(300);

async fn connect(url: &str) -> PostgresStore {
    let options = PostgresStoreOptions::default()
        .with_migration()
        .with_max_connections(PLACES)
        .with_timeout(LIMIT);
    let store = PostgresStore::connect_with(url, options).await;
    store.expect("a store")
}

async fn configure(control: &mut PgConnection, setting: &str) {
    for sql in [setting, "SELECT pg_reload_conf()"] {
        let done = control.execute(AssertSqlSafe(sql)).await;
        done.expect("it is set");
    }
}

/// How many backends there are besides our own.
async fn backends(control: &mut PgConnection) -> i64 {
    let count = "SELECT count(*) FROM pg_stat_activity
                 WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
    let row = control.fetch_one(count).await.expect("an answer");
    row.get(0)
}

/// Claims until each place of the pool answers again.
async fn until_whole(store: &PostgresStore) {
    let since = Instant::now();
    loop {
        let claims = (0..PLACES).map(|_| async { Attempt::fresh().claim(store).await });
        let answers = join_all(claims).await;
        if answers.iter().all(Result::is_ok) {
            return;
        }
        assert!(since.elapsed() < Duration::from_secs(10), "{answers:?}");
        sleep(LIMIT / 3).await;
    }
}

/// Commits wait for a standby that there is none of. Each of them has a backend of the server, until
/// it may end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_that_stall_take_no_more_backends_than_the_pool_has_places() {
    let server = idem_services::Postgres::start(&[]).await;
    let store = connect(&server.url()).await;
    let keeper = store.reopen().await.expect("a connection");
    let mut paid = Attempt::fresh();
    paid.acquire(&store).await;
    let done = paid.complete(&store, &record("paid")).await;
    assert_eq!(done.expect("an answer"), Completion::Stored);
    let mut running = Attempt::fresh();
    running.acquire(&store).await;
    let mut control = server.connect().await;

    configure(
        &mut control,
        "ALTER SYSTEM SET synchronous_standby_names = 'nobody'",
    )
    .await;
    sleep(LIMIT).await;
    let mut last = None;
    for _ in 0..5 {
        let claims = (0..10).map(|_| async { Attempt::fresh().claim(&store).await });
        for answer in join_all(claims).await {
            last = Some(answer.expect_err("no commit ends"));
        }
        // The first renewal stalls, and has the row locked for those that follow.
        let renewal = running.renew(&*keeper).await;
        assert!(
            matches!(renewal, Err(_) | Ok(Renewal::Unanswered)),
            "{renewal:?}"
        );
    }
    let said = causes(&last.expect("an error"));
    assert!(said.contains("the pool had no connection"), "{said}");
    // The keeper has two places of its own.
    let backends = backends(&mut control).await;
    assert!(backends <= i64::from(PLACES) + 2, "{backends} backends");

    configure(&mut control, "ALTER SYSTEM RESET synchronous_standby_names").await;
    until_whole(&store).await;
    let renewal = running.renew(&*keeper).await;
    assert!(
        matches!(renewal, Ok(Renewal::Renewed { .. })),
        "{renewal:?}"
    );
    let replay = paid.rival().claim(&store).await.expect("an answer");
    assert_eq!(replay, completed(&record("paid")));
}

/// A server that is stopped with all of the pool's places taken, and goes on later, or never.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_comes_back_or_ends_gives_all_places_back() {
    let server = idem_services::Postgres::start(&[]).await;
    let store = connect(&server.url()).await;
    until_whole(&store).await;
    for kill in [false, true] {
        server.pause();
        let claims = (0..3 * PLACES).map(|_| async { Attempt::fresh().claim(&store).await });
        for answer in join_all(claims).await {
            answer.expect_err("it is stopped");
        }
        if kill {
            server.kill();
            server.restart().await;
        } else {
            server.resume();
        }
        until_whole(&store).await;
    }
}

/// What a call was still told after its limit is nobody's answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_answer_is_given_to_no_other_call() {
    let server = idem_services::Postgres::start(&[]).await;
    let store = connect(&server.url()).await;
    let mut control = server.connect().await;
    let mut other = PgConnection::connect(&server.url())
        .await
        .expect("a connection");
    let attempts: Vec<_> = (0..PLACES).map(|_| Attempt::fresh()).collect();
    for _ in 0..3 {
        // Nothing can be read either.
        let mut transaction = other.begin().await.expect("a transaction");
        let lock = transaction.execute("LOCK TABLE idem IN ACCESS EXCLUSIVE MODE");
        lock.await.expect("a lock");
        for answer in join_all(attempts.iter().map(|attempt| store.inspect(&attempt.id))).await {
            answer.expect_err("it is locked");
        }
        transaction.rollback().await.expect("it is rolled back");
        until_whole(&store).await;
        for attempt in &attempts {
            let claim = attempt.claim(&store).await.expect("an answer");
            assert!(matches!(claim, Claim::Acquired { .. }), "{claim:?}");
            let found = store.inspect(&attempt.id).await.expect("an answer");
            assert!(found.is_some(), "it is the answer of another call");
        }
    }
    assert!(backends(&mut control).await <= i64::from(PLACES) + 1);
}
