//! What a purge costs those who claim: two replicas drop two million expired rows of a Postgres
//! while others claim keys at a steady rate.
//!
//! Claims are 200 a second, each on time whether or not the one before it has been answered, and
//! their latency counts from that time. Postgres has `fsync` on. `cargo bench -p idem-tests --bench
//! purge` takes some minutes; `-- 200000` has fewer rows. The goal is printed, not asserted; what
//! was dropped and what stayed is asserted.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "the figures are what it is for")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use idem_core::{
    Caller, Fingerprint, IdempotencyKey, KeyRules, PostgresStore, PostgresStoreOptions,
    RequestHead, StorageKey, Store,
    store::{Audit, Claim, ClaimRequest, Owner, Takeover},
};
use idem_services::Postgres;
use idem_tests::measure::{factor, quantile, single_threaded};
use sqlx::{Connection, Executor, PgConnection};
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};

const ROWS: u64 = 2_000_000;
/// How many rows a purger drops at once.
const BATCH: u32 = 200;
const PURGERS: usize = 2;
/// The time between two claims.
const PACE: Duration = Duration::from_millis(5);
/// For how long there are claims and no purge.
const QUIET: Duration = Duration::from_secs(20);

/// Rows as a completion leaves them, of requests of a day ago, in the order of their time.
const EXPIRED: &str = "INSERT INTO idem (id, owner, fence, state, lease_until, expires_at, purge_at, \
     created_at, completed_at, fingerprint, namespace, operation, key_hint, caller_digest, status, \
     headers, body) \
     SELECT sha256(n::text::bytea), gen_random_uuid(), n, 2, at, at, at, at, at, \
       sha256('fingerprint') || '\\x01', '', 'POST /payments', '8e03…9324', sha256('caller'), 201, \
       '\\x0000', convert_to(repeat('.', 150), 'UTF8') \
     FROM generate_series(1, $1) n, \
       LATERAL (SELECT now() - interval '1 day' + n * interval '10 ms' AS at) past";

fn main() {
    let rows = std::env::args().find_map(|argument| argument.parse().ok());
    single_threaded().block_on(run(rows.unwrap_or(ROWS)));
}

async fn run(rows: u64) {
    let postgres = Postgres::start(&[("fsync", "on"), ("shared_buffers", "128MB")]).await;
    let connect = async || {
        let options = PostgresStoreOptions::default().with_migration();
        let store = PostgresStore::connect_with(&postgres.url(), options).await;
        Arc::new(store.expect("the store opens"))
    };
    let store = connect().await;
    let mut connection = PgConnection::connect(&postgres.url()).await;
    let connection = connection.as_mut().expect("Postgres answers");
    let count = i64::try_from(rows).expect("it is 63 bits");
    let inserted = sqlx::query(EXPIRED).bind(count).execute(&mut *connection);
    assert_eq!(inserted.await.expect("there is room").rows_affected(), rows);
    for rest in ["VACUUM (ANALYZE) idem", "CHECKPOINT"] {
        connection.execute(rest).await.expect("Postgres answers");
    }

    let before = claims(&store, async || tokio::time::sleep(QUIET).await).await;
    let begin = Instant::now();
    let mut batches = Vec::new();
    let during = claims(&store, async || {
        let mut purgers = JoinSet::new();
        for _ in 0..PURGERS {
            purgers.spawn(purge(connect().await));
        }
        batches = purgers.join_all().await.concat();
    });
    let during = during.await;
    let elapsed = begin.elapsed();

    assert_eq!(batches.iter().map(|batch| batch.rows).sum::<u64>(), rows);
    let left = sqlx::query_scalar("SELECT count(*) FROM idem");
    let left: i64 = left.fetch_one(connection).await.expect("Postgres answers");
    assert_eq!(usize::try_from(left), Ok(before.len() + during.len()));

    println!(
        "\n{rows} expired rows, {PURGERS} purgers, {BATCH} rows at once; claims {PACE:?} apart\n"
    );
    println!(
        "{:<14} {:>7} {:>8} {:>8} {:>8}",
        "", "claims", "p50 µs", "p99 µs", "max µs"
    );
    for (name, latencies) in [("before", &before), ("while purging", &during)] {
        println!(
            "{name:<14} {:>7} {:>8} {:>8} {:>8}",
            latencies.len(),
            quantile(latencies, 50),
            quantile(latencies, 99),
            quantile(latencies, 100)
        );
    }
    #[expect(clippy::cast_precision_loss, reason = "a figure to be read")]
    let worse = quantile(&during, 99) as f64 / quantile(&before, 99) as f64;
    println!("\np99 is {worse:.2} times that of before; the goal is 2 at most");
    batches.sort_by_key(|batch| batch.begun);
    let tenth = batches.len().div_ceil(10);
    println!(
        "purged in {:.1} s, {:.0} rows/s; a batch takes {} in the first tenth, {} in the last; the \
         longest {}",
        elapsed.as_secs_f64(),
        factor(usize::try_from(rows).expect("it is 64 bits")) / elapsed.as_secs_f64(),
        median(&batches[..tenth]),
        median(&batches[batches.len() - tenth..]),
        milliseconds(
            batches
                .iter()
                .map(|batch| batch.took)
                .max()
                .unwrap_or_default()
        ),
    );
}

