//! `PgBouncer` between us and the server. The whole suite runs through one in session mode, in
//! `tests/conformance.rs`.

use std::time::Duration;

use idem_core::{
    ConnectError, PostgresStore, PostgresStoreOptions, Store,
    store::{Claim, Fence, Resolve},
};
use idem_services::{PgBouncer, PoolMode, Postgres};
use sqlx::{Connection, Executor, PgConnection, postgres::PgPoolOptions};

use crate::attempt::{Attempt, causes};

fn one_connection() -> PostgresStoreOptions {
    PostgresStoreOptions::default()
        .with_migration()
        .with_max_connections(1)
}

async fn database(name: &str) -> &'static Postgres {
    let server = Postgres::shared().await;
    let url = server.create_database(name, &[]).await;
    let store = PostgresStore::connect_with(&url, one_connection()).await;
    drop(store.expect("a table"));
    server
}

#[track_caller]
fn assert_says_what_to_do(error: &dyn std::error::Error) {
    let said = causes(error);
    let remedy = "use PgBouncer 1.21 or later with `max_prepared_statements` above 0, or \
                  `pool_mode = session`";
    assert!(said.contains(remedy), "{said}");
}

/// By default it refuses a parameter that the driver sends by default, and we do not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_with_its_default_settings_accepts_us() {
    let server = database("defaults").await;
    let settings = [("admin_users", "postgres")];
    let pooler = PgBouncer::start(server, PoolMode::Session, &settings).await;
    let mut admin = PgConnection::connect(&pooler.url_of("pgbouncer")).await;
    let admin = admin.as_mut().expect("a console");
    admin
        .execute(sqlx::raw_sql("SET ignore_startup_parameters = ''"))
        .await
        .expect("it is set");

    let url = pooler.url_of("defaults");
    PgConnection::connect(&url)
        .await
        .map(drop)
        .expect_err("the driver's own is refused");
    let store = PostgresStore::connect_with(&url, one_connection()).await;
    Attempt::fresh().acquire(&store.expect("a store")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_is_created_by_way_of_a_pooler_in_transaction_mode() {
    let server = Postgres::shared().await;
    server.create_database("created", &[]).await;
    let settings = [("default_pool_size", "1")];
    let pooler = PgBouncer::start(server, PoolMode::Transaction, &settings).await;
    let url = pooler.url_of("created");
    let store = PostgresStore::connect_with(&url, one_connection()).await;
    Attempt::fresh().acquire(&store.expect("it is alone")).await;
}

/// Two clients share a connection of the server, and both name their first statement alike.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connecting_says_what_to_do_about_statements_that_are_there_already() {
    let server = database("shared").await;
    let settings = [("default_pool_size", "1")];
    let pooler = PgBouncer::start(server, PoolMode::Transaction, &settings).await;
    let connect = async || {
        let url = pooler.url_of("shared");
        PostgresStore::connect_with(&url, one_connection()).await
    };
    let first = connect().await.expect("it is alone");
    let error = connect().await.expect_err("the names are taken");
    assert!(matches!(error, ConnectError::Unavailable(_)), "{error:?}");
    assert_says_what_to_do(&error);
    drop(first);
}

/// A client gets another connection of the server, which knows none of its statements.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_says_what_to_do_about_statements_that_are_gone() {
    let server = database("moved").await;
    let settings = [("default_pool_size", "2")];
    let pooler = PgBouncer::start(server, PoolMode::Transaction, &settings).await;
    let url = pooler.url_of("moved");
    let store = PostgresStore::connect_with(&url, one_connection()).await;
    let store = store.expect("it is alone");
    Attempt::fresh().acquire(&store).await;

    // Others hold both connections of the server, and give up one at a time: that which the store
    // had, and that which it did not have.
    let mut others = Vec::new();
    for _ in 0..2 {
        let mut other = PgConnection::connect(&url).await.expect("a connection");
        let begin = other.execute(sqlx::raw_sql("BEGIN")).await;
        begin.expect("a transaction");
        others.push(other);
    }
    let mut errors = Vec::new();
    for other in &mut others {
        let commit = other.execute(sqlx::raw_sql("COMMIT")).await;
        commit.expect("it is committed");
        errors.extend(Attempt::fresh().claim(&store).await.err());
        let begin = other.execute(sqlx::raw_sql("BEGIN")).await;
        begin.expect("a transaction");
    }
    let error = errors.first().expect("it is not known there");
    assert_says_what_to_do(error);
}

/// A pooler without a connection to spare says so with the code of another error, and ends ours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_that_is_saturated_is_not_blamed_for_its_settings() {
    let server = database("saturated").await;
    let settings = [("default_pool_size", "1"), ("query_wait_timeout", "1")];
    let pooler = PgBouncer::start(server, PoolMode::Session, &settings).await;
    let url = pooler.url_of("saturated");
    let mut other = PgConnection::connect(&url).await.expect("a connection");
    let held = other.execute(sqlx::raw_sql("SELECT 1")).await;
    held.expect("the only connection of the server");
    let store = || {
        let pool = PgPoolOptions::new().max_connections(1);
        let pool = pool.connect_lazy(&url).expect("a pool");
        let options = one_connection().with_timeout(Duration::from_secs(10));
        PostgresStore::from_pool_with(pool, options).expect("valid")
    };

    // What cannot be sent again says what the pooler said.
    let (first, nobody) = (Attempt::fresh(), Fence::new(1));
    let resolved = store().resolve(&first.id, nobody, Resolve::Forget).await;
    let said = causes(&resolved.expect_err("there is no room"));
    assert!(said.contains("query_wait_timeout"), "{said}");
    assert!(!said.contains("prepared statements"), "{said}");

    // What can, is, and finds room.
    let store = store();
    let (claim, closed) = tokio::join!(first.claim(&store), async {
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        other.close().await
    });
    closed.expect("it is closed");
    let claim = claim.expect("it was sent again");
    assert!(matches!(claim, Claim::Acquired { .. }), "{claim:?}");
}
