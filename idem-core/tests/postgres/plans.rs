//! How the server carries the statements out: a plan is made once for a connection, and stays while
//! the table grows.

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row};

use crate::{purge::add_expired, subjects::postgres::Postgres};

/// The statements about one key, and the types of their parameters. The renewal of many leases is not
/// one of them: a plan that reads a small table as a whole costs it little.
const STATEMENTS: [(&str, &str); 8] = [
    (
        include_str!("../../src/store/postgres/claim_first.sql"),
        "text, bytea, uuid, bytea, int8, int8, text, text, text, bytea, text, text, bool",
    ),
    (
        include_str!("../../src/store/postgres/claim.sql"),
        "text, bytea, uuid, bytea, int8, int8, text, text, text, bytea, text, text, bool",
    ),
    (
        include_str!("../../src/store/postgres/complete.sql"),
        "text, bytea, uuid, bytea, int8, text, text, text, bytea, text, text, int2, int2, bytea, \
         bytea, text, int8, int4",
    ),
    (
        include_str!("../../src/store/postgres/release.sql"),
        "text, bytea, uuid, int2, int8",
    ),
    (
        include_str!("../../src/store/postgres/resolve.sql"),
        "text, bytea, int8, uuid, int2, int8, int2, int2, bytea, bytea, text",
    ),
    (
        include_str!("../../src/store/postgres/forget.sql"),
        "text, bytea, int8",
    ),
    (
        include_str!("../../src/store/postgres/inspect.sql"),
        "bytea",
    ),
    (include_str!("../../src/store/postgres/runs.sql"), "bytea"),
];

/// Asks that no statement, planned now, reads the whole table.
async fn assert_by_key(subject: &Postgres, url: &str) {
    let mut connection = PgConnection::connect(url).await.expect("a connection");
    let mode = "SET plan_cache_mode = force_generic_plan";
    connection.execute(mode).await.expect("it is set");
    for (number, (sql, types)) in STATEMENTS.iter().enumerate() {
        let sql = sql.replace("\"idem\"", &subject.table);
        let prepare = format!("PREPARE s{number} ({types}) AS {sql}");
        let prepare = sqlx::raw_sql(AssertSqlSafe(prepare));
        connection.execute(prepare).await.expect("it is right");
        let nulls = vec!["NULL"; types.split(',').count()].join(", ");
        let explain = format!("EXPLAIN (COSTS OFF) EXECUTE s{number} ({nulls})");
        let explain = sqlx::raw_sql(AssertSqlSafe(explain));
        let rows = connection.fetch_all(explain).await.expect("a plan");
        let plan: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        let plan = plan.join("\n");
        assert!(!plan.contains("Seq Scan on"), "{sql}\n{plan}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_was_just_created_is_read_by_its_key() {
    let url = idem_services::Postgres::shared().await.url();
    let subject = Postgres::new().await;
    assert_by_key(&subject, &url).await;
    add_expired(&subject, 3).await;
    assert_by_key(&subject, &url).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_was_purged_and_vacuumed_is_read_by_its_key() {
    let url = idem_services::Postgres::shared().await.url();
    let subject = Postgres::new().await;
    add_expired(&subject, 1_000).await;
    subject.execute("DELETE FROM {}").await;
    subject.execute("VACUUM ANALYZE {}").await;
    assert_by_key(&subject, &url).await;
}
