//! Locks of others: a call that meets one ends on the server, and leaves its connection clean.

use std::time::{Duration, Instant};

use idem_core::{
    Store, StoreError,
    store::{Claim, Completion, Fence, Release, Renewal, Resolve},
};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, PgPool, Row};

use crate::{
    attempt::{Attempt, causes, record},
    subjects::postgres::Postgres,
};

const LOCK_TIMEOUT: Duration = Duration::from_millis(100);

/// A store with one connection, and the URL of its server.
async fn small() -> (Postgres, String) {
    let url = idem_services::Postgres::shared().await.url();
    let subject = Postgres::at(&url, |options| {
        options
            .with_max_connections(1)
            .with_lock_timeout(LOCK_TIMEOUT)
    });
    (subject.await, url)
}

/// Asks that a call ended because of a lock, on the server, in time.
fn assert_locked<T: std::fmt::Debug>(answer: Result<T, StoreError>, since: Instant) {
    let error = answer.expect_err("the record is locked");
    let said = causes(&error);
    assert!(
        said.contains("another transaction has the record locked"),
        "{said}"
    );
    assert!(since.elapsed() >= LOCK_TIMEOUT, "{:?}", since.elapsed());
    assert!(
        since.elapsed() < Duration::from_secs(5),
        "{:?}",
        since.elapsed()
    );
}

/// Nobody but us waits for a lock, and no setting of ours stayed on the connection.
async fn assert_clean(subject: &Postgres) {
    let waiting = "SELECT count(*) FROM pg_stat_activity
                   WHERE wait_event_type = 'Lock' AND query LIKE '%TABLE%'";
    let waiting = waiting.replace("TABLE", &subject.table);
    let row = sqlx::query(AssertSqlSafe(waiting))
        .fetch_one(&subject.pool)
        .await;
    assert_eq!(row.expect("an answer").get::<i64, _>(0), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_meets_an_uncommitted_row_ends_on_the_server() {
    let (subject, url) = small().await;
    let attempt = Attempt::fresh();
    let mut other = PgConnection::connect(&url).await.expect("a connection");
    let mut transaction = other.begin().await.expect("a transaction");
    let insert = format!(
        "INSERT INTO {} (id, owner, fence, state, lease_until, expires_at, purge_at, created_at,
                         fingerprint, namespace, operation, caller_digest)
         VALUES ($1, gen_random_uuid(), 1, 1, now() + interval '1 h', now() + interval '1 h',
                 now(), now(), '', '', '', '')",
        subject.table
    );
    let insert = sqlx::query(AssertSqlSafe(insert)).bind(&attempt.id.as_bytes()[..]);
    transaction.execute(insert).await.expect("a row");

    let since = Instant::now();
    assert_locked(attempt.claim(&subject.store).await, since);
    assert_clean(&subject).await;
    transaction.rollback().await.expect("it is rolled back");
    let next = attempt.claim(&subject.store).await.expect("an answer");
    assert!(matches!(next, Claim::Acquired { .. }), "{next:?}");
}

/// The second statement of a claim, and every other call that writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_that_meets_a_locked_row_ends_on_the_server() {
    let (subject, url) = small().await;
    let store = &subject.store;
    let mut held = Attempt::fresh();
    let grant = held.acquire(store).await;
    let mut released = Attempt::fresh();
    released.acquire(store).await;
    let _ = released.release(store, Release::Bound).await;
    let mut other = PgConnection::connect(&url).await.expect("a connection");
    let mut transaction = other.begin().await.expect("a transaction");
    let lock = format!("SELECT 1 FROM {} FOR UPDATE", subject.table);
    transaction
        .execute(AssertSqlSafe(lock))
        .await
        .expect("locks");

    let since = Instant::now();
    assert_locked(released.rival().claim(store).await, since);
    let since = Instant::now();
    assert_locked(held.complete(store, &record("paid")).await, since);
    let since = Instant::now();
    assert_locked(held.release(store, Release::Bound).await, since);
    let since = Instant::now();
    assert_locked(held.release(store, Release::Forget).await, since);
    for how in [Resolve::Release, Resolve::Forget] {
        let since = Instant::now();
        assert_locked(store.resolve(&held.id, grant.fence, how).await, since);
    }
    // What needs no lock is answered meanwhile.
    let busy = held.rival().claim(store).await.expect("an answer");
    assert!(matches!(busy, Claim::InProgress { .. }), "{busy:?}");
    let stale = store
        .resolve(&held.id, Fence::new(1), Resolve::Release)
        .await;
    assert!(stale.is_ok(), "{stale:?}");
    assert_eq!(store.purge(10).await.expect("an answer"), 0);
    assert_clean(&subject).await;

    transaction.rollback().await.expect("it is rolled back");
    let done = held.complete(store, &record("paid")).await;
    assert_eq!(done.expect("an answer"), Completion::Stored);
}

