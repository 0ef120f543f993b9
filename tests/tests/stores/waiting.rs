//! Many who wait for one attempt, over a store that tells nobody.

use std::time::Duration;

use futures_util::future::join_all;
use idem_tests::{Script, Setup, Step, StoreCall, StoreKind};
use sqlx::Executor;

use crate::{Own, on_both, service};

on_both![two_hundred_waiters_cost_few_calls_and_no_connection];

impl Own {
    /// How many commands, or statements, the server has carried out so far.
    async fn calls(&self) -> u64 {
        match self {
            Self::Redis(redis) => {
                let mut info = ::redis::cmd("INFO");
                let info = info
                    .arg("stats")
                    .query_async(&mut redis.connection().await)
                    .await;
                let info: String = info.expect("the server answers");
                let calls = info
                    .lines()
                    .find_map(|line| line.strip_prefix("total_commands_processed:"));
                calls
                    .expect("it is counted")
                    .trim()
                    .parse()
                    .expect("a number")
            }
            Self::Postgres(postgres) => {
                let mut connection = postgres.connect().await;
                let extension = "CREATE EXTENSION IF NOT EXISTS pg_stat_statements";
                let created = connection.execute(extension).await;
                created.expect("it is preloaded");
                let sql = "SELECT sum(calls)::bigint FROM pg_stat_statements";
                let calls = sqlx::query_scalar(sql).fetch_one(&mut connection);
                let calls: i64 = calls.await.expect("the server answers");
                u64::try_from(calls).expect("no negative number")
            }
        }
    }

    /// How many connections are in the middle of something.
    async fn busy(&self) -> i64 {
        match self {
            // One connection carries all calls.
            Self::Redis(_) => 0,
            Self::Postgres(postgres) => {
                let sql = "SELECT count(*) FROM pg_stat_activity WHERE state <> 'idle'
                           AND backend_type = 'client backend' AND pid <> pg_backend_pid()";
                let mut connection = postgres.connect().await;
                let busy = sqlx::query_scalar(sql).fetch_one(&mut connection);
                busy.await.expect("the server answers")
            }
        }
    }
}

/// P-23, B05-05
async fn two_hundred_waiters_cost_few_calls_and_no_connection(kind: StoreKind) {
    const WAITERS: usize = 200;
    let own = Own::start(kind).await;
    let setup = Setup {
        wait: Some(Duration::from_mins(1)),
        max_waiters: Some((WAITERS, WAITERS)),
        ..Setup::default()
    };
    let world = service(kind, &own.url(), setup).await;
    let script = Script::new("pay").step(Step::default().gate("slow"));
    let call = world.post("/charge").key("k").script(&script);
    let first = tokio::spawn(call.clone().send());
    world.app.gate("slow").arrived(1).await;
    let waiters: Vec<_> = (0..WAITERS)
        .map(|_| tokio::spawn(call.clone().send()))
        .collect();
    world.store.until_under_way(StoreCall::Wait, WAITERS).await;

    let (claims, before) = (world.store.done(StoreCall::Claim), own.calls().await);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let calls = own.calls().await - before;
    eprintln!("{kind:?}: {calls} calls for {WAITERS} waiters in ten seconds");
    // One of them looks, twice a second; the keeper renews; and we have counted.
    assert!(calls < 80, "{calls} calls");
    assert_eq!(world.store.done(StoreCall::Claim), claims);
    assert_eq!(own.busy().await, 0);

    // The others do not starve.
    let other = world.post("/charge").key("other");
    assert_eq!(other.script(&Script::new("other")).send().await.status, 201);
    world.app.gate("slow").open();
    let first = first.await.expect("no panic");
    for answer in join_all(waiters).await {
        answer.expect("no panic").assert_replays(&first);
    }
    assert_eq!(world.app.runs("pay"), 1);
}
