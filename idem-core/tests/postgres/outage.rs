//! Servers that do not answer, and connections that end.

use std::time::{Duration, Instant};

use idem_core::{
    PostgresStore, PostgresStoreOptions, Store, StoreError,
    store::{Claim, Completion},
};
use idem_services::Proxy;
use sqlx::{Connection, Executor, PgConnection, Row, postgres::PgPoolOptions};

use crate::{
    attempt::{Attempt, causes, completed, record},
    subjects::postgres::Postgres,
};

const LIMIT: Duration = Duration::from_secs(1);

async fn connect(url: &str, connections: u32) -> PostgresStore {
    let options = PostgresStoreOptions::default()
        .with_migration()
        .with_max_connections(connections)
        .with_timeout(LIMIT);
    let store = PostgresStore::connect_with(url, options).await;
    store.expect("a store")
}

/// Lets the connection learn its statements, so that each is one message; and waits until it is given
/// back, which is when it is tried once more.
async fn warm(store: &dyn Store) {
    let mut other = Attempt::fresh();
    other.acquire(store).await;
    let _ = other.complete(store, &record("paid")).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
}

/// The claim was carried out, and its answer was cut off: sent again, it meets itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_whose_reply_was_lost_continues_as_the_owner() {
    let server = idem_services::Postgres::shared().await;
    let url = server.create_database("replies", &[]).await;
    let proxy = Proxy::start(server.addr());
    let store = connect(&proxy.url(&url), 1).await;

    let mut first = Attempt::fresh();
    warm(&store).await;
    proxy.close_on_reply();
    assert_eq!(first.acquire(&store).await.attempt, 1);
    proxy.struck().await;
    let mut direct = PgConnection::connect(&url).await.expect("a connection");
    // The lease counts from the second time.
    let sql = "SELECT lease_until - created_at > interval '10 min' FROM idem WHERE id = $1";
    let twice = direct.fetch_one(sqlx::query(sql).bind(&first.id.as_bytes()[..]));
    assert!(
        twice.await.expect("a row").get::<bool, _>(0),
        "it was not lost"
    );

    warm(&store).await;
    proxy.close_on_reply();
    let done = first.complete(&store, &record("paid")).await;
    assert_eq!(done.expect("an answer"), Completion::Already);

    let mut second = Attempt::fresh();
    warm(&store).await;
    proxy.drop_replies();
    let error = second.claim(&store).await.expect_err("nothing is heard");
    assert!(
        causes(&error).contains("did not answer within 1s"),
        "{error:?}"
    );
    let peer = connect(&url, 1).await;
    let summary = peer.inspect(&second.id).await.expect("an answer");
    let grant = summary.expect("the claim was carried out").grant;
    // The only place of the pool is kept until the connection ends.
    proxy.pass();
    proxy.close_all();
    assert_eq!(second.acquire(&store).await, grant);
    let done = second.complete(&store, &record("paid")).await;
    assert_eq!(done.expect("an answer"), Completion::Stored);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_costs_no_more_than_the_limit() {
    let server = idem_services::Postgres::start(&[]).await;
    let store = connect(&server.url(), 3).await;
    let mut first = Attempt::fresh();
    first.acquire(&store).await;

    server.pause();
    for _ in 0..3 {
        let since = Instant::now();
        let error = Attempt::fresh().claim(&store).await.expect_err("it hangs");
        assert!(
            since.elapsed() < LIMIT * 2,
            "{:?} {error:?}",
            since.elapsed()
        );
        assert!(
            since.elapsed() >= LIMIT / 2,
            "{:?} {error:?}",
            since.elapsed()
        );
    }
    server.resume();
    let done = first.complete(&store, &record("paid")).await;
    assert_eq!(done.expect("an answer"), Completion::Stored);

    server.kill();
    let since = Instant::now();
    Attempt::fresh()
        .claim(&store)
        .await
        .expect_err("it is gone");
    assert!(since.elapsed() < LIMIT * 2, "{:?}", since.elapsed());
    server.restart().await;
    // `fsync` is off, but the server alone was killed: what it committed is there.
    let replay = first.rival().claim(&store).await.expect("an answer");
    assert_eq!(replay, completed(&record("paid")));
}

