//! Dropping expired records.

use std::{sync::Arc, time::Duration};

use idem_core::{
    Store,
    store::{Completion, Release, Resolve, Resolved, conformance::Subject},
};
use sqlx::{AssertSqlSafe, Executor, Row};
use tokio::task::JoinSet;

use crate::{
    attempt::{Attempt, completed, record},
    subjects::postgres::Postgres,
};

/// Adds completed records that expired an hour ago.
pub(crate) async fn add_expired(subject: &Postgres, number: u32) {
    let insert = "INSERT INTO {} (id, owner, fence, state, lease_until, expires_at, purge_at,
            created_at, completed_at, fingerprint, namespace, operation, caller_digest,
            status, headers, body)
        SELECT sha256(('old' || n)::bytea), gen_random_uuid(), n, 2, at, at, at, at, at,
            sha256('fp'), '', 'POST /payments', sha256('caller'), 201, '\\x0000', sha256('body')
        FROM generate_series(1, NUMBER) n, (SELECT now() - interval '1 h' AS at) t";
    subject
        .execute(&insert.replace("NUMBER", &number.to_string()))
        .await;
}

async fn count(subject: &Postgres, sql: &str) -> i64 {
    let sql = sql.replace("{}", &subject.table);
    let row = sqlx::query(AssertSqlSafe(sql))
        .fetch_one(&subject.pool)
        .await;
    row.expect("an answer").get(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_sweepers_at_once_drop_each_expired_record_once() {
    const EXPIRED: u32 = 5_000;
    const BATCH: u32 = 300;
    let subject = Arc::new(Postgres::new().await);
    let (mut running, mut done) = (Attempt::fresh(), Attempt::fresh());
    running.acquire(&subject.store).await;
    done.acquire(&subject.store).await;
    let _ = done.complete(&subject.store, &record("paid")).await;
    add_expired(&subject, EXPIRED).await;

    let mut sweepers = JoinSet::new();
    for _ in 0..2 {
        let subject = Arc::clone(&subject);
        sweepers.spawn(async move {
            let mut purged = Vec::new();
            loop {
                let batch = subject.store.purge(BATCH).await.expect("an answer");
                assert!(batch <= u64::from(BATCH));
                purged.push(batch);
                if batch == 0 {
                    return purged;
                }
            }
        });
    }
    let purged = sweepers.join_all().await;
    assert!(
        purged.iter().all(|batches| batches.len() > 2),
        "one swept alone: {purged:?}"
    );
    assert_eq!(purged.iter().flatten().sum::<u64>(), u64::from(EXPIRED));

    assert_eq!(count(&subject, "SELECT count(*) FROM {}").await, 2);
    let replay = done.rival().claim(&subject.store).await.expect("an answer");
    assert_eq!(replay, completed(&record("paid")));
    assert!(running.renew(&subject.store).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purge_waits_for_nobody() {
    let subject = Postgres::new().await;
    add_expired(&subject, 20).await;
    let mut other = subject.pool.begin().await.expect("a transaction");
    let lock = format!(
        "SELECT 1 FROM {} ORDER BY fence LIMIT 5 FOR UPDATE",
        subject.table
    );
    other.execute(AssertSqlSafe(lock)).await.expect("locks");
    assert_eq!(subject.store.purge(10).await.expect("an answer"), 10);
    assert_eq!(subject.store.purge(10).await.expect("an answer"), 5);
    assert_eq!(subject.store.purge(10).await.expect("an answer"), 0);
    other.rollback().await.expect("it is rolled back");
    assert_eq!(subject.store.purge(10).await.expect("an answer"), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purge_finds_its_rows_by_an_index() {
    let subject = Postgres::new().await;
    let defined = count(
        &subject,
        "SELECT count(*) FROM pg_indexes WHERE tablename = '{}' AND indexdef LIKE '%(purge_at)'",
    );
    assert_eq!(defined.await, 1);
    let all = "SELECT count(*) FROM pg_indexes WHERE tablename = '{}'";
    assert_eq!(
        count(&subject, all).await,
        2,
        "the key, and no other index to keep up"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_record_stays_readable_for_as_long_as_was_set() {
    let url = idem_services::Postgres::shared().await.url();
    let hour = Duration::from_hours(1);
    let subject = Postgres::at(&url, |options| options.with_keep_expired(hour)).await;
    let mut first = Attempt::fresh();
    first.acquire(&subject.store).await;
    let _ = first.complete(&subject.store, &record("paid")).await;
    subject.advance(first.ttl + Duration::from_mins(59)).await;
    assert_eq!(
        subject.store.inspect(&first.id).await.expect("an answer"),
        None
    );
    assert_eq!(subject.store.purge(10).await.expect("an answer"), 0);
    assert_eq!(count(&subject, "SELECT count(*) FROM {}").await, 1);
    subject.advance(Duration::from_mins(2)).await;
    assert_eq!(subject.store.purge(10).await.expect("an answer"), 1);
}

/// What the documentation tells `pg_cron` to run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_job_of_the_documentation_drops_what_has_expired() {
    let subject = Postgres::new().await;
    let mut first = Attempt::fresh();
    first.acquire(&subject.store).await;
    add_expired(&subject, 20).await;
    let job = include_str!("../../src/store/postgres/pg_cron.sql");
    let sql = job.split("$$").nth(1).expect("it is quoted");
    let dropped = subject.execute(&sql.replace("FROM idem", "FROM {}")).await;
    assert_eq!(dropped, 20);
    assert_eq!(count(&subject, "SELECT count(*) FROM {}").await, 1);
}

/// A record that is kept for longer than its claim asked for is not at the head of the index, where each
/// purge would look at it again; nor does it stay for longer than it is kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_kept_for_longer_is_visited_when_it_has_expired() {
    let hour = Duration::from_hours(1);
    let keep = hour * 24;
    let subject = Postgres::new().await;
    let store = &subject.store;
    let unknown = Release::Unknown { keep };
    let (mut lost, mut late, mut decided) = (Attempt::fresh(), Attempt::fresh(), Attempt::fresh());
    lost.acquire(store).await;
    let _ = lost.release(store, unknown).await;
    let grant = decided.acquire(store).await;
    let how = Resolve::Complete {
        record: record("paid"),
        ttl: keep,
    };
    let resolved = store.resolve(&decided.id, grant.fence, how).await;
    assert_eq!(resolved.expect("an answer"), Resolved::Done);
    // Its outcome was not known, and came after all: it lives as long as any other.
    late.acquire(store).await;
    let _ = late.release(store, unknown).await;
    let done = late.complete(store, &record("paid")).await;
    assert_eq!(done.expect("an answer"), Completion::Stored);

    subject.advance(hour).await;
    assert_eq!(store.purge(10).await.expect("an answer"), 1);
    let visited = "SELECT count(*) FROM {} WHERE purge_at < now()";
    assert_eq!(count(&subject, visited).await, 0);
    assert_eq!(count(&subject, "SELECT count(*) FROM {}").await, 2);
    subject.advance(keep).await;
    assert_eq!(store.purge(10).await.expect("an answer"), 2);
}
