//! `PgBouncer`.

use idem_services::{PgBouncer, PoolMode, Postgres};
use sqlx::{Connection, Executor, PgConnection, Row};

use crate::Outcome;

/// The process that serves this statement.
async fn backend(connection: &mut PgConnection) -> sqlx::Result<i32> {
    let row = connection.fetch_one("SELECT pg_backend_pid()").await?;
    row.try_get(0)
}

#[tokio::test]
async fn lends_a_connection_for_a_transaction() -> Outcome {
    let postgres = Postgres::shared().await;
    let settings = [("default_pool_size", "1")];
    let pool = PgBouncer::start(postgres, PoolMode::Transaction, &settings).await;
    let mut one = PgConnection::connect(&pool.url()).await?;
    let mut other = PgConnection::connect(&pool.url()).await?;
    let first = backend(&mut one).await?;
    assert_eq!(backend(&mut other).await?, first);
    Ok(())
}

#[tokio::test]
async fn lends_a_connection_for_a_session() -> Outcome {
    let postgres = Postgres::shared().await;
    postgres.create_database("pooled", &[]).await;
    let pool = PgBouncer::start(postgres, PoolMode::Session, &[]).await;
    let mut one = PgConnection::connect(&pool.url_of("pooled")).await?;
    let mut other = PgConnection::connect(&pool.url_of("pooled")).await?;
    let first = backend(&mut one).await?;
    assert_ne!(backend(&mut other).await?, first);
    Ok(())
}

#[tokio::test]
async fn comes_back() -> Outcome {
    let pool = PgBouncer::start(Postgres::shared().await, PoolMode::Session, &[]).await;
    pool.kill();
    assert!(PgConnection::connect(&pool.url()).await.is_err());
    pool.restart().await;
    PgConnection::connect(&pool.url()).await?;
    Ok(())
}
