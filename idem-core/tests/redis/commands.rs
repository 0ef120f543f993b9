//! What is sent for a request.

use std::{collections::BTreeMap, time::Duration};

use futures_util::StreamExt;
use idem_core::{
    Store,
    store::{Claim, Completion, Release, Released},
};
use idem_services::Redis;
use tokio::time::timeout;

use crate::{
    attempt::{Attempt, completed, in_progress, paid},
    world::World,
};

/// What the server carried out for some calls: the commands of clients, and those of scripts.
async fn carried_out(world: &World, calls: impl Future<Output = ()>) -> BTreeMap<String, u64> {
    let _: () = world.ask("CONFIG RESETSTAT", &[]).await;
    calls.await;
    let mut counts = world.counts().await;
    counts.retain(|name, _| !name.starts_with("config") && name != "info");
    counts.into_iter().collect()
}

fn commands<const N: usize>(counts: [(&str, u64); N]) -> BTreeMap<String, u64> {
    counts.map(|(name, calls)| (name.to_owned(), calls)).into()
}

/// The counters count what a script does too: to complete, that is to ask for the time, to read the
/// head, and to write.
#[tokio::test]
async fn a_first_execution_is_two_commands_and_a_replay_is_one() {
    let redis = Redis::start(&[]).await;
    let world = World::on(&redis).await;
    let mut first = Attempt::fresh();

    let claimed = carried_out(&world, async {
        first.acquire(&world.store).await;
    });
    assert_eq!(claimed.await, commands([("set", 1)]));

    let stored = carried_out(&world, async {
        let completion = first.complete(&world.store, &paid()).await;
        assert_eq!(completion, Completion::Stored);
    });
    let complete = [("evalsha", 1), ("time", 1), ("getrange", 1), ("set", 1)];
    assert_eq!(stored.await, commands(complete));

    let replayed = carried_out(&world, async {
        assert_eq!(completed(first.rival().claim(&world.store).await), paid());
    });
    assert_eq!(replayed.await, commands([("set", 1)]));
}

/// A mismatch needs no script, whatever the state; an attempt in progress needs one.
#[tokio::test]
async fn only_an_unfinished_record_of_the_same_request_takes_a_script() {
    let redis = Redis::start(&[]).await;
    let world = World::on(&redis).await;
    let mut first = Attempt::fresh();
    first.acquire(&world.store).await;

    let refused = carried_out(&world, async {
        let claim = first.stranger().claim(&world.store).await;
        assert!(matches!(claim, Claim::Mismatch { .. }), "{claim:?}");
    });
    assert_eq!(refused.await, commands([("set", 1)]));

    let met = carried_out(&world, async {
        in_progress(first.rival().claim(&world.store).await);
    });
    let script = [("evalsha", 1), ("time", 1), ("getrange", 1), ("pttl", 1)];
    let both: Vec<_> = [("set", 1)].into_iter().chain(script).collect();
    let both = <[_; 5]>::try_from(both).expect("five");
    assert_eq!(met.await, commands(both));
}

#[tokio::test]
async fn a_claim_under_monitor_is_one_native_command() {
    let redis = Redis::start(&[]).await;
    let world = World::on(&redis).await;
    let client = redis::Client::open(redis.url()).expect("a URL");
    let monitor = client.get_async_monitor().await.expect("a connection");
    let mut seen = monitor.into_on_message::<String>();

    let mut first = Attempt::fresh();
    first.acquire(&world.store).await;
    let _: () = world.ask("ECHO claimed", &[]).await;
    let mut lines = Vec::new();
    loop {
        let line = timeout(Duration::from_secs(20), seen.next()).await;
        let line = line.expect("it is shown").expect("it goes on");
        if line.contains("\"claimed\"") {
            break;
        }
        lines.push(line);
    }
    let [line] = &lines[..] else {
        panic!("expected one command: {lines:?}");
    };
    let name = world.name(first.key());
    assert!(line.contains(&format!("\"SET\" \"{name}\"")), "{line}");
    assert!(line.contains("\"NX\" \"GET\" \"PX\" \"600000\""), "{line}");
}

#[tokio::test]
async fn a_claim_never_replaces_a_completed_record() {
    let world = World::shared().await;
    let mut first = Attempt::fresh();
    first.acquire(&world.store).await;
    let _ = first.complete(&world.store, &paid()).await;
    let before = world.value(first.key()).await;

    for claim in [first.clone(), first.rival(), first.stranger()] {
        let _ = claim.claim(&world.store).await;
        assert_eq!(world.value(first.key()).await, before);
    }
}

/// A server forgets its scripts when it is told to, and when it starts again.
#[tokio::test]
async fn scripts_that_the_server_forgot_are_loaded_again() {
    let redis = Redis::start(&[]).await;
    let world = World::on(&redis).await;
    let forget = async || world.ask::<()>("SCRIPT FLUSH", &[]).await;

    let mut first = Attempt::fresh();
    first.acquire(&world.store).await;
    forget().await;
    in_progress(first.rival().claim(&world.store).await);
    forget().await;
    let mut other = Attempt::fresh();
    other.acquire(&world.store).await;
    let leases = [first.as_lease(), other.as_lease()];
    let renewals = world.store.renew(&leases).await.expect("they are loaded");
    assert_eq!(renewals.len(), 2);
    forget().await;
    assert_eq!(
        first.complete(&world.store, &paid()).await,
        Completion::Stored
    );
    forget().await;
    assert_eq!(
        other.release(&world.store, Release::Bound).await,
        Released::Done
    );
    forget().await;
    let summary = world.store.inspect(other.key()).await;
    let fence = summary.expect("it answers").expect("a record").grant.fence;
    let forgotten = world
        .store
        .resolve(other.key(), fence, idem_core::store::Resolve::Forget);
    let _ = forgotten.await.expect("it is loaded");
    assert_eq!(world.value(other.key()).await, None);
}