/// However long a lock may be waited for, the wait ends on the server before the call does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_for_a_lock_ends_before_the_call() {
    let url = idem_services::Postgres::shared().await.url();
    let subject = Postgres::at(&url, |options| {
        let hour = Duration::from_hours(1);
        let call = Duration::from_secs(1);
        options.with_timeout(call).with_lock_timeout(hour)
    });
    let subject = subject.await;
    let mut attempt = Attempt::fresh();
    attempt.acquire(&subject.store).await;
    let mut other = subject.pool.begin().await.expect("a transaction");
    let lock = format!("SELECT 1 FROM {} FOR UPDATE", subject.table);
    other.execute(AssertSqlSafe(lock)).await.expect("a lock");
    let since = Instant::now();
    assert_locked(
        attempt.complete(&subject.store, &record("paid")).await,
        since,
    );
}

/// A lease whose row is locked costs the others of the same call nothing, not even another write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_row_holds_no_other_renewal_up() {
    let url = idem_services::Postgres::shared().await.url();
    let short = Duration::from_millis(500);
    let subject = Postgres::at(&url, |options| options.with_timeout(short)).await;
    let mut attempts = [Attempt::fresh(), Attempt::fresh(), Attempt::fresh()];
    for attempt in &mut attempts {
        attempt.acquire(&subject.store).await;
        attempt.lease *= 2;
    }
    let counts = "DO $do$ BEGIN
        CREATE FUNCTION counts_{}() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN NEW.attempts := OLD.attempts + 1; RETURN NEW; END';
        CREATE TRIGGER counts BEFORE UPDATE ON {} FOR EACH ROW EXECUTE FUNCTION counts_{}();
        END $do$";
    subject.execute(counts).await;
    let mut other = PgConnection::connect(&url).await.expect("a connection");
    let mut transaction = other.begin().await.expect("a transaction");
    let lock = format!("SELECT 1 FROM {} WHERE id = $1 FOR UPDATE", subject.table);
    let lock = sqlx::query(AssertSqlSafe(lock)).bind(&attempts[1].id.as_bytes()[..]);
    transaction.execute(lock).await.expect("a lock");

    let leases = attempts.each_ref().map(Attempt::as_lease);
    let renewed = |renewal: &Renewal| matches!(renewal, Renewal::Renewed { .. });
    let renewals = subject.store.renew(&leases).await.expect("an answer");
    assert!(
        renewed(&renewals[0]) && renewed(&renewals[2]),
        "{renewals:?}"
    );
    assert_eq!(renewals[1], Renewal::Unanswered);
    let extended = "SELECT count(*) FROM {}
                    WHERE lease_until > now() + interval '15 min' AND attempts = 2";
    let extended = AssertSqlSafe(extended.replace("{}", &subject.table));
    let row = sqlx::query(extended).fetch_one(&subject.pool).await;
    assert_eq!(row.expect("an answer").get::<i64, _>(0), 2);

    transaction.rollback().await.expect("it is rolled back");
    let renewals = subject.store.renew(&leases).await.expect("an answer");
    assert!(renewals.iter().all(renewed), "{renewals:?}");
}

/// More leases than one statement is given.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn very_many_leases_are_answered_in_order() {
    let subject = Postgres::new().await;
    let mut attempts: Vec<_> = (0..2_500).map(|_| Attempt::fresh()).collect();
    for held in [0, 999, 1_000, 2_499] {
        attempts[held].acquire(&subject.store).await;
    }
    let leases: Vec<_> = attempts.iter().map(Attempt::as_lease).collect();
    let renewals = subject.store.renew(&leases).await.expect("an answer");
    assert_eq!(renewals.len(), attempts.len());
    for (attempt, renewal) in attempts.iter().zip(renewals) {
        match renewal {
            Renewal::Renewed { .. } => assert!(attempt.grant.is_some()),
            other => assert_eq!((other, attempt.grant), (Renewal::Gone, None)),
        }
    }
}

