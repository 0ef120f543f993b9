//! Postgres, alone.

use std::time::Duration;

use idem_services::Postgres;
use sqlx::{Connection, Executor, PgConnection, Row};
use tokio::time::timeout;

use crate::Outcome;

async fn show(connection: &mut PgConnection, setting: &'static str) -> sqlx::Result<String> {
    connection.fetch_one(setting).await?.try_get(0)
}

#[tokio::test]
async fn answers() -> Outcome {
    let mut connection = Postgres::shared().await.connect().await;
    let row = connection.fetch_one("SELECT 1 + 1").await?;
    assert_eq!(row.get::<i32, _>(0), 2);
    Ok(())
}

#[tokio::test]
async fn each_test_has_a_database_of_its_own() -> Outcome {
    let postgres = Postgres::shared().await;
    let settings = [("default_transaction_isolation", "serializable")];
    let (one, other) = tokio::join!(
        postgres.create_database("one", &settings),
        postgres.create_database("other", &[]),
    );
    let mut one = PgConnection::connect(&one).await?;
    let mut other = PgConnection::connect(&other).await?;
    assert_eq!(
        show(&mut one, "SHOW transaction_isolation").await?,
        "serializable"
    );
    assert_eq!(
        show(&mut other, "SHOW transaction_isolation").await?,
        "read committed"
    );
    one.execute("CREATE TABLE here ()").await?;
    assert!(other.execute("SELECT FROM here").await.is_err());
    Ok(())
}

#[tokio::test]
async fn goes_by_its_settings() -> Outcome {
    let postgres = Postgres::start(&[("fsync", "on"), ("application_name", "it's us")]).await;
    let mut connection = postgres.connect().await;
    assert_eq!(show(&mut connection, "SHOW fsync").await?, "on");
    assert_eq!(
        show(&mut connection, "SHOW application_name").await?,
        "it's us"
    );
    assert_eq!(
        show(&mut connection, "SHOW shared_preload_libraries").await?,
        "pg_stat_statements"
    );
    let mut shared = Postgres::shared().await.connect().await;
    assert_eq!(show(&mut shared, "SHOW fsync").await?, "off");
    Ok(())
}

#[tokio::test]
async fn hangs_crashes_and_comes_back() -> Outcome {
    let postgres = Postgres::start(&[]).await;
    let mut connection = postgres.connect().await;
    connection.execute("CREATE TABLE there ()").await?;

    postgres.pause();
    {
        let answer = connection.fetch_one("SELECT 1");
        tokio::pin!(answer);
        let early = timeout(Duration::from_millis(200), &mut answer).await;
        assert!(early.is_err());
        postgres.resume();
        answer.await?;
    }

    postgres.kill();
    assert!(connection.fetch_one("SELECT 1").await.is_err());
    assert!(PgConnection::connect(&postgres.url()).await.is_err());

    postgres.restart().await;
    let mut connection = postgres.connect().await;
    connection.execute("SELECT FROM there").await?;
    postgres.restart().await;
    Ok(())
}