/// The connections that are idle when a server restarts are dead, and cost no call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_between_two_calls_is_not_seen() {
    let server = idem_services::Postgres::start(&[]).await;
    let store = connect(&server.url(), 3).await;
    let calls = (0..8).map(|_| async { Attempt::fresh().claim(&store).await });
    futures_util::future::join_all(calls).await;
    server.kill();
    server.restart().await;
    for _ in 0..5 {
        let claim = Attempt::fresh().claim(&store).await.expect("an answer");
        assert!(matches!(claim, Claim::Acquired { .. }), "{claim:?}");
    }
}

/// A new key finds no room, which is an answer of its own; an outcome that finds none is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_new_keys() {
    let subject = Postgres::new().await;
    let store = &subject.store;
    let mut known = Attempt::fresh();
    known.acquire(store).await;
    let raise = "DO $do$ BEGIN
        CREATE OR REPLACE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN RAISE SQLSTATE ''53100''; END';
        CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON {}
            FOR EACH ROW EXECUTE FUNCTION full_disk();
        END $do$";
    subject.execute(raise).await;
    let error = Attempt::fresh().claim(store).await.expect_err("no room");
    assert!(
        matches!(error, StoreError::Full { store: "postgres" }),
        "{error:?}"
    );
    let error = known.complete(store, &record("paid")).await;
    let error = error.expect_err("no room");
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    assert!(
        causes(&error).contains("disk of the server is full"),
        "{error:?}"
    );
}

/// An error of a statement is no reason to connect again, unless another connection may do better.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_of_a_statement_leaves_its_connection_whole() {
    let url = idem_services::Postgres::shared().await.url();
    let subject = Postgres::new().await;
    let pool = PgPoolOptions::new().max_connections(1);
    let pool = pool.connect(&url).await.expect("a pool");
    let options = PostgresStoreOptions::default().with_table(&subject.table);
    let store = PostgresStore::from_pool_with(pool.clone(), options).expect("valid");
    let backend = async || {
        let row = pool.fetch_one("SELECT pg_backend_pid()").await;
        row.expect("a connection").get::<i32, _>(0)
    };
    let raises = "DO $do$ BEGIN
        CREATE OR REPLACE FUNCTION raises_{}() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN RAISE SQLSTATE ''CODE''; END';
        DROP TRIGGER IF EXISTS raises ON {};
        CREATE TRIGGER raises BEFORE INSERT ON {}
            FOR EACH ROW EXECUTE FUNCTION raises_{}();
        END $do$";
    let cases = [
        // Not allowed, cancelled by an operator, no memory, an error of a trigger.
        ("42501", true),
        ("57014", true),
        ("53200", true),
        ("P0001", true),
        // A standby, a statement that is not known, a fault of the server.
        ("25006", false),
        ("26000", false),
        ("XX000", false),
    ];
    for (code, stays) in cases {
        subject.execute(&raises.replace("CODE", code)).await;
        let before = backend().await;
        let error = Attempt::fresh()
            .claim(&store)
            .await
            .expect_err("it is refused");
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
        assert_eq!(backend().await == before, stays, "{code}");
    }
}

/// A connection that was idle, and on which nothing is heard any more, leaves its call time for
/// another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_connection_that_is_lost_without_a_word_costs_no_call() {
    let server = idem_services::Postgres::shared().await;
    let url = server.create_database("silent", &[]).await;
    let proxy = Proxy::start(server.addr());
    let store = connect(&proxy.url(&url), 1).await;
    let keeper = store.reopen().await.expect("a connection");
    warm(&store).await;
    warm(&*keeper).await;
    // Longer than a connection is trusted without being asked.
    tokio::time::sleep(Duration::from_millis(5_300)).await;
    for store in [&store as &dyn Store, &*keeper] {
        proxy.drop_replies();
        let attempt = Attempt::fresh();
        let (claim, ()) = tokio::join!(attempt.claim(store), async {
            proxy.struck().await;
            proxy.pass();
        });
        let claim = claim.expect("an answer");
        assert!(matches!(claim, Claim::Acquired { .. }), "{claim:?}");
    }
}