/// A row that is committed while a claim waits for it is invisible to what the claim began with. The
/// statement that is the authority decides on that row all the same, and leaves it alone if it must.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_waited_decides_on_what_was_committed() {
    let subject = Postgres::new().await;
    // What it then says: format, state, whether owner and fingerprint are ours, and the attempt.
    let cases = [
        ("state = 1", "1 1 f t 7"),
        ("state = 1, lease_until = now()", "1 1 t t 8"),
        ("state = 2", "1 2 f t 7"),
        ("state = 3", "1 3 f t 7"),
        ("state = 0", "1 1 t t 8"),
        ("fingerprint = '\\x01'", "1 0 f f 7"),
        ("expires_at = now()", "1 1 t t 1"),
        ("format = 2", "2 0 f t 7"),
        ("format = 2, expires_at = now()", "2 0 f t 7"),
        ("format = 2, state = 1, lease_until = now()", "2 1 f t 7"),
    ];
    for (sets, expected) in cases {
        // The row is new to the claim, or an old one in another version.
        for old in [false, true] {
            let attempt = Attempt::fresh();
            let insert =
                "INSERT INTO {} (id, owner, fence, state, attempts, lease_until, expires_at,
                    purge_at, created_at, fingerprint, namespace, operation, caller_digest,
                    status, headers, body)
                VALUES ($1, gen_random_uuid(), 1, 0, 7, now() + interval '1 h',
                    now() + interval '1 h', now(), now(), $2, '', '', '', 201, '\\x0000', '')";
            let insert = AssertSqlSafe(insert.replace("{}", &subject.table));
            let insert = sqlx::query(insert)
                .bind(&attempt.id.as_bytes()[..])
                .bind(attempt.fingerprint.as_bytes());
            let mut other = subject.pool.acquire().await.expect("a connection");
            let (before, within) = if old { ("", "BEGIN") } else { ("BEGIN", "") };
            other.execute(before).await.expect("it begins");
            other.execute(insert).await.expect("a row");
            other.execute(within).await.expect("it begins");
            let update = format!("UPDATE {} SET {sets} WHERE id = $1", subject.table);
            let update = sqlx::query(AssertSqlSafe(update)).bind(&attempt.id.as_bytes()[..]);
            other.execute(update).await.expect("another version");

            let claiming =
                tokio::spawn(claim_alone(subject.pool.clone(), &subject.table, &attempt));
            tokio::time::sleep(Duration::from_millis(60)).await;
            assert!(!claiming.is_finished(), "{sets}: it does not wait");
            other.execute("COMMIT").await.expect("it is committed");
            assert_eq!(claiming.await.expect("an answer"), expected, "{sets}");
        }
    }
}

/// The other calls, too, say what was committed while they waited.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_waited_says_what_was_committed() {
    let done = "UPDATE {} SET state = 2, status = 201, headers = '\\x0000', body = ''";
    let cases = [
        (
            "complete",
            "UPDATE {} SET owner = gen_random_uuid()",
            "Superseded",
        ),
        ("complete", done, "Already"),
        ("complete", "UPDATE {} SET state = 0", "Released"),
        ("complete", "UPDATE {} SET attempts = 1", "Stored"),
        ("complete", "UPDATE {} SET expires_at = now()", "Restored"),
        ("complete", "DELETE FROM {}", "Restored"),
        (
            "release",
            "UPDATE {} SET owner = gen_random_uuid()",
            "Superseded",
        ),
        ("release", done, "Ended"),
        ("release", "UPDATE {} SET attempts = 1", "Done"),
        ("release", "DELETE FROM {}", "Gone"),
        (
            "renew",
            "UPDATE {} SET owner = gen_random_uuid()",
            "Superseded",
        ),
        ("renew", done, "Ended"),
        ("renew", "UPDATE {} SET attempts = 1", "Renewed"),
        ("renew", "DELETE FROM {}", "Gone"),
        (
            "resolve",
            "UPDATE {} SET fence = 77",
            "Stale { fence: Fence(77) }",
        ),
        ("resolve", "UPDATE {} SET attempts = 1", "Done"),
        ("resolve", "DELETE FROM {}", "Gone"),
        (
            "forget",
            "UPDATE {} SET fence = 77",
            "Stale { fence: Fence(77) }",
        ),
        ("forget", "DELETE FROM {}", "Gone"),
    ];
    let subject = Postgres::new().await;
    for (call, change, expected) in cases {
        subject.execute("DELETE FROM {}").await;
        let mut attempt = Attempt::fresh();
        let grant = attempt.acquire(&subject.store).await;
        let mut other = subject.pool.begin().await.expect("a transaction");
        let sql = AssertSqlSafe(change.replace("{}", &subject.table));
        other.execute(sql).await.expect("another version");
        let store = subject.store.clone();
        let calling = tokio::spawn(async move {
            let paid = record("paid");
            let resolve = |how| store.resolve(&attempt.id, grant.fence, how);
            match call {
                "complete" => format!("{:?}", attempt.complete(&store, &paid).await),
                "release" => format!("{:?}", attempt.release(&store, Release::Undo).await),
                "renew" => format!("{:?}", attempt.renew(&store).await),
                "resolve" => format!("{:?}", resolve(Resolve::Release).await),
                _ => format!("{:?}", resolve(Resolve::Forget).await),
            }
        });
        tokio::time::sleep(Duration::from_millis(60)).await;
        assert!(!calling.is_finished(), "{call}, {change}: it does not wait");
        other.commit().await.expect("it is committed");
        let answer = calling.await.expect("an answer");
        assert!(
            answer.starts_with(&format!("Ok({expected}")),
            "{call}, {change}: {answer}"
        );
    }
}

