//! The least that a user of Redis must be allowed.

use idem_core::{
    Record, RedisStore, Store,
    store::{Claim, Completion, Release, Released, Renewal, Resolve, Resolved},
};
use idem_services::Redis;

use crate::{
    attempt::{Attempt, LONG, completed, in_progress, paid},
    world::{World, patient},
};

#[tokio::test]
async fn a_strict_user_is_enough_for_everything() {
    let redis = Redis::start(&[]).await;
    let world = World::on(&redis).await;
    let _: () = world
        .ask(
            "ACL SETUSER pay reset on >secret +@read +@write +@scripting +time ~idem:*",
            &[],
        )
        .await;
    let url = redis.url().replace("redis://", "redis://pay:secret@");
    let store = RedisStore::connect_with(&url, patient()).await;
    let store = store.expect("it may connect");
    let other = store.reopen().await.expect("it may connect again");

    let mut first = Attempt::fresh();
    let grant = first.acquire(&store).await;
    assert_eq!(first.acquire(&store).await, grant);
    in_progress(first.rival().claim(&other).await);
    let claim = first.stranger().claim(&store).await;
    assert!(matches!(claim, Claim::Mismatch { .. }), "{claim:?}");
    assert!(matches!(first.renew(&other).await, Renewal::Renewed { .. }));
    assert_eq!(first.release(&store, Release::Bound).await, Released::Done);
    let mut second = first.rival();
    let grant = second.acquire(&store).await;
    assert_eq!(grant.attempt, 2);
    let keep = Release::Unknown { keep: LONG };
    assert_eq!(second.release(&store, keep).await, Released::Done);
    let summary = store.inspect(first.key()).await.expect("it may look");
    let fence = summary.expect("a record").grant.fence;
    let how = Resolve::Complete {
        record: Record::new(200, "found"),
        ttl: LONG,
    };
    let resolved = store.resolve(first.key(), fence, how).await;
    assert_eq!(resolved.expect("it may decide"), Resolved::Done);
    let found = completed(first.rival().claim(&store).await);
    assert_eq!(found, Record::new(200, "found"));

    let mut third = Attempt::fresh();
    third.acquire(&store).await;
    let _: () = world.ask("SCRIPT FLUSH", &[]).await;
    assert_eq!(third.complete(&store, &paid()).await, Completion::Stored);
    let restored = Attempt::fresh();
    let completion = restored.complete(&store, &paid()).await;
    assert_eq!(completion, Completion::Restored);
    let soon = tokio::time::Instant::now() + std::time::Duration::from_secs(1);
    store.changed(third.key(), soon).await.expect("it may look");
    assert_eq!(store.purge(10).await.expect("nothing to do"), 0);

    // All that was refused is what nobody needs: to ask for the eviction policy.
    let denied: Vec<std::collections::HashMap<String, redis::Value>> =
        world.ask("ACL LOG", &[]).await;
    for entry in denied {
        let object = entry.get("object").cloned().expect("what was refused");
        let object: String = redis::from_redis_value(object).expect("text");
        assert_eq!(object, "config|get");
    }
}

#[tokio::test]
async fn a_strict_user_of_another_database_may_select_it() {
    let redis = Redis::start(&[]).await;
    let world = World::on(&redis).await;
    let rule = "reset on >secret +@read +@write +@scripting +time ~idem:*";
    let _: () = world.ask(&format!("ACL SETUSER pay {rule}"), &[]).await;
    let url = redis.url().replace("redis://", "redis://pay:secret@");
    let url = format!("{}/1", url.trim_end_matches('/').trim_end_matches("/0"));
    let refused = RedisStore::connect_with(&url, patient()).await;
    refused.expect_err("it may not select a database");

    let _: () = world.ask("ACL SETUSER pay +select", &[]).await;
    let store = RedisStore::connect_with(&url, patient()).await;
    let store = store.expect("it may connect");
    let mut attempt = Attempt::fresh();
    attempt.acquire(&store).await;
    assert_eq!(attempt.complete(&store, &paid()).await, Completion::Stored);
    let elsewhere: String = world.ask("INFO keyspace", &[]).await;
    assert!(elsewhere.contains("db1:keys=1"), "{elsewhere}");
}
