//! What a row says, what is pinned of it, and what becomes of one that cannot be read.

use idem_core::{
    PostgresStoreOptions, Record, Store, Unreadable,
    store::{Claim, Completion, Fence, Grant, Owner, Release, Renewal, Resolve, State, Takeover},
};
use sqlx::{AssertSqlSafe, Row};

use crate::{
    attempt::{Attempt, LONG, OPERATION, causes, completed, record},
    subjects::postgres::Postgres,
};

/// The row of the golden file, as a value.
fn golden() -> (Attempt, Record) {
    let attempt = Attempt {
        owner: Owner::from_bytes(
            *b"\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff",
        ),
        grant: Some(Grant {
            fence: Fence::new(1_790_000_000_000_000),
            attempt: 2,
        }),
        ..Attempt::at("8e03978e-40d5-43e8-bc93-6894a57f9324")
    };
    let record = Record {
        reference: Some("txn_789".into()),
        ..Record::new(201, &b"{\"b\":1,\"a\":1.0, \"c\":\"\\u0000\"}\xff"[..])
            .with_header("location", "/payments/7")
            .with_header("x-latin", &b"caf\xe9"[..])
    };
    (attempt, record)
}

/// A row that this test cannot reproduce is one that a deployed reader cannot read: a change needs a
/// new number in `format`, and a new file beside this one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_row_is_the_one_of_the_golden_file() {
    let file = include_str!("../../golden/postgres-v1.sql");
    let (attempt, record) = golden();
    let subject = Postgres::new().await;
    let store = &subject.store;
    subject.execute(&file.replace("\"idem\"", "{}")).await;
    let replay = attempt.rival().claim(store).await.expect("an answer");
    assert_eq!(replay, completed(&record));
    let pinned = columns(&subject).await;

    subject.execute("DELETE FROM {}").await;
    let done = attempt.complete(store, &record).await.expect("an answer");
    assert_eq!(done, Completion::Restored);
    assert_eq!(columns(&subject).await, pinned);

    // A claim and a completion leave the same, but for the fence, which is the time.
    subject.execute("DELETE FROM {}").await;
    let mut again = Attempt {
        owner: Owner::random(),
        ..attempt.clone()
    };
    again.acquire(store).await;
    let _ = again.release(store, Release::Bound).await;
    again.owner = attempt.owner;
    again.acquire(store).await;
    let done = again.complete(store, &record).await.expect("an answer");
    assert_eq!(done, Completion::Stored);
    subject
        .execute("UPDATE {} SET fence = 1790000000000000")
        .await;
    assert_eq!(columns(&subject).await, pinned);
}

/// The columns of the only row, without those that are times.
async fn columns(subject: &Postgres) -> String {
    let sql = format!(
        "SELECT jsonb_pretty(to_jsonb(r) - '{{lease_until,expires_at,purge_at,created_at,completed_at}}'::text[])
         FROM {} r",
        subject.table
    );
    let row = sqlx::query(AssertSqlSafe(sql))
        .fetch_one(&subject.pool)
        .await;
    row.expect("one row").get(0)
}

/// The row and the transaction that wrote it: nobody touches it and leaves these as they are.
async fn version(subject: &Postgres) -> String {
    let sql = format!(
        "SELECT r.xmin::text || r.ctid::text || r::text FROM {} r",
        subject.table
    );
    let row = sqlx::query(AssertSqlSafe(sql))
        .fetch_one(&subject.pool)
        .await;
    row.expect("one row").get(0)
}

