//! The engine over a store that fails when it is told to, on a paused clock.
#![forbid(unsafe_code)]
#![cfg(feature = "memory")]

mod faulty;
mod keeper;

use std::{
    panic::AssertUnwindSafe,
    rc::Rc,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{
    FutureExt,
    future::{LocalBoxFuture, join_all},
};
use idem_core::{
    Adapter, Builder, Caller, Engine, Fingerprint, OnLapse, Outcome, Policy, Principal, Record,
    RecordBody, Rejection, RequestHead, Selection, StorageKey, StoreDown,
    adapter::{Callers, Renderer},
    engine::{Admission, Answer, Begun, Keyed, Panic, Ran, Reply},
    observe::{Counts, Event, EventKind, Observer},
    store::{Release, Resolve, Resolved, State, Store},
};
use tokio::{
    runtime::Handle,
    sync::Notify,
    task::{LocalSet, spawn_local},
    time::{Instant, advance},
};

use self::faulty::{Call, Fault, FaultyStore, Kind};

const LEASE: Duration = Duration::from_secs(30);
static POLICY: Policy = Policy::new("pay")
    .lease(LEASE)
    .ttl(Duration::from_hours(24));
static NO_TAKEOVER: Policy = Policy::new("pay").lease(LEASE).on_lapse(OnLapse::Unknown);

/// A framework of nothing, so that the engine can be built.
#[derive(Debug)]
struct Bare(Engine);

impl Adapter for Bare {
    type Parts = ();
    type Response = ();

    fn principal((): &()) -> Option<Principal> {
        None
    }

    fn install(engine: Engine, _: Callers<Self>, _: Option<Renderer<Self>>) -> Self {
        Self(engine)
    }
}

/// An engine, its store, and how often the handler ran.
struct World {
    engine: Engine,
    store: FaultyStore,
    runs: Arc<AtomicUsize>,
}

impl World {
    fn new() -> Self {
        Self::with(|builder| builder)
    }

    fn with(set: impl FnOnce(Builder<Bare>) -> Builder<Bare>) -> Self {
        let store = FaultyStore::new();
        let builder = Builder::new(store.clone()).renew_on(Handle::current());
        let engine = set(builder).build().expect("valid settings").0;
        Self {
            engine,
            store,
            runs: Arc::default(),
        }
    }

    /// Another engine over the same store, as another process has it.
    fn peer(&self) -> Self {
        let builder = Builder::<Bare>::new(self.store.clone()).renew_on(Handle::current());
        let engine = builder.build().expect("valid settings").0;
        Self {
            engine,
            store: self.store.clone(),
            runs: Arc::clone(&self.runs),
        }
    }

    fn keyed(&self, policy: &'static Policy, body: &str) -> Keyed {
        match self
            .engine
            .admit(policy, "POST", || Some("/pay"), [&b"k"[..]])
        {
            Admission::Keyed(admitted) => Keyed {
                admitted,
                caller: Caller::Endpoint,
                fingerprint: Fingerprint::of(&RequestHead::new("POST", "/pay"), body.as_bytes()),
                attempt: None,
                selection: Selection::new(),
            },
            other => panic!("not keyed: {other:?}"),
        }
    }

    async fn begin(&self) -> Begun {
        self.engine.begin(self.keyed(&POLICY, "body")).await
    }

    /// Why a request with this body is refused.
    async fn refused(&self, body: &str) -> &'static str {
        match self.engine.begin(self.keyed(&POLICY, body)).await {
            Begun::Answered(Answer::Rejection(rejection)) => rejection.code(),
            other => panic!("not refused: {other:?}"),
        }
    }

    /// A whole request whose handler answers at once.
    async fn request(&self) -> Sent {
        self.run(self.handler(201, None)).await
    }

    async fn run(&self, handler: impl Future<Output = Ran<String>> + Send + 'static) -> Sent {
        match self.begin().await {
            Begun::Claimed(claimed) => match claimed.run(handler).await {
                Ok(Reply::Own(body)) => Sent::Own(body),
                Ok(Reply::Other(answer)) => Sent::of(answer),
                Err(_) => Sent::Panicked,
            },
            Begun::Bypassed => Sent::Own(handler.await.response),
            Begun::Answered(answer) => Sent::of(answer),
        }
    }

    /// A handler that counts its run and answers with its number.
    fn handler(
        &self,
        status: u16,
        outcome: Option<Outcome>,
    ) -> impl Future<Output = Ran<String>> + Send + use<> {
        let (engine, runs) = (self.engine.clone(), Arc::clone(&self.runs));
        async move {
            let body = format!("run {}", runs.fetch_add(1, Ordering::SeqCst) + 1);
            let kept = RecordBody::Kept(body.clone().into());
            let record = engine.record(status, std::iter::empty(), kept);
            Ran {
                record,
                outcome,
                response: body,
            }
        }
    }

    /// A handler that says when it has started and waits until it may end.
    fn slow(
        &self,
        started: &Arc<Notify>,
        end: &Arc<Notify>,
    ) -> impl Future<Output = Ran<String>> + Send + use<> {
        let handler = self.handler(201, None);
        let (started, end) = (Arc::clone(started), Arc::clone(end));
        async move {
            started.notify_one();
            end.notified().await;
            handler.await
        }
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    fn counts(&self) -> Counts {
        self.engine.counts()
    }

    fn key() -> StorageKey {
        let rules = idem_core::KeyRules::default();
        let key = idem_core::IdempotencyKey::parse(b"k", &rules).expect("valid");
        StorageKey::derive("", &Caller::Endpoint, "POST /pay", &key)
    }

    async fn state(&self) -> Option<State> {
        let summary = self
            .store
            .inspect(&Self::key())
            .await
            .expect("it is in memory");
        summary.map(|summary| summary.state)
    }

    /// Carries out what an operator decides about the record as it is.
    async fn resolve(&self, how: Resolve) {
        let key = Self::key();
        let summary = self.store.inspect(&key).await.expect("it is in memory");
        let fence = summary.expect("there is a record").grant.fence;
        let resolved = self.store.resolve(&key, fence, how).await;
        assert_eq!(resolved.expect("it is in memory"), Resolved::Done);
    }
}

/// What a client was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Sent {
    Own(String),
    Replay(String),
    Rejected(Rejection),
    Panicked,
}

