//! A Postgres, and plain statements over a pool as the floor.
//!
//! The table of the floor is like that of the store, with the same indexes, and its rows are as
//! long. Its pool has as many connections, prepares its statements, and asks no connection whether
//! it is still there.

use std::{sync::Arc, time::Duration};

use axum::body::Bytes;
use idem_core::{PostgresStore, PostgresStoreOptions};
use idem_services::Postgres;
use sqlx::{
    AssertSqlSafe, Connection, Executor, PgConnection, PgPool, Row, postgres::PgPoolOptions,
};

use super::{
    Asked, BRIEF, Backend, Side, What,
    stage::{ANSWER, Bare, Id, LEASE, Stage},
};

const ANSWERS: &str = "Postgres answers";

const SELECT: &str = "SELECT state, fingerprint, fence, attempts, status, flags, headers, body, \
     reference FROM bare WHERE id = $1";

const INSERT: &str = "INSERT INTO bare (id, owner, fence, state, lease_until, expires_at, purge_at, \
     created_at, fingerprint, namespace, operation, key_hint, caller_digest) \
     VALUES ($1, '8e03978e-40d5-43e8-bc93-6894a57f9324', $2, 1, \
     statement_timestamp() + $3 * interval '1 millisecond', \
     statement_timestamp() + $3 * interval '1 millisecond', \
     statement_timestamp() + $3 * interval '1 millisecond', \
     statement_timestamp(), $4, $5, $6, $7, $8)";

const UPDATE: &str = "UPDATE bare SET state = 2, status = $2, flags = $3, headers = $4, body = $5, \
     completed_at = statement_timestamp(), lease_until = statement_timestamp(), \
     expires_at = statement_timestamp() + $6 * interval '1 millisecond' WHERE id = $1";

pub(crate) struct Server {
    postgres: Postgres,
    url: String,
    control: PgConnection,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let settings = [("fsync", "on"), ("shared_buffers", "128MB")];
        let postgres = Postgres::start(&settings).await;
        let url = postgres.create_database("bench", &[]).await;
        let mut control = postgres.connect().await;
        let counting = control.execute("CREATE EXTENSION pg_stat_statements").await;
        counting.expect("the server is installed with `pg_stat_statements`");

        let options = PostgresStoreOptions::default().with_migration();
        let store = PostgresStore::connect_with(&url, options).await;
        drop(store.expect("the table is made"));
        let mut connection = PgConnection::connect(&url).await.expect(ANSWERS);
        let settings =
            "SELECT array_to_string(reloptions, ', ') FROM pg_class WHERE relname = 'idem'";
        let settings: String = sqlx::query_scalar(settings)
            .fetch_one(&mut connection)
            .await
            .expect(ANSWERS);
        let table = format!("CREATE TABLE bare (LIKE idem INCLUDING ALL) WITH ({settings})");
        let made = connection.execute(AssertSqlSafe(table)).await;
        made.expect("the table of the floor is made");
        Self {
            postgres,
            url,
            control,
        }
    }
}

async fn open(url: String) -> Stage<BarePostgres> {
    let options = PostgresStoreOptions::default();
    let pool = PgPoolOptions::new()
        .max_connections(options.max_connections)
        .test_before_acquire(false)
        .connect_lazy(&url);
    let store = PostgresStore::connect_with(&url, options).await;
    let store = store.expect("the store opens");
    let bare = BarePostgres(pool.expect("a url"));
    Stage::new(Arc::new(store), bare)
}

impl Backend for Server {
    type Bare = BarePostgres;

    const CASES: [(What, [&'static str; 2], f64); 2] = [
        (What::Replay, ["SELECT", "replay"], 0.85),
        (What::First, ["INSERT, UPDATE", "first execution"], 0.85),
    ];

    fn headline(&self) -> String {
        let connections = PostgresStoreOptions::default().max_connections;
        format!(
            "Postgres: fsync and synchronous_commit on, {connections} connections for each side"
        )
    }

    fn pid(&self) -> u32 {
        self.postgres.pid()
    }

    /// Any read of a page, also that of a plain `SELECT`, may clean it from old versions of its rows,
    /// and log that. So the rows that are replayed get pages of their own, to which nothing is added:
    /// those of the rows that are made here are the last ones.
    async fn settle(&mut self, stage: &Stage<BarePostgres>) {
        for side in [Side::Bare, Side::Ours] {
            for _ in 0..100 {
                stage.first(side, &super::id(rand::random()), BRIEF).await;
            }
        }
        let mut connection = PgConnection::connect(&self.url).await.expect(ANSWERS);
        for table in ["idem", "bare"] {
            let vacuum = AssertSqlSafe(format!("VACUUM (FULL, ANALYZE) {table}"));
            connection.execute(vacuum).await.expect(ANSWERS);
        }
    }

    fn open(&self) -> impl Future<Output = Stage<BarePostgres>> + Send + 'static {
        open(self.url.clone())
    }

    async fn asked(&mut self) -> Asked {
        let told = "SELECT COALESCE(sum(calls), 0)::bigint AS times,
                    COALESCE(sum(wal_bytes), 0)::bigint AS logged
             FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
             WHERE d.datname = 'bench' AND s.query ~ '\\m(idem|bare)\\M' AND s.query !~ 'VACUUM'";
        let row = sqlx::query(told).fetch_one(&mut self.control).await;
        let row = row.expect(ANSWERS);
        let number = |name| u64::try_from(row.get::<i64, _>(name)).expect("it counts");
        Asked {
            times: number("times"),
            within: 0,
            logged: number("logged"),
        }
    }
}

#[derive(Clone)]
pub(crate) struct BarePostgres(PgPool);

impl Bare for BarePostgres {
    async fn read(&self, id: &Id) -> Bytes {
        let row = sqlx::query(SELECT).bind(&id[..]).fetch_one(&self.0).await;
        let row = row.expect(ANSWERS);
        assert_eq!(
            (row.get::<i16, _>("state"), row.get::<i16, _>("status")),
            (2, 201)
        );
        assert_eq!(row.get::<Vec<u8>, _>("headers").len(), HEADERS.len());
        row.get::<Vec<u8>, _>("body").into()
    }

    async fn begin(&self, id: &Id) {
        let inserted = sqlx::query(INSERT)
            .bind(&id[..])
            .bind(1_i64)
            .bind(i64::try_from(LEASE.as_millis()).expect("it is short"))
            .bind(&[7_u8; 33][..])
            .bind("")
            .bind("POST /bare")
            .bind("8e03…9324")
            .bind(&[7_u8; 32][..])
            .execute(&self.0)
            .await;
        assert_eq!(inserted.expect(ANSWERS).rows_affected(), 1);
    }

    async fn end(&self, id: &Id, ttl: Duration) {
        let updated = sqlx::query(UPDATE)
            .bind(&id[..])
            .bind(201_i16)
            .bind(0_i16)
            .bind(HEADERS)
            .bind(ANSWER.as_bytes())
            .bind(i64::try_from(ttl.as_millis()).expect("it is short"))
            .execute(&self.0)
            .await;
        assert_eq!(updated.expect(ANSWERS).rows_affected(), 1);
    }
}

/// The header line as the store writes it.
const HEADERS: &[u8] = b"\0\x01\0\x0c\0\0\0\x10content-typeapplication/json";