/// Rows that were dropped at once.
#[derive(Clone)]
struct Batch {
    begun: Instant,
    took: Duration,
    rows: u64,
}

async fn purge(store: Arc<PostgresStore>) -> Vec<Batch> {
    let mut batches = Vec::new();
    loop {
        let begun = Instant::now();
        let rows = store.purge(BATCH).await.expect("the store answers");
        if rows == 0 {
            return batches;
        }
        let took = begun.elapsed();
        batches.push(Batch { begun, took, rows });
        // As the keeper of an engine does.
        tokio::time::sleep(took * 19).await;
    }
}

/// Claims new keys as long as the work lasts; gives the latencies in order.
async fn claims(store: &Arc<PostgresStore>, work: impl AsyncFnOnce()) -> Vec<Duration> {
    let done = Arc::new(AtomicBool::new(false));
    let claiming = tokio::spawn(claim_until(Arc::clone(store), Arc::clone(&done)));
    work().await;
    done.store(true, Ordering::Relaxed);
    let mut latencies = claiming.await.expect("no panic");
    latencies.sort_unstable();
    latencies
}

async fn claim_until(store: Arc<PostgresStore>, done: Arc<AtomicBool>) -> Vec<Duration> {
    let mut pace = interval(PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut claims = JoinSet::new();
    while !done.load(Ordering::Relaxed) {
        let due = pace.tick().await;
        let store = Arc::clone(&store);
        claims.spawn(async move {
            claim(&store).await;
            due.elapsed()
        });
    }
    claims.join_all().await
}

async fn claim(store: &PostgresStore) {
    let key = IdempotencyKey::parse(
        b"8e03978e-40d5-43e8-bc93-6894a57f9324",
        &KeyRules::default(),
    );
    let caller = Caller::User("ada".to_owned());
    let claim = ClaimRequest {
        key: &StorageKey::from_bytes(rand::random()),
        owner: Owner::random(),
        fingerprint: &Fingerprint::of(&RequestHead::new("POST", "/payments"), b"{}"),
        lease: Duration::from_secs(30),
        ttl: Duration::from_hours(24),
        takeover: Takeover::Allowed,
        audit: Audit {
            namespace: "",
            operation: "POST /payments",
            caller: &caller,
            key: &key.expect("a key"),
        },
    };
    let claimed = store.claim(&claim).await;
    assert!(matches!(claimed, Ok(Claim::Acquired { .. })), "{claimed:?}");
}

fn median(batches: &[Batch]) -> String {
    let mut took: Vec<Duration> = batches.iter().map(|batch| batch.took).collect();
    took.sort_unstable();
    milliseconds(took.get(took.len() / 2).copied().unwrap_or_default())
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}