impl Sent {
    fn of(answer: Answer) -> Self {
        match answer {
            Answer::Replay(record) => match record.body {
                RecordBody::Kept(body) => {
                    Self::Replay(String::from_utf8(body.to_vec()).expect("our text"))
                }
                RecordBody::NotKept => panic!("a replay has a body"),
            },
            Answer::Rejection(rejection) => Self::Rejected(rejection),
        }
    }

    fn own(run: usize) -> Self {
        Self::Own(format!("run {run}"))
    }

    fn replay(run: usize) -> Self {
        Self::Replay(format!("run {run}"))
    }
}

const UNDO: Call = Call::Release(Release::Undo);
const BOUND: Call = Call::Release(Release::Bound);

/// Lets every task of the runtime come to rest.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_reply_was_lost_continues_as_the_owner() {
    let world = World::new();
    world
        .store
        .fail(Kind::Claim, [Fault::ReplyLost, Fault::ReplyLost]);
    assert_eq!(world.request().await, Sent::own(1));
    assert_eq!(world.store.count(Call::Claim), 3);
    assert_eq!(world.request().await, Sent::replay(1));
    assert_eq!(world.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_down_refuses_within_its_limit_and_nothing_runs() {
    for fault in [Fault::Unreachable, Fault::Hangs] {
        let world = World::new();
        world.store.fail(Kind::Claim, [fault, fault, fault]);
        let sent = Instant::now();
        assert_eq!(
            world.request().await,
            Sent::Rejected(Rejection::StoreUnavailable)
        );
        assert!(
            sent.elapsed() < Duration::from_millis(1_500),
            "{fault:?}: {:?}",
            sent.elapsed()
        );
        assert_eq!(world.store.count(Call::Claim), 3);
        assert_eq!(world.runs(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_was_given_up_and_landed_blocks_nobody() {
    let world = World::new();
    world.store.fail(
        Kind::Claim,
        [Fault::ReplyLost, Fault::ReplyLost, Fault::ReplyLost],
    );
    assert_eq!(
        world.request().await,
        Sent::Rejected(Rejection::StoreUnavailable)
    );
    settle().await;
    assert_eq!(world.store.count(UNDO), 1);
    assert_eq!(world.request().await, Sent::own(1));
}

/// The outage is longer than the lease: when the store is back, the key is free for whoever comes
/// first.
#[tokio::test(start_paused = true)]
async fn nothing_runs_again_while_an_outcome_waits_for_its_store() {
    let world = World::new();
    world.store.fail(Kind::Complete, [Fault::Hangs; 60]);
    world.store.fail(Kind::Renew, [Fault::Unreachable; 1_000]);
    assert_eq!(world.request().await, Sent::own(1));
    while world.store.count(Call::Complete) < 60 {
        assert_eq!(world.refused("body").await, "in-progress");
        assert_eq!(world.refused("another body").await, "key-reused");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(world.store.count(Call::Claim), 1);
    // It lapsed long ago, and another process may run.
    assert!(world.store.count(Call::Renew) > 100);

    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(world.request().await, Sent::replay(1));
    assert_eq!((world.runs(), world.store.count(Call::Claim)), (1, 2));
}

/// That nobody knows what happened is an outcome too; a release is none.
#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_waits_for_its_store_and_a_release_does_not() {
    for (outcome, runs) in [(Outcome::Unknown, 1), (Outcome::Release, 2)] {
        let world = World::new();
        world.store.fail(Kind::Release, [Fault::Unreachable; 60]);
        world.store.fail(Kind::Renew, [Fault::Unreachable; 1_000]);
        let first = world.run(world.handler(500, Some(outcome))).await;
        assert_eq!(first, Sent::own(1));
        tokio::time::sleep(LEASE * 2).await;
        let _ = world.request().await;
        assert_eq!(world.runs(), runs, "{outcome:?}");
    }
}

/// P-08: the store hangs longer than anybody waits, and does all of it when it comes back.
#[tokio::test(start_paused = true)]
async fn a_claim_that_lands_after_an_outage_is_taken_back() {
    let world = World::new();
    world.store.fail(
        Kind::Claim,
        [Fault::ReplyDelayed, Fault::Hangs, Fault::Hangs],
    );
    world.store.fail(Kind::Release, [Fault::Hangs; 3]);
    let refused = world.request().await;
    assert_eq!(refused, Sent::Rejected(Rejection::StoreUnavailable));
    // The first three times nobody hears of it.
    tokio::time::sleep(LEASE / 2).await;
    assert_eq!((world.store.count(UNDO), world.state().await), (4, None));
    assert_eq!(world.request().await, Sent::own(1));
}

/// P-08: the claim lands after it was taken back.
#[tokio::test(start_paused = true)]
async fn a_claim_that_is_overtaken_by_its_undoing_is_taken_back() {
    let world = World::new();
    world.store.fail(Kind::Claim, [Fault::Unreachable; 3]);
    let refused = world.request().await;
    assert_eq!(refused, Sent::Rejected(Rejection::StoreUnavailable));
    settle().await;
    assert_eq!(world.store.count(UNDO), 1);
    tokio::time::sleep(LEASE / 2).await;
    world.store.land_last_claim().await;
    assert!(world.state().await.is_some());
    tokio::time::sleep(Duration::from_secs(5)).await;
    let undone = world.store.count(UNDO);
    assert!((5..12).contains(&undone), "{undone}");
    assert_eq!(world.state().await, None);
    assert_eq!(world.request().await, Sent::own(1));
    // It has its answer.
    tokio::time::sleep(LEASE).await;
    assert_eq!(world.store.count(UNDO), undone);
}

/// The first try landed, and the second one was told that there is no room.
#[tokio::test(start_paused = true)]
async fn a_full_store_does_not_keep_a_claim_whose_reply_was_lost() {
    let world = World::new();
    world
        .store
        .fail(Kind::Claim, [Fault::ReplyLost, Fault::Full]);
    let refused = world.request().await;
    assert_eq!(refused, Sent::Rejected(Rejection::StoreUnavailable));
    settle().await;
    assert_eq!((world.store.count(UNDO), world.state().await), (1, None));
}

/// Sixteen at a time, and a shutdown waits for none of those that queue.
#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_is_not_asked_for_all_its_claims_at_once() {
    let world = World::new();
    world.store.fail(Kind::Claim, [Fault::Unreachable; 900]);
    world.store.fail(Kind::Release, [Fault::Hangs; 3_000]);
    for refused in join_all((0..300).map(|_| world.request())).await {
        assert_eq!(refused, Sent::Rejected(Rejection::StoreUnavailable));
    }
    settle().await;
    assert_eq!(world.store.hanging(), 16);
    let began = Instant::now();
    assert_eq!(world.engine.drain(LEASE).await.left, 0);
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );

    // Those whose turn never comes are told like those whose try fails.
    tokio::time::sleep(LEASE * 2).await;
    assert_eq!(world.engine.counts().releases_failed, 300);
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_taken_back_for_as_long_as_it_can_block_its_key() {
    let world = World::new();
    world.store.fail(Kind::Claim, [Fault::ReplyLost; 3]);
    world.store.fail(Kind::Release, [Fault::Unreachable; 1_000]);
    let refused = world.request().await;
    assert_eq!(refused, Sent::Rejected(Rejection::StoreUnavailable));
    tokio::time::sleep(LEASE).await;
    let tried = world.store.count(UNDO);
    assert!((5..50).contains(&tried), "{tried}");
    tokio::time::sleep(LEASE).await;
    assert_eq!(world.store.count(UNDO), tried);
    assert_eq!(world.engine.counts().releases_failed, 1);
    assert_eq!(world.request().await, Sent::own(1));
}

#[tokio::test(start_paused = true)]
async fn a_full_store_is_asked_once_and_nothing_is_taken_back() {
    let world = World::new();
    world.store.fail(Kind::Claim, [Fault::Full]);
    assert_eq!(
        world.request().await,
        Sent::Rejected(Rejection::StoreUnavailable)
    );
    settle().await;
    assert_eq!(world.store.calls(), [Call::Claim]);
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_is_told_so_runs_unprotected_while_its_store_is_down() {
    let world = World::with(|builder| builder.on_store_down(StoreDown::Execute));
    world.store.fail(Kind::Claim, [Fault::Unreachable; 3]);
    assert_eq!(world.request().await, Sent::own(1));
    assert_eq!(world.counts().bypassed, 1);
    assert_eq!(world.request().await, Sent::own(2));
    assert_eq!(world.request().await, Sent::replay(2));
}

#[tokio::test(start_paused = true)]
async fn a_request_dropped_during_its_claim_takes_it_back() {
    let world = World::new();
    world.store.fail(Kind::Claim, [Fault::Delayed]);
    assert!(world.begin().now_or_never().is_none());
    assert_eq!(world.state().await, None);
    world.store.let_pass();
    settle().await;
    assert_eq!(world.store.calls(), [Call::Claim, UNDO]);
    assert_eq!(world.state().await, None);
    assert_eq!(world.request().await, Sent::own(1));
}

#[tokio::test(start_paused = true)]
async fn a_request_dropped_before_its_handler_starts_takes_its_claim_back() {
    let world = World::new();
    let Begun::Claimed(claimed) = world.begin().await else {
        panic!("the key is new");
    };
    // The execution exists but was never polled.
    drop(claimed.run(world.handler(201, None)));
    settle().await;
    assert_eq!(world.store.count(UNDO), 1);
    assert_eq!((world.state().await, world.runs()), (None, 0));
    assert_eq!(world.request().await, Sent::own(1));
}

#[tokio::test(start_paused = true)]
async fn a_claim_taken_back_keeps_the_binding_of_an_earlier_attempt() {
    let world = World::new();
    assert_eq!(world.run(world.handler(503, None)).await, Sent::own(1));
    let Begun::Claimed(claimed) = world.begin().await else {
        panic!("the key was released");
    };
    drop(claimed);
    settle().await;
    assert_eq!(world.state().await, Some(State::Released));
    match world.engine.begin(world.keyed(&POLICY, "other body")).await {
        Begun::Answered(Answer::Rejection(rejection)) => {
            assert_eq!(
                rejection,
                Rejection::KeyReused {
                    original: State::Released
                }
            );
        }
        other => panic!("not refused: {other:?}"),
    }
    assert_eq!(world.request().await, Sent::own(2));
}

#[tokio::test(start_paused = true)]
async fn a_handler_goes_on_without_its_client() {
    let world = World::new();
    let (started, end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let request = world.run(world.slow(&started, &end));
    assert!(request.now_or_never().is_none());
    started.notified().await;
    assert_eq!(world.counts().detached, 1);
    assert!(matches!(
        world.request().await,
        Sent::Rejected(Rejection::InProgress { .. })
    ));
    end.notify_one();
    settle().await;
    assert_eq!(world.request().await, Sent::replay(1));
    assert_eq!(world.runs(), 1);
}

/// Runs a handler that stays on its thread, for a client that leaves.
async fn leave(world: &World, end: &Arc<Notify>, spawn: fn(LocalBoxFuture<'static, ()>)) {
    let Begun::Claimed(claimed) = world.begin().await else {
        panic!("the key is new");
    };
    let handler = world.slow(&Arc::new(Notify::new()), end);
    // It holds what must not leave the thread.
    let here = Rc::new(());
    let handler = async move {
        let ran = handler.await;
        drop(here);
        ran
    };
    assert!(claimed.run_local(handler, spawn).now_or_never().is_none());
    assert_eq!(world.counts().detached, 1);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_stays_on_its_thread_goes_on_without_its_client() {
    let (world, end) = (World::new(), Arc::new(Notify::new()));
    let local = LocalSet::new();
    let leaving = leave(&world, &end, |rest| drop(spawn_local(rest)));
    local.run_until(leaving).await;
    assert_eq!(world.refused("body").await, "in-progress");
    end.notify_one();
    local.await;
    assert_eq!(world.request().await, Sent::replay(1));
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_cannot_stay_on_its_thread_lapses() {
    let (world, end) = (World::new(), Arc::new(Notify::new()));
    // Without a `LocalSet` no task can be started: that is a panic, which harms nobody else.
    leave(&world, &end, |rest| drop(spawn_local(rest))).await;
    assert_eq!(world.refused("body").await, "in-progress");
    assert_eq!(world.store.count(BOUND), 0);
    advance(LEASE + Duration::from_secs(1)).await;
    assert_eq!(world.request().await, Sent::own(1));
    assert_eq!(world.counts().takeovers, 1);
}

/// Keeps what it hears of unprotected requests.
#[derive(Debug, Clone, Default)]
struct Unprotected(Arc<Mutex<Vec<String>>>);

impl Observer for Unprotected {
    fn observe(&self, event: &Event<'_>) {
        if matches!(event.kind, EventKind::Unprotected) {
            let mut heard = self.0.lock().expect("no panic");
            heard.push(event.operation.to_string());
        }
    }
}

#[tokio::test]
async fn the_route_of_an_unprotected_request_is_asked_for_if_somebody_hears_of_it() {
    let heard = Unprotected::default();
    let quiet = World::new();
    let told = World::with(|builder| builder.observer(heard.clone()));
    for (world, asked) in [(&quiet, 0), (&told, 1)] {
        let routes = AtomicUsize::new(0);
        let route = || {
            routes.fetch_add(1, Ordering::Relaxed);
            Some("/pay/{id}")
        };
        let admission = world.engine.admit(&POLICY, "POST", route, []);
        assert!(matches!(admission, Admission::Unprotected));
        assert_eq!(routes.into_inner(), asked);
        assert_eq!(world.counts().unprotected, 1);
    }
    assert_eq!(*heard.0.lock().expect("no panic"), ["POST /pay/{id}"]);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_during_the_completion_changes_nothing() {
    let world = World::new();
    world.store.fail(Kind::Complete, [Fault::Delayed]);
    assert!(world.request().now_or_never().is_none());
    world.store.let_pass();
    settle().await;
    assert_eq!(world.request().await, Sent::replay(1));
    assert_eq!(world.store.count(UNDO), 0);
}

#[tokio::test(start_paused = true)]
async fn a_panic_releases_the_key_bound_before_it_goes_on() {
    let world = World::new();
    let panics = async { panic!("on purpose") };
    assert_eq!(world.run(panics).await, Sent::Panicked);
    assert_eq!(
        (world.state().await, world.store.count(BOUND)),
        (Some(State::Released), 1)
    );
    assert_eq!(world.request().await, Sent::own(1));
}

#[tokio::test(start_paused = true)]
async fn a_panic_without_a_client_releases_the_key_too() {
    let world = World::new();
    let end = Arc::new(Notify::new());
    let ended = Arc::clone(&end);
    let panics = async move {
        ended.notified().await;
        panic!("on purpose")
    };
    assert!(world.run(panics).now_or_never().is_none());
    end.notify_one();
    settle().await;
    assert_eq!(world.state().await, Some(State::Released));
}

#[tokio::test]
async fn a_panic_carries_what_it_carried() {
    let world = World::new();
    let Begun::Claimed(claimed) = world.begin().await else {
        panic!("the key is new");
    };
    let run: Result<Reply<String>, Panic> = claimed.run(async { panic!("on purpose") }).await;
    let panic = run.expect_err("it panicked");
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"on purpose"));
}

#[tokio::test(start_paused = true)]
async fn a_completion_that_fails_is_repeated_before_the_answer_is_sent() {
    for fault in [
        Fault::Unreachable,
        Fault::ReplyLost,
        Fault::Hangs,
        Fault::Panics,
    ] {
        let world = World::new();
        world.store.fail(Kind::Complete, [fault]);
        assert_eq!(world.request().await, Sent::own(1));
        assert_eq!(world.counts().completions_retried, 1, "{fault:?}");
        assert_eq!(world.request().await, Sent::replay(1), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_not_held_back_for_long_and_its_record_follows() {
    let world = World::new();
    world.store.fail(Kind::Complete, [Fault::Unreachable; 30]);
    let sent = Instant::now();
    assert_eq!(world.request().await, Sent::own(1));
    assert!(
        sent.elapsed() <= Duration::from_secs(2),
        "{:?}",
        sent.elapsed()
    );
    // While the record is not there the lease is renewed, so that nothing runs again.
    while world.state().await == Some(State::InProgress) {
        assert!(matches!(
            world.request().await,
            Sent::Rejected(Rejection::InProgress { .. })
        ));
        advance(Duration::from_secs(1)).await;
        assert!(sent.elapsed() < Duration::from_mins(5), "never stored");
    }
    assert!(
        sent.elapsed() > LEASE,
        "the fault was over too soon to show a renewal"
    );
    assert_eq!(world.request().await, Sent::replay(1));
    assert_eq!(world.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_completion_that_never_succeeds_is_given_up_and_told() {
    let world = World::new();
    world
        .store
        .fail(Kind::Complete, [Fault::Unreachable; 1_000]);
    assert_eq!(world.request().await, Sent::own(1));
    let begin = Instant::now();
    while world.counts().completions_lost == 0 {
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(begin.elapsed() < Duration::from_mins(11), "never given up");
    }
    // The documented window: the lease lapses, and the next equal request runs again.
    tokio::time::sleep(LEASE * 2).await;
    assert!(matches!(world.begin().await, Begun::Claimed(_)));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_is_said_until_the_store_hears_it() {
    let world = World::new();
    world.store.fail(Kind::Release, [Fault::Unreachable; 30]);
    let unknown = world.handler(200, Some(Outcome::Unknown));
    assert_eq!(world.run(unknown).await, Sent::own(1));
    let begin = Instant::now();
    while world.state().await == Some(State::InProgress) {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(begin.elapsed() < Duration::from_mins(5), "never stored");
    }
    assert!(
        begin.elapsed() > LEASE,
        "the fault was over too soon to show a renewal"
    );
    assert_eq!(
        world.request().await,
        Sent::Rejected(Rejection::OutcomeUnknown)
    );
}

#[tokio::test(start_paused = true)]
async fn a_completion_in_the_background_takes_back_a_record_that_was_released() {
    let world = World::new();
    world.store.fail(Kind::Complete, [Fault::Unreachable; 10]);
    assert_eq!(world.request().await, Sent::own(1));
    world.resolve(Resolve::Release).await;
    while world.state().await != Some(State::Completed) {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(world.counts().completions_lost, 0);
    }
    assert_eq!(world.request().await, Sent::replay(1));
    assert_eq!(world.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_answered_after_its_lease_is_asked_again() {
    let world = World::with(|builder| builder.store_timeout(LEASE * 9));
    world.store.fail(Kind::Claim, [Fault::ReplyDelayed]);
    let (handler, first) = (world.handler(201, None), world.peer());
    let first = tokio::spawn(async move { first.run(handler).await });
    settle().await;
    advance(LEASE + Duration::from_millis(1)).await;
    assert_eq!(world.request().await, Sent::own(1));
    world.store.let_pass();
    assert_eq!(first.await.expect("no panic"), Sent::replay(1));
    assert_eq!(world.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_always_answers_after_the_lease_runs_nothing() {
    static MOMENT: Policy = Policy::new("pay").lease(Duration::from_millis(5));
    let world = World::new();
    world.store.fail(Kind::Claim, [Fault::ReplySlow; 3]);
    let begun = world.engine.begin(world.keyed(&MOMENT, "body")).await;
    assert!(
        matches!(
            begun,
            Begun::Answered(Answer::Rejection(Rejection::StoreUnavailable))
        ),
        "{begun:?}"
    );
    settle().await;
    assert_eq!((world.store.count(UNDO), world.state().await), (1, None));
}

#[tokio::test(start_paused = true)]
async fn a_lapsed_key_that_must_not_run_again_outlives_its_ttl() {
    static BRIEF: Policy = Policy::new("pay")
        .lease(LEASE)
        .ttl(Duration::from_mins(10))
        .on_lapse(OnLapse::Unknown);
    let world = World::with(|builder| builder.max_execution(Duration::from_secs(1)));
    let begin = async || world.engine.begin(world.keyed(&BRIEF, "body")).await;
    let Begun::Claimed(crashed) = begin().await else {
        panic!("the key is new");
    };
    std::mem::forget(crashed);
    for hours in [1, 24, 6 * 24 - 2] {
        tokio::time::sleep(Duration::from_hours(hours)).await;
        let begun = begin().await;
        assert!(
            matches!(
                begun,
                Begun::Answered(Answer::Rejection(Rejection::OutcomeUnknown))
            ),
            "{begun:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_panics_changes_nothing() {
    #[derive(Debug)]
    struct Nervous;

    impl Observer for Nervous {
        fn observe(&self, event: &Event<'_>) {
            panic!("on purpose, at {}", event.operation);
        }
    }

    let world = World::with(|builder| builder.observer(Nervous));
    assert_eq!(world.request().await, Sent::own(1));
    assert_eq!(world.request().await, Sent::replay(1));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_answered_in_time_whatever_its_store_does() {
    static PATIENT: Policy = Policy::new("pay")
        .lease(LEASE)
        .wait(Duration::from_secs(10));
    let world = World::new();
    let Begun::Claimed(_running) = world.begin().await else {
        panic!("the key is new");
    };
    world.store.fail(Kind::Changed, [Fault::Hangs]);
    let begin = Instant::now();
    let begun = world.engine.begin(world.keyed(&PATIENT, "body")).await;
    assert!(
        matches!(
            begun,
            Begun::Answered(Answer::Rejection(Rejection::InProgress { .. }))
        ),
        "{begun:?}"
    );
    assert_eq!(begin.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_cannot_watch_pauses_no_longer_than_it_waits() {
    const WAIT: Duration = Duration::from_secs(1);
    static BRIEF: Policy = Policy::new("pay").lease(LEASE).wait(WAIT);
    // The pauses have a jitter.
    for _ in 0..10 {
        let world = World::new();
        let Begun::Claimed(_running) = world.begin().await else {
            panic!("the key is new");
        };
        world.store.fail(Kind::Changed, [Fault::Unreachable; 40]);
        let begin = Instant::now();
        let begun = world.engine.begin(world.keyed(&BRIEF, "body")).await;
        assert!(matches!(begun, Begun::Answered(_)), "{begun:?}");
        let waited = begin.elapsed();
        assert!(waited >= WAIT && waited < WAIT * 11 / 10, "{waited:?}");
        assert!(world.store.count(Call::Changed) < 10);
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_what_is_taken_back() {
    let world = World::new();
    world.store.fail(Kind::Claim, [Fault::Delayed]);
    assert!(world.begin().now_or_never().is_none());
    let mut drain = Box::pin(world.engine.drain(Duration::from_secs(10)));
    for _ in 0..2 {
        assert!((&mut drain).now_or_never().is_none());
        settle().await;
    }
    world.store.let_pass();
    assert_eq!(drain.await.left, 0);
    assert_eq!((world.store.count(UNDO), world.state().await), (1, None));
}

#[tokio::test(start_paused = true)]
async fn a_release_that_fails_is_repeated() {
    let world = World::new();
    world.store.fail(Kind::Release, [Fault::Unreachable]);
    assert_eq!(world.run(world.handler(500, None)).await, Sent::own(1));
    assert_eq!(world.state().await, Some(State::Released));
}

/// What a late owner is answered, whose lease lapsed and whose successor did `successor`.
async fn late_owner<F: Future<Output = ()>>(successor: impl FnOnce(World) -> F) -> (World, Sent) {
    let world = World::with(|builder| builder.max_execution(Duration::from_secs(1)));
    let (started, end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let late = tokio::spawn({
        let world = World {
            engine: world.engine.clone(),
            store: world.store.clone(),
            runs: Arc::clone(&world.runs),
        };
        let handler = world.slow(&started, &end);
        async move { world.run(handler).await }
    });
    started.notified().await;
    advance(LEASE + Duration::from_millis(1)).await;
    successor(world.peer()).await;
    end.notify_one();
    let sent = late.await.expect("no panic");
    (world, sent)
}

#[tokio::test(start_paused = true)]
async fn a_late_owner_without_successor_still_stores_its_answer() {
    let (world, sent) = late_owner(|_| async {}).await;
    assert_eq!(sent, Sent::own(1));
    assert_eq!(world.request().await, Sent::replay(1));
}

#[tokio::test(start_paused = true)]
async fn a_late_owner_answers_with_the_record_of_its_successor() {
    let (world, sent) =
        late_owner(|peer| async move { assert_eq!(peer.request().await, Sent::own(1)) }).await;
    assert_eq!(sent, Sent::replay(1));
    assert_eq!(world.request().await, Sent::replay(1));
    assert_eq!((world.runs(), world.counts().leases_lost), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_late_owner_asks_for_the_record_of_its_successor_until_it_has_it() {
    let (_, sent) = late_owner(|peer| async move {
        assert_eq!(peer.request().await, Sent::own(1));
        peer.store
            .fail(Kind::Claim, [Fault::Unreachable, Fault::ReplyLost]);
    })
    .await;
    assert_eq!(sent, Sent::replay(1));
}

#[tokio::test(start_paused = true)]
async fn a_late_owner_never_answers_against_its_successor() {
    let (_, sent) = late_owner(|peer| async move {
        assert_eq!(peer.request().await, Sent::own(1));
        peer.store.fail(Kind::Claim, [Fault::Unreachable; 100]);
    })
    .await;
    assert_eq!(sent, Sent::Rejected(Rejection::StoreUnavailable));
}

#[tokio::test(start_paused = true)]
async fn a_late_owner_is_told_to_come_back_while_its_successor_runs() {
    let (_, sent) = late_owner(|peer| async move {
        let Begun::Claimed(claimed) = peer.begin().await else {
            panic!("the lease lapsed");
        };
        // It runs for as long as the test.
        std::mem::forget(claimed);
    })
    .await;
    assert!(
        matches!(sent, Sent::Rejected(Rejection::InProgress { .. })),
        "{sent:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_late_owner_stores_its_answer_where_its_successor_left_none() {
    let (world, sent) = late_owner(|peer| async move {
        assert_eq!(peer.run(peer.handler(503, None)).await, Sent::own(1));
    })
    .await;
    assert_eq!(sent, Sent::own(2));
    assert_eq!(world.request().await, Sent::replay(2));
}

#[tokio::test(start_paused = true)]
async fn a_late_owner_stores_its_answer_where_its_successor_died() {
    let (world, sent) = late_owner(|peer| async move {
        let Begun::Claimed(claimed) = peer.begin().await else {
            panic!("the lease lapsed");
        };
        // Its process is gone, and its lease lapses too.
        std::mem::forget((claimed, peer.engine));
        peer.store.fail(Kind::Renew, [Fault::Unreachable; 1_000]);
        advance(LEASE + Duration::from_millis(1)).await;
    })
    .await;
    assert_eq!(sent, Sent::own(1));
    assert_eq!(world.request().await, Sent::replay(1));
}

#[tokio::test(start_paused = true)]
async fn a_late_owner_of_a_forgotten_key_keeps_its_own_answer() {
    let (world, sent) = late_owner(|peer| async move {
        assert_eq!(
            peer.run(peer.handler(200, Some(Outcome::Forget))).await,
            Sent::own(1)
        );
        let other = peer.engine.begin(peer.keyed(&POLICY, "other body")).await;
        let Begun::Claimed(claimed) = other else {
            panic!("the key was forgotten");
        };
        let _ = claimed.run(peer.handler(200, None)).await;
    })
    .await;
    assert_eq!(sent, Sent::own(3));
    assert_eq!(
        world.request().await,
        Sent::Rejected(Rejection::KeyReused {
            original: State::Completed
        })
    );
}

#[tokio::test(start_paused = true)]
async fn a_record_that_vanished_is_restored() {
    let world = World::new();
    let (started, end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let mut request = Box::pin(world.run(world.slow(&started, &end)));
    assert!((&mut request).now_or_never().is_none());
    world.resolve(Resolve::Forget).await;
    end.notify_one();
    assert_eq!(request.await, Sent::own(1));
    assert_eq!(world.request().await, Sent::replay(1));
}

#[tokio::test(start_paused = true)]
async fn what_an_operator_decided_is_what_the_owner_answers() {
    let world = World::new();
    let (started, end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let mut request = Box::pin(world.run(world.slow(&started, &end)));
    assert!((&mut request).now_or_never().is_none());
    let decided = Resolve::Complete {
        record: Record::new(200, "decided"),
        ttl: LEASE,
    };
    world.resolve(decided).await;
    end.notify_one();
    assert_eq!(request.await, Sent::Replay("decided".into()));
}

#[tokio::test(start_paused = true)]
async fn a_lapsed_key_that_must_not_be_taken_over_stays_unknown() {
    let world = World::with(|builder| builder.max_execution(Duration::from_secs(1)));
    let begin = async || world.engine.begin(world.keyed(&NO_TAKEOVER, "body")).await;
    let Begun::Claimed(claimed) = begin().await else {
        panic!("the key is new");
    };
    advance(LEASE + Duration::from_millis(1)).await;
    for _ in 0..2 {
        match begin().await {
            Begun::Answered(Answer::Rejection(rejection)) => {
                assert_eq!(rejection, Rejection::OutcomeUnknown);
            }
            other => panic!("not refused: {other:?}"),
        }
    }
    // Its owner was only slow.
    let reply = AssertUnwindSafe(claimed.run(world.handler(201, None))).await;
    assert!(matches!(reply, Ok(Reply::Own(_))));
    assert_eq!(world.request().await, Sent::replay(1));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_is_not_run_again() {
    let world = World::new();
    let unknown = world.handler(200, Some(Outcome::Unknown));
    assert_eq!(world.run(unknown).await, Sent::own(1));
    advance(Duration::from_hours(6 * 24)).await;
    assert_eq!(
        world.request().await,
        Sent::Rejected(Rejection::OutcomeUnknown)
    );
    advance(Duration::from_hours(25)).await;
    assert_eq!(world.request().await, Sent::own(2));
}

#[test]
fn a_claim_dropped_without_a_runtime_is_left_to_lapse() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("no I/O");
    let (world, begun) = runtime.block_on(async {
        let world = World::new();
        let begun = world.begin().await;
        (world, begun)
    });
    assert!(matches!(begun, Begun::Claimed(_)));
    drop(begun);
    assert_eq!(world.store.count(UNDO), 0);
}
