//! Connecting: what is refused at the start, and the table.

use std::fs;

use idem_core::{ConnectError, PostgresStore, PostgresStoreOptions, Store};
use sqlx::{Connection, Executor, PgConnection, Row};
use tokio::task::JoinSet;

use crate::attempt::{Attempt, causes};

/// An empty database.
async fn empty() -> String {
    let name = format!("d_{:032x}", rand::random::<u128>());
    let server = idem_services::Postgres::shared().await;
    server.create_database(&name, &[]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_table_is_found_when_the_store_connects() {
    let url = empty().await;
    let error = PostgresStore::connect(&url).await.expect_err("no table");
    assert!(
        matches!(
            error,
            ConnectError::Invalid {
                setting: "table",
                ..
            }
        ),
        "{error:?}"
    );
    let said = causes(&error);
    assert!(said.contains("call `PostgresStore::migrate`"), "{said}");

    let pool = sqlx::PgPool::connect(&url).await.expect("a pool");
    let store = PostgresStore::from_pool(pool);
    let error = Attempt::fresh().claim(&store).await.expect_err("no table");
    assert!(
        causes(&error).contains("call `PostgresStore::migrate`"),
        "{error:?}"
    );
    store.migrate().await.expect("it may");
    store.check().await.expect("all is well");
    Attempt::fresh().acquire(&store).await;
    PostgresStore::connect(&url).await.expect("a table");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_that_start_at_once_all_migrate() {
    for _ in 0..5 {
        let url = empty().await;
        let mut replicas = JoinSet::new();
        for _ in 0..12 {
            let url = url.clone();
            replicas.spawn(async move {
                let options = PostgresStoreOptions::default()
                    .with_migration()
                    .with_max_connections(1)
                    .with_timeout(std::time::Duration::from_secs(20));
                let store = PostgresStore::connect_with(&url, options).await;
                store.expect("it starts").migrate().await.expect("again");
            });
        }
        replicas.join_all().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_file_stands_alone() {
    let url = empty().await;
    let mut connection = PgConnection::connect(&url).await.expect("a connection");
    let file = include_str!("../../migrations/0001_idem.sql");
    for _ in 0..2 {
        connection
            .execute(sqlx::raw_sql(file))
            .await
            .expect("it is right");
    }
    let store = PostgresStore::connect(&url).await.expect("a table");
    Attempt::fresh().acquire(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_table_is_where_the_options_say() {
    let url = empty().await;
    let mut connection = PgConnection::connect(&url).await.expect("a connection");
    connection
        .execute("CREATE SCHEMA shop")
        .await
        .expect("a schema");
    let options = PostgresStoreOptions::default()
        .with_schema("shop")
        .with_table("t".repeat(56))
        .with_migration();
    let store = PostgresStore::connect_with(&url, options)
        .await
        .expect("a store");
    Attempt::fresh().acquire(&store).await;
    let sql = "SELECT count(*) FROM pg_indexes WHERE schemaname = 'shop'";
    let row = connection.fetch_one(sql).await.expect("an answer");
    assert_eq!(row.get::<i64, _>(0), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_that_may_not_create_tables_starts_where_there_is_one() {
    let url = empty().await;
    let options = PostgresStoreOptions::default().with_migration();
    let owner = PostgresStore::connect_with(&url, options.clone()).await;
    owner.expect("a store");
    let mut connection = PgConnection::connect(&url).await.expect("a connection");
    let role = format!("r_{:016x}", rand::random::<u64>());
    let grant = format!(
        "CREATE ROLE {role} LOGIN; REVOKE CREATE ON SCHEMA public FROM public;
         GRANT SELECT, INSERT, UPDATE, DELETE ON idem TO {role}"
    );
    let grant = sqlx::raw_sql(sqlx::AssertSqlSafe(grant));
    connection.execute(grant).await.expect("a role");
    let url = url.replace("postgres@", &format!("{role}@"));
    let store = PostgresStore::connect_with(&url, options)
        .await
        .expect("a store");
    Attempt::fresh().acquire(&store).await;
    assert_eq!(store.purge(1).await.expect("it may"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_is_refused() {
    let server = idem_services::Postgres::start(&[]).await;
    let options = PostgresStoreOptions::default().with_migration();
    let primary = PostgresStore::connect_with(&server.url(), options.clone()).await;
    drop(primary.expect("a store"));
    server.kill();
    let signal = server.directory().join("data/standby.signal");
    fs::write(signal, "").expect("a file");
    server.restart().await;
    let missing = options.clone().with_table("missing");
    for options in [options, missing, PostgresStoreOptions::default()] {
        let standby = PostgresStore::connect_with(&server.url(), options).await;
        let error = standby.expect_err("it only reads");
        assert!(
            matches!(error, ConnectError::ReadOnly { store: "postgres" }),
            "{error:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_cannot_hold_every_text_is_refused() {
    let server = idem_services::Postgres::shared().await;
    let create = "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0";
    server
        .connect()
        .await
        .execute(create)
        .await
        .expect("a database");
    let options = PostgresStoreOptions::default().with_migration();
    let error = PostgresStore::connect_with(&server.url_of("latin"), options).await;
    let said = error.expect_err("no UTF-8").to_string();
    assert_eq!(said, "`server_encoding` must be UTF8");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_is_none_is_refused() {
    for url in ["", "redis://localhost", "postgres://ho st/db"] {
        let error = PostgresStore::connect(url).await.expect_err("no address");
        assert!(
            matches!(error, ConnectError::Invalid { setting: "url", .. }),
            "{url}: {error:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_not_there_is_said_to_be_unavailable() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
    let url = format!("postgres://shop:secret@{}/shop", closed.expect("a port"));
    let error = PostgresStore::connect(&url)
        .await
        .expect_err("nobody is there");
    assert!(matches!(error, ConnectError::Unavailable(_)), "{error:?}");
    let said = format!("{error:?} {}", causes(&error));
    assert!(!said.contains("secret"), "{said}");
    // Not that a pool has no connection, which would be looked for in the wrong place.
    assert!(said.contains("Connection refused"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn debug_shows_no_credentials() {
    let url = empty().await.replace("postgres@", "postgres:secret@");
    let options = PostgresStoreOptions::default().with_migration();
    let store = PostgresStore::connect_with(&url, options)
        .await
        .expect("a store");
    let shown = format!(
        "{store:?} {:?}",
        store.reopen().await.expect("a connection")
    );
    assert!(
        shown.contains("idem") && !shown.contains("secret"),
        "{shown}"
    );
}