async fn without_constraints() -> Postgres {
    let subject = Postgres::new().await;
    let table = &subject.table;
    for constraint in ["state", "done"] {
        let drop = format!("ALTER TABLE {{}} DROP CONSTRAINT \"{table}_{constraint}\"");
        subject.execute(&drop).await;
    }
    subject
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_record_is_never_new() {
    let subject = without_constraints().await;
    let store = &subject.store;
    let damages = [
        ("status = 0", Unreadable::Status(0)),
        ("status = 99", Unreadable::Status(99)),
        ("status = NULL", Unreadable::Truncated),
        ("headers = substring(headers FOR 5)", Unreadable::Truncated),
        ("headers = ''", Unreadable::Truncated),
        ("headers = NULL", Unreadable::Truncated),
        ("headers = headers || '\\x00'", Unreadable::Header),
        (
            "headers = overlay(headers PLACING '\\x20' FROM 9)",
            Unreadable::Header,
        ),
        ("body = NULL", Unreadable::Truncated),
        ("flags = 128", Unreadable::Flags(128)),
        ("flags = 1", Unreadable::Flags(1)),
        ("format = 9", Unreadable::Version(9)),
        ("format = 0", Unreadable::Version(0)),
    ];
    for (damage, unreadable) in damages {
        subject.execute("DELETE FROM {}").await;
        let mut first = Attempt::fresh();
        first.acquire(store).await;
        let _ = first.complete(store, &record("paid")).await;
        subject.execute(&format!("UPDATE {{}} SET {damage}")).await;
        let before = version(&subject).await;
        for takeover in [Takeover::Allowed, Takeover::Refused] {
            let retry = Attempt {
                takeover,
                ..first.rival()
            };
            let claim = retry.claim(store).await.expect("an answer");
            assert_eq!(claim, Claim::Unreadable(unreadable), "{damage}");
        }
        assert_eq!(version(&subject).await, before, "{damage}: touched");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_in_an_unknown_state_is_never_new() {
    let subject = without_constraints().await;
    let store = &subject.store;
    let mut first = Attempt::fresh();
    first.acquire(store).await;
    subject
        .execute("UPDATE {} SET state = 9, lease_until = now()")
        .await;
    let before = version(&subject).await;
    for attempt in [first.clone(), first.rival(), first.stranger()] {
        let error = attempt.claim(store).await.expect_err("not to be read");
        assert!(
            causes(&error).ends_with("the record has the unknown state 9"),
            "{error:?}"
        );
    }
    assert!(first.complete(store, &record("paid")).await.is_err());
    assert!(first.release(store, Release::Forget).await.is_err());
    assert!(first.renew(store).await.is_err());
    assert!(store.inspect(&first.id).await.is_err());
    assert_eq!(version(&subject).await, before, "touched");
}

/// A row of a later version is left alone in whatever state it is, until a purge drops it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_of_another_format_is_left_alone() {
    let subject = Postgres::new().await;
    let store = &subject.store;
    for sets in [
        "lease_until = now()",
        "state = 0",
        "state = 3",
        "state = 2, status = 200, headers = '\\x0000', body = ''",
        "expires_at = now() - interval '1 min'",
    ] {
        subject.execute("DELETE FROM {}").await;
        let mut first = Attempt::fresh();
        let grant = first.acquire(store).await;
        subject
            .execute(&format!("UPDATE {{}} SET format = 2, {sets}"))
            .await;
        let before = version(&subject).await;
        for attempt in [first.clone(), first.rival(), first.stranger()] {
            let claim = attempt.claim(store).await.expect("an answer");
            assert_eq!(claim, Claim::Unreadable(Unreadable::Version(2)), "{sets}");
        }
        let refusals = [
            first.complete(store, &record("paid")).await.map(drop),
            first.release(store, Release::Bound).await.map(drop),
            first.release(store, Release::Forget).await.map(drop),
            first.renew(store).await.map(drop),
            store
                .resolve(&first.id, grant.fence, Resolve::Release)
                .await
                .map(drop),
            store
                .resolve(&first.id, grant.fence, Resolve::Forget)
                .await
                .map(drop),
        ];
        for refusal in refusals {
            let said = causes(&refusal.expect_err("it is left alone"));
            assert!(
                said.ends_with("the record has the unknown version 2"),
                "{said}"
            );
        }
        // Replaced by a later version, it fails no renewal of others.
        let superseded = first.rival().renew(store).await.expect("an answer");
        assert_eq!(superseded, Renewal::Superseded, "{sets}");
        assert_eq!(version(&subject).await, before, "{sets}: touched");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_summary_of_a_damaged_record_has_the_rest() {
    let subject = Postgres::new().await;
    let mut first = Attempt::fresh();
    first.acquire(&subject.store).await;
    let _ = first.complete(&subject.store, &record("paid")).await;
    subject.execute("UPDATE {} SET headers = ''").await;
    let summary = subject.store.inspect(&first.id).await.expect("an answer");
    let summary = summary.expect("a record");
    assert_eq!((summary.state, summary.status), (State::Completed, None));
    assert_eq!((&*summary.operation, summary.reference), (OPERATION, None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_and_callers_are_in_clear_only_if_the_application_asks() {
    let url = idem_services::Postgres::shared().await.url();
    let key = "alice@example.com-4111111111111111";
    let names = [key, "ada@example.com"];
    let dump = async |subject: &Postgres| {
        let mut first = Attempt::at(key);
        first.acquire(&subject.store).await;
        let _ = first.complete(&subject.store, &record("paid")).await;
        columns(subject).await
    };
    let silent = dump(&Postgres::new().await).await;
    assert!(names.iter().all(|name| !silent.contains(name)), "{silent}");
    assert!(silent.contains("\"key_hint\": \"alic…1111\""), "{silent}");

    let open = Postgres::at(&url, |it| it.with_readable_keys().with_readable_callers());
    let open = dump(&open.await).await;
    assert!(
        open.contains("\"key\": \"alice@example.com-4111111111111111\""),
        "{open}"
    );
    assert!(open.contains("\"caller\": \"ada@example.com\""), "{open}");
}

/// Postgres has no NUL in a text. What only people read is not a reason to lose an outcome.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nul_in_a_name_loses_nothing() {
    let url = idem_services::Postgres::shared().await.url();
    let subject = Postgres::at(&url, PostgresStoreOptions::with_readable_callers).await;
    let mut first = Attempt {
        caller: idem_core::Caller::User("a\0b".into()),
        ..Attempt::fresh()
    };
    first.acquire(&subject.store).await;
    let done = first.complete(&subject.store, &record("c\0d")).await;
    assert_eq!(done.expect("an answer"), Completion::Stored);
    let replay = first
        .rival()
        .claim(&subject.store)
        .await
        .expect("an answer");
    let Claim::Completed { record } = replay else {
        panic!("{replay:?}");
    };
    assert_eq!(record.reference.as_deref(), Some("c\u{fffd}d"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_longest_durations_are_taken() {
    let subject = Postgres::new().await;
    let mut first = Attempt {
        lease: std::time::Duration::MAX,
        ttl: std::time::Duration::MAX,
        ..Attempt::fresh()
    };
    first.acquire(&subject.store).await;
    let _ = first.renew(&subject.store).await.expect("an answer");
    let done = first.complete(&subject.store, &record("paid")).await;
    assert_eq!(done.expect("an answer"), Completion::Stored);
    let summary = subject.store.inspect(&first.id).await.expect("an answer");
    assert!(summary.expect("a record").expires_in > LONG);
}
