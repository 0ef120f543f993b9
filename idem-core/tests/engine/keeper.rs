//! The lease keeper: on a paused clock where time matters, on its own thread where blocking does.

use std::pin::Pin;

use super::*;

/// Begins a request whose handler never ends, and keeps it running.
fn running(world: &World) -> Pin<Box<dyn Future<Output = Sent>>> {
    let (started, never) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let peer = World {
        engine: world.engine.clone(),
        store: world.store.clone(),
        runs: Arc::clone(&world.runs),
    };
    let handler = world.slow(&started, &never);
    let mut request: Pin<Box<dyn Future<Output = Sent>>> =
        Box::pin(async move { peer.run(handler).await });
    assert!((&mut request).now_or_never().is_none());
    request
}

/// Lets time pass in steps that the keeper can follow.
async fn pass(time: Duration) {
    let until = Instant::now() + time;
    while Instant::now() < until {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn is_taken(world: &World) -> bool {
    matches!(
        world.request().await,
        Sent::Rejected(Rejection::InProgress { .. })
    )
}

#[tokio::test(start_paused = true)]
async fn a_running_handler_is_never_taken_over() {
    let world = World::new();
    let _request = running(&world);
    for _ in 0..10 {
        pass(LEASE).await;
        assert!(is_taken(&world).await);
    }
    // One renewal each third of the lease, give or take the one at the end.
    let renewals = world.store.count(Call::Renew);
    assert!((29..=31).contains(&renewals), "{renewals}");
}

#[tokio::test(start_paused = true)]
async fn many_leases_are_renewed_in_one_call() {
    let world = World::new();
    let mut requests = Vec::new();
    for _ in 0..100 {
        let other = World::keyed(&world, &POLICY, "body");
        let caller = Caller::User(requests.len().to_string());
        match world.engine.begin(Keyed { caller, ..other }).await {
            Begun::Claimed(claimed) => requests.push(claimed),
            other => panic!("the key is new: {other:?}"),
        }
    }
    pass(LEASE / 2).await;
    assert_eq!(world.store.count(Call::Renew), 1);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_fails_is_repeated_and_told() {
    let world = World::new();
    let _request = running(&world);
    world
        .store
        .fail(Kind::Renew, [Fault::Unreachable, Fault::Hangs]);
    pass(LEASE * 3).await;
    assert!(is_taken(&world).await);
    assert_eq!(world.counts().renewals_failed, 2);
    assert_eq!(world.counts().leases_lost, 0);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_without_an_answer_is_repeated_and_told() {
    let world = World::new();
    let _request = running(&world);
    world.store.unanswered.store(2, Ordering::SeqCst);
    pass(LEASE * 3).await;
    assert!(is_taken(&world).await);
    assert_eq!(world.counts().renewals_failed, 2);
    assert_eq!(world.counts().leases_lost, 0);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_panics_is_asked_again() {
    let world = World::new();
    let _request = running(&world);
    world
        .store
        .fail(Kind::Renew, [Fault::Panics, Fault::Panics]);
    pass(LEASE * 3).await;
    assert!(is_taken(&world).await);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_gives_no_connection_costs_no_lease() {
    for fault in [Fault::Unreachable, Fault::Hangs, Fault::Panics] {
        let world = World::new();
        world.store.fail(Kind::Reopen, [fault, fault]);
        let _request = running(&world);
        pass(LEASE * 3).await;
        assert!(is_taken(&world).await, "{fault:?}");
        assert_eq!(world.store.count(Call::Reopen), 3, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn expired_records_never_hold_a_lease_up() {
    let world = World::with(|builder| builder.purge_every(Duration::from_secs(1)));
    assert_eq!(
        world.run(world.handler(200, Some(Outcome::Forget))).await,
        Sent::own(1)
    );
    let _request = running(&world);
    world.store.endless_purge.store(true, Ordering::SeqCst);
    pass(LEASE * 3).await;
    assert!(is_taken(&world).await);
    // A batch takes almost a second, and the pause after it nineteen times as long.
    let purges = world.store.count(Call::Purge);
    assert!((4..8).contains(&purges), "{purges}");
}

#[tokio::test(start_paused = true)]
async fn renewal_ends_at_the_ceiling() {
    let world = World::with(|builder| builder.max_execution(LEASE * 2));
    let _request = running(&world);
    pass(LEASE * 2).await;
    assert!(is_taken(&world).await);
    pass(LEASE).await;
    assert_eq!(world.counts().renewals_ended, 1);
    assert_eq!(world.request().await, Sent::own(1));
    assert_eq!(world.counts().takeovers, 1);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_lost_is_told_and_not_renewed_again() {
    let world = World::new();
    let _request = running(&world);
    world.resolve(Resolve::Release).await;
    pass(LEASE * 3).await;
    assert_eq!(world.counts().leases_lost, 1);
    assert_eq!(world.store.count(Call::Renew), 1);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_ended_is_not_renewed() {
    let world = World::new();
    for status in [201, 500] {
        world.run(world.handler(status, None)).await;
    }
    pass(LEASE * 3).await;
    assert_eq!(world.store.count(Call::Renew), 0);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_its_owner_settled_is_no_lost_lease() {
    let ends = [
        (201, None, Kind::Complete),
        (200, Some(Outcome::Forget), Kind::Release),
    ];
    for (status, outcome, kind) in ends {
        let world = World::with(|builder| builder.store_timeout(LEASE * 2));
        // Done, but the owner does not know it yet.
        world.store.fail(kind, [Fault::ReplyLost, Fault::Hangs]);
        let mut request = Box::pin(world.run(world.handler(status, outcome)));
        assert!((&mut request).now_or_never().is_none());
        pass(LEASE).await;
        assert_eq!(world.store.count(Call::Renew), 1, "{kind:?}");
        assert_eq!(world.counts().leases_lost, 0, "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_key_whose_reply_was_lost_is_no_lost_lease() {
    let world = World::new();
    world.store.fail(Kind::Release, [Fault::ReplyLost]);
    assert_eq!(
        world.run(world.handler(200, Some(Outcome::Forget))).await,
        Sent::own(1)
    );
    assert_eq!(world.counts().leases_lost, 0);
    assert_eq!(world.request().await, Sent::own(2));
}

#[tokio::test(start_paused = true)]
async fn expired_records_are_purged_and_then_the_store_is_rarely_asked() {
    let world = World::with(|builder| builder.purge_every(Duration::from_mins(1)));
    assert_eq!(world.request().await, Sent::own(1));
    assert_eq!(world.store.inner.len(), 1);
    tokio::time::sleep(Duration::from_hours(25)).await;
    assert_eq!(world.store.inner.len(), 0);
    let purges = world.store.count(Call::Purge);
    assert!((24 * 60..=25 * 60).contains(&purges), "{purges}");
    // Once an hour; and the next time is far off.
    tokio::time::sleep(Duration::from_mins(48 * 60 + 5)).await;
    assert_eq!(world.store.count(Call::Purge) - purges, 49);

    // With the next record it begins anew.
    assert_eq!(world.request().await, Sent::own(2));
    tokio::time::sleep(Duration::from_mins(10)).await;
    let purges = world.store.count(Call::Purge) - purges - 49;
    assert!((9..=11).contains(&purges), "{purges}");
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_is_told_so_leaves_the_purge_to_others() {
    let world = World::with(Builder::without_purge);
    assert_eq!(world.request().await, Sent::own(1));
    tokio::time::sleep(Duration::from_hours(25)).await;
    assert_eq!(world.store.count(Call::Purge), 0);
    assert_eq!(world.store.inner.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_is_dropped_ends_its_keeper() {
    let world = World::new();
    assert_eq!(world.request().await, Sent::own(1));
    settle().await;
    let store = world.store.clone();
    drop(world);
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(store.count(Call::Purge), 0);
}

/// The keeper's own thread, in real time: the runtime of the application is blocked for three
/// leases, and another engine asks for the key all the while.
#[tokio::test]
async fn a_handler_that_blocks_its_runtime_keeps_its_lease() {
    static BRIEF: Policy = Policy::new("pay").lease(Duration::from_secs(1));
    const BLOCKED: Duration = Duration::from_secs(3);

    let store = FaultyStore::new();
    let engine = || {
        Builder::<Bare>::new(store.clone())
            .build()
            .expect("valid settings")
            .0
    };
    let world = World {
        engine: engine(),
        store: store.clone(),
        runs: Arc::default(),
    };
    let Begun::Claimed(claimed) = world.engine.begin(world.keyed(&BRIEF, "body")).await else {
        panic!("the key is new");
    };

    let peer = World {
        engine: engine(),
        store: store.clone(),
        runs: Arc::clone(&world.runs),
    };
    let (done, ended) = std::sync::mpsc::channel::<()>();
    let asking = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        let mut refused = 0;
        while ended.recv_timeout(Duration::from_millis(20)).is_err() {
            let request = peer.engine.begin(peer.keyed(&BRIEF, "body"));
            match runtime.as_ref().expect("no I/O").block_on(request) {
                Begun::Answered(Answer::Rejection(Rejection::InProgress { .. })) => refused += 1,
                other => panic!("after {refused} refusals: {other:?}"),
            }
        }
        refused
    });
    let handler = world.handler(201, None);
    let blocks = async move {
        std::thread::sleep(BLOCKED);
        handler.await
    };
    assert!(matches!(claimed.run(blocks).await, Ok(Reply::Own(_))));
    done.send(()).expect("the other engine asks");
    assert!(asking.join().expect("it was never let in") > 20);
    assert_eq!(world.counts().renewals_failed, 0);
}
