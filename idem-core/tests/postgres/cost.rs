//! What a request costs the server.

use idem_core::{Record, Store, store::Claim};
use idem_services::{Direction, Proxy};
use sqlx::{Executor, PgConnection, Row};

use crate::{
    attempt::{Attempt, completed, record},
    subjects::postgres::Postgres,
};

const REPLAYS: usize = 10_000;

/// A server on which nothing happens but what the test does.
async fn quiet() -> idem_services::Postgres {
    idem_services::Postgres::start(&[
        ("autovacuum", "off"),
        ("wal_level", "minimal"),
        ("max_wal_senders", "0"),
        ("checkpoint_timeout", "1h"),
    ])
    .await
}

/// What a server has counted.
pub(crate) struct Statistics(PgConnection);

impl Statistics {
    pub(crate) async fn of(server: &idem_services::Postgres) -> Self {
        let mut connection = server.connect().await;
        let extension = connection.execute("CREATE EXTENSION pg_stat_statements");
        extension.await.expect("it is installed");
        Self(connection)
    }

    /// How many statements were carried out since this was asked last, but for our own.
    pub(crate) async fn take(&mut self) -> i64 {
        let sql = "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements
                   WHERE query NOT LIKE '%pg_stat_statements%'";
        let row = self.0.fetch_one(sql).await.expect("an answer");
        let reset = self.0.execute("SELECT pg_stat_statements_reset()").await;
        reset.expect("an answer");
        row.get(0)
    }
}

async fn wal(connection: &mut PgConnection) -> String {
    let row = connection.fetch_one("SELECT pg_current_wal_insert_lsn()::text");
    row.await.expect("an answer").get(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_writes_no_wal() {
    let server = quiet().await;
    let subject = Postgres::at(&server.url(), |options| options).await;
    let mut connection = server.connect().await;
    let mut first = Attempt::fresh();
    first.acquire(&subject.store).await;
    let _ = first.complete(&subject.store, &record("paid")).await;
    let replay = async || {
        let claim = first.rival().claim(&subject.store).await;
        assert_eq!(claim.expect("an answer"), completed(&record("paid")));
    };
    // The first reader prunes what the completion left of the row before.
    replay().await;
    let before = wal(&mut connection).await;
    for _ in 0..REPLAYS {
        replay().await;
    }
    for _ in 0..100 {
        let other = first.stranger().claim(&subject.store).await;
        assert!(matches!(other, Ok(Claim::Mismatch { .. })), "{other:?}");
    }
    assert_eq!(wal(&mut connection).await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_execution_is_two_statements_and_a_replay_one() {
    let server = quiet().await;
    let subject = Postgres::at(&server.url(), |options| options).await;
    let mut statistics = Statistics::of(&server).await;
    statistics.take().await;
    for _ in 0..10 {
        let mut first = Attempt::fresh();
        first.acquire(&subject.store).await;
        let _ = first.complete(&subject.store, &record("paid")).await;
        assert_eq!(statistics.take().await, 2);
        let _ = first.rival().claim(&subject.store).await;
        assert_eq!(statistics.take().await, 1);
        let _ = first.stranger().claim(&subject.store).await;
        assert_eq!(statistics.take().await, 1);
    }
}

/// A completion touches no index, so that it costs no more than its row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_completion_is_an_update_in_place() {
    let server = quiet().await;
    let subject = Postgres::at(&server.url(), |options| options).await;
    for _ in 0..100 {
        let mut first = Attempt::fresh();
        first.acquire(&subject.store).await;
        let _ = first
            .complete(&subject.store, &record("p".repeat(500)))
            .await;
    }
    let sql = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = '{}'";
    let sql = sql.replace("{}", &subject.table);
    let mut updates = (0, 0);
    // The counts come late.
    for _ in 0..100 {
        let query = sqlx::query(sqlx::AssertSqlSafe(sql.clone()));
        let row = query.fetch_one(&subject.pool).await.expect("an answer");
        updates = (row.get::<i64, _>(0), row.get::<i64, _>(1));
        if updates.0 == 100 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert!(updates.0 == 100 && updates.1 >= 95, "{updates:?}");
}

/// Neither a mismatch nor a look of support staff reads a stored body.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_is_sent_only_to_be_replayed() {
    const LARGE: usize = 1024 * 1024;
    let server = idem_services::Postgres::shared().await;
    let proxy = Proxy::start(server.addr());
    let subject = Postgres::at(&proxy.url(&server.url()), |options| options).await;
    let store = &subject.store;
    let mut first = Attempt::fresh();
    first.acquire(store).await;
    let _ = first
        .complete(store, &Record::new(200, vec![b'p'; LARGE]))
        .await;
    let sent = || proxy.bytes(Direction::ToClient);

    let before = sent();
    let mismatch = first.stranger().claim(store).await.expect("an answer");
    assert!(matches!(mismatch, Claim::Mismatch { .. }), "{mismatch:?}");
    assert!(store.inspect(&first.id).await.expect("an answer").is_some());
    assert!(sent() - before < LARGE / 10, "{} bytes", sent() - before);
    let _ = first.rival().claim(store).await.expect("an answer");
    assert!(sent() - before > LARGE, "{} bytes", sent() - before);
}