/// A record that vanished is not restored over one that another attempt makes meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_completion_that_waited_is_not_stored_over_a_new_record() {
    let subject = Postgres::new().await;
    let mut attempt = Attempt::fresh();
    attempt.acquire(&subject.store).await;
    let mut other = subject.pool.begin().await.expect("a transaction");
    for sql in [
        "CREATE TEMPORARY TABLE mine ON COMMIT DROP AS SELECT * FROM {}",
        "UPDATE mine SET owner = gen_random_uuid()",
    ] {
        let sql = AssertSqlSafe(sql.replace("{}", &subject.table));
        other.execute(sql).await.expect("a copy");
    }
    let store = subject.store.clone();
    let _ = store.release(&attempt.as_lease(), Release::Forget).await;
    let insert = AssertSqlSafe(format!("INSERT INTO {} SELECT * FROM mine", subject.table));
    other.execute(insert).await.expect("a new record");
    let rival = attempt.rival();
    let completing = tokio::spawn(async move { attempt.complete(&store, &record("paid")).await });
    tokio::time::sleep(Duration::from_millis(60)).await;
    assert!(!completing.is_finished(), "it does not wait");
    other.commit().await.expect("it is committed");
    let completion = completing.await.expect("it ends").expect("an answer");
    assert_eq!(completion, Completion::Superseded);
    let busy = rival.claim(&subject.store).await.expect("an answer");
    assert!(matches!(busy, Claim::InProgress { .. }), "{busy:?}");
}

/// Sends `claim.sql`, without the cheaper statement that the store sends first.
fn claim_alone(
    pool: PgPool,
    table: &str,
    attempt: &Attempt,
) -> impl Future<Output = String> + use<> {
    let sql = include_str!("../../src/store/postgres/claim.sql").replace("\"idem\"", table);
    let hex = |bytes: &[u8]| {
        let digits = |text: String, byte: &u8| format!("{text}{byte:02x}");
        bytes.iter().fold(String::new(), digits)
    };
    let (id, fingerprint) = (
        hex(attempt.id.as_bytes()),
        hex(attempt.fingerprint.as_bytes()),
    );
    let owner = hex(attempt.owner.as_bytes());
    let script = format!(
        "DEALLOCATE ALL;
         PREPARE c (text, bytea, uuid, bytea, int8, int8, text, text, text, bytea, text, text, bool)
         AS {sql};
         EXECUTE c ('10000', '\\x{id}', '{owner}', '\\x{fingerprint}', 60000, 60000, '', '', NULL,
             '\\x00', NULL, NULL, true)"
    );
    async move {
        let mut connection = pool.acquire().await.expect("a connection").detach();
        let script = sqlx::raw_sql(AssertSqlSafe(script));
        let row = connection.fetch_one(script).await.expect("one row");
        let column = |name: &str| {
            row.try_get_raw(name)
                .map(|raw| raw.as_str().map(str::to_owned))
        };
        let columns = ["format", "state", "own", "same", "attempts"].map(|name| {
            let text = column(name).expect("a column");
            text.expect("a text")
        });
        columns.join(" ")
    }
}
