//! Leases: who keeps one, who takes a lapsed one over, and what an owner may do that comes too
//! late.

use std::time::Duration;

use idem_tests::{Answer, Call, Script, Setup, Step, StoreCall, World, scenarios, script::Crash};
use tokio::task::JoinHandle;

scenarios![
    a_key_is_taken_over_after_its_lease_and_not_before,
    a_slow_handler_is_never_taken_over,
    renewal_goes_on_after_it_failed,
    renewal_ends_at_the_ceiling,
    a_late_owner_answers_with_the_record_of_its_successor,
    a_late_owner_is_refused_while_its_successor_runs,
    a_late_failure_leaves_the_successor_alone,
    a_late_panic_leaves_the_successor_alone,
    a_late_renewal_leaves_the_successor_alone,
    a_late_owner_without_successor_stores_its_answer,
    a_late_owner_stores_its_answer_where_its_successor_left_none,
    a_late_owner_stores_its_answer_where_its_successor_lapsed_too,
    a_late_owner_of_a_forgotten_key_leaves_its_new_owner_alone,
    of_three_owners_the_last_one_counts,
    a_lost_lease_is_told_once,
    a_taken_over_key_stays_bound,
    a_lapsed_key_that_must_not_run_again_is_unknown,
];

/// Longer than the default lease.
const PAST_THE_LEASE: Duration = Duration::from_secs(31);

/// An owner that stands still until the gate `late` opens, past its lease.
async fn paused_owner(world: &World, script: &Script) -> (JoinHandle<Answer>, Call) {
    let call = world.post("/charge").key("k").script(script);
    let owner = tokio::spawn(call.clone().send());
    world.app.gate("late").arrived(1).await;
    world.advance(PAST_THE_LEASE).await;
    (owner, call)
}

/// Lets the late owner go on, to its end.
async fn resume(world: &World, owner: JoinHandle<Answer>) -> Answer {
    world.app.gate("late").open();
    owner.await.expect("no panic")
}

fn late() -> Step {
    Step::default().gate("late")
}

/// B07-03
async fn a_key_is_taken_over_after_its_lease_and_not_before(world: World) {
    let short = world.short_lease();
    for lease in [short, short * 3, Duration::from_secs(90)] {
        let world = world
            .again(Setup {
                lease: Some(lease),
                // As if the owner were dead: it does not renew.
                max_execution: Some(Duration::from_millis(1)),
                ..Setup::default()
            })
            .await;
        let script = Script::new("pay").step(late()).then(Step::default());
        let call = world.post("/charge").key("k").script(&script);
        let owner = tokio::spawn(call.clone().send());
        world.app.gate("late").arrived(1).await;

        world.advance(world.most_of(lease)).await;
        call.clone().send().await.assert_refused(409, "in-progress");
        assert_eq!(world.app.runs("pay"), 1, "{lease:?}");

        world.advance(lease / 2).await;
        assert_eq!(call.clone().send().await.status, 201);
        assert_eq!((world.app.runs("pay"), world.counts().takeovers), (2, 1));
        resume(&world, owner).await;
    }
}

/// B01-03
async fn a_slow_handler_is_never_taken_over(world: World) {
    let lease = world.short_lease();
    let setup = Setup {
        lease: Some(lease),
        ..Setup::default()
    };
    let world = world.again(setup.clone()).await;
    let beside = world.beside(setup).await;
    let script = Script::new("pay").step(late());
    let call = beside.post("/charge").key("k").script(&script);
    let owner = tokio::spawn(world.post("/charge").key("k").script(&script).send());
    world.app.gate("late").arrived(1).await;
    for _ in 0..5 {
        world.advance(world.most_of(lease)).await;
        call.clone().send().await.assert_refused(409, "in-progress");
        let renewals = world.store.done(StoreCall::Renew);
        world.store.until_done(StoreCall::Renew, renewals + 1).await;
    }
    let first = resume(&world, owner).await;
    call.send().await.assert_replays(&first);
    assert_eq!((world.app.runs("pay"), world.app.effects("pay")), (1, 1));
}

/// B01-05
async fn renewal_goes_on_after_it_failed(world: World) {
    let lease = world.short_lease();
    let world = world
        .again(Setup {
            lease: Some(lease),
            ..Setup::default()
        })
        .await;
    let script = Script::new("pay").step(late());
    let call = world.post("/charge").key("k").script(&script);
    world.store.fail(StoreCall::Renew, 2);
    let owner = tokio::spawn(call.clone().send());
    world.app.gate("late").arrived(1).await;
    world.advance(world.most_of(lease)).await;
    world.store.until_done(StoreCall::Renew, 1).await;
    world.advance(world.most_of(lease)).await;

    call.clone().send().await.assert_refused(409, "in-progress");
    assert_eq!(world.counts().renewals_failed, 2);
    let first = resume(&world, owner).await;
    call.send().await.assert_replays(&first);
    assert_eq!(world.app.effects("pay"), 1);
}

/// B07-06
async fn renewal_ends_at_the_ceiling(world: World) {
    let lease = world.short_lease();
    let world = world
        .again(Setup {
            lease: Some(lease),
            max_execution: Some(lease / 2),
            ..Setup::default()
        })
        .await;
    let script = Script::new("pay").step(late()).then(Step::default());
    let call = world.post("/charge").key("k").script(&script);
    let hung = tokio::spawn(call.clone().send());
    world.app.gate("late").arrived(1).await;
    world.until(|counts| counts.renewals_ended == 1).await;
    call.clone().send().await.assert_refused(409, "in-progress");

    world.advance(lease).await;
    let second = call.clone().send().await;
    assert_eq!((second.status, world.counts().takeovers), (201, 1));
    resume(&world, hung).await.assert_replays(&second);
    assert_eq!(world.counts().renewals_ended, 1);
}

/// P-20, B01-04
async fn a_late_owner_answers_with_the_record_of_its_successor(world: World) {
    let script = Script::new("pay").step(late()).then(Step::default());
    let (owner, call) = paused_owner(&world, &script).await;
    let second = call.clone().send().await;
    assert_eq!((second.status, second.replayed()), (201, false));

    resume(&world, owner).await.assert_replays(&second);
    call.send().await.assert_replays(&second);
    let counts = world.counts();
    assert_eq!((counts.takeovers, counts.leases_lost), (1, 1));
}

/// P-20, B01-04
async fn a_late_owner_is_refused_while_its_successor_runs(world: World) {
    let successor = Step::default().gate("successor");
    let script = Script::new("pay").step(late()).then(successor);
    let (owner, call) = paused_owner(&world, &script).await;
    let second = tokio::spawn(call.clone().send());
    world.app.gate("successor").arrived(1).await;

    let late = resume(&world, owner).await;
    late.assert_refused(409, "in-progress");
    call.clone().send().await.assert_refused(409, "in-progress");

    world.app.gate("successor").open();
    let second = second.await.expect("no panic");
    assert_eq!((second.status, second.replayed()), (201, false));
    call.send().await.assert_replays(&second);
    assert_eq!(world.app.runs("pay"), 2);
}

/// A late owner ends without an outcome while its successor runs. Gives what its client gets.
async fn late_failure(world: &World, failure: Step) -> Option<Answer> {
    let successor = Step::default().gate("successor");
    let script = Script::new("pay")
        .step(failure.gate("late"))
        .then(successor);
    let (owner, call) = paused_owner(world, &script).await;
    let second = tokio::spawn(call.clone().send());
    world.app.gate("successor").arrived(1).await;

    world.app.gate("late").open();
    let late = owner.await.ok();
    world.until(|counts| counts.leases_lost == 1).await;
    call.clone().send().await.assert_refused(409, "in-progress");

    world.app.gate("successor").open();
    let second = second.await.expect("no panic");
    assert_eq!((second.status, second.replayed()), (201, false));
    call.send().await.assert_replays(&second);
    assert_eq!(world.app.runs("pay"), 2);
    late
}

/// P-20, B01-04
async fn a_late_failure_leaves_the_successor_alone(world: World) {
    for outcome in [None, Some("release"), Some("forget"), Some("unknown")] {
        let world = world.again(Setup::default()).await;
        let failure = Step {
            outcome: outcome.map(str::to_owned),
            ..Step::status(503)
        };
        let late = late_failure(&world, failure).await;
        assert_eq!(late.map(|answer| answer.status), Some(503), "{outcome:?}");
    }
}

/// P-20, B01-04
async fn a_late_panic_leaves_the_successor_alone(world: World) {
    let late = late_failure(&world, Step::crash(Crash::AfterEffect)).await;
    assert!(
        late.is_none(),
        "the connection of the panic goes on: {late:?}"
    );
}

/// P-20, B01-04
async fn a_late_renewal_leaves_the_successor_alone(world: World) {
    let lease = world.short_lease();
    let setup = Setup {
        lease: Some(lease),
        ..Setup::default()
    };
    let world = world.again(setup.clone()).await;
    // It does not renew, so that the lease which lapses in the end is its own.
    let beside = world
        .beside(Setup {
            max_execution: Some(Duration::from_millis(1)),
            ..setup
        })
        .await;
    let script = Script::new("pay")
        .step(late())
        .then(Step::default().gate("successor"))
        .then(Step::default());
    let call = beside.post("/charge").key("k").script(&script);
    world.store.hold(StoreCall::Renew);
    let owner = tokio::spawn(world.post("/charge").key("k").script(&script).send());
    world.store.until_under_way(StoreCall::Renew, 1).await;
    world.advance(lease).await;
    let second = tokio::spawn(call.clone().send());
    world.app.gate("successor").arrived(1).await;

    world.advance(world.most_of(lease)).await;
    world.store.pass(StoreCall::Renew);
    world.until(|counts| counts.leases_lost == 1).await;
    call.clone().send().await.assert_refused(409, "in-progress");
    world.advance(lease / 2).await;
    let third = call.clone().send().await;
    assert_eq!((third.status, third.replayed()), (201, false));

    world.app.gate("successor").open();
    second.await.expect("no panic").assert_replays(&third);
    resume(&world, owner).await.assert_replays(&third);
}

/// B01-04
async fn a_late_owner_without_successor_stores_its_answer(world: World) {
    let script = Script::new("pay").step(late());
    let (owner, call) = paused_owner(&world, &script).await;
    let first = resume(&world, owner).await;
    assert_eq!((first.status, first.replayed()), (201, false));
    call.send().await.assert_replays(&first);
    assert_eq!(
        (world.app.effects("pay"), world.counts().leases_lost),
        (1, 0)
    );
}

/// P-20, B01-04
async fn a_late_owner_stores_its_answer_where_its_successor_left_none(world: World) {
    let script = Script::new("pay").step(late()).then(Step::status(503));
    let (owner, call) = paused_owner(&world, &script).await;
    assert_eq!(call.clone().send().await.status, 503);

    let first = resume(&world, owner).await;
    assert_eq!((first.status, first.replayed()), (201, false));
    call.send().await.assert_replays(&first);
    assert_eq!(world.app.runs("pay"), 2);
}

/// P-20, B01-04
async fn a_late_owner_stores_its_answer_where_its_successor_lapsed_too(world: World) {
    let successor = Step::default().gate("successor");
    let script = Script::new("pay").step(late()).then(successor);
    let (owner, call) = paused_owner(&world, &script).await;
    let second = tokio::spawn(call.clone().send());
    world.app.gate("successor").arrived(1).await;
    world.advance(PAST_THE_LEASE).await;

    let first = resume(&world, owner).await;
    assert_eq!((first.status, first.replayed()), (201, false));
    call.send().await.assert_replays(&first);
    world.app.gate("successor").open();
    second.await.expect("no panic").assert_replays(&first);
    assert_eq!(world.app.runs("pay"), 2);
}

/// P-20, B01-04
async fn a_late_owner_of_a_forgotten_key_leaves_its_new_owner_alone(world: World) {
    let forgets = Step::status(409).outcome("forget");
    let script = Script::new("pay").step(late()).then(forgets);
    let (owner, call) = paused_owner(&world, &script).await;
    assert_eq!(call.send().await.status, 409);
    let other = world.post("/charge").key("k").script(&Script::new("other"));
    let new = other.clone().send().await;
    assert_eq!(new.status, 201);

    let first = resume(&world, owner).await;
    assert_eq!((first.status, first.replayed()), (201, false));
    other.send().await.assert_replays(&new);
    assert_eq!(world.app.runs("other"), 1);
}

/// P-20
async fn of_three_owners_the_last_one_counts(world: World) {
    let later = Step::default().gate("later");
    let script = Script::new("pay")
        .step(late())
        .then(later)
        .then(Step::default());
    let (first, call) = paused_owner(&world, &script).await;
    let second = tokio::spawn(call.clone().send());
    world.app.gate("later").arrived(1).await;
    world.advance(PAST_THE_LEASE).await;
    let third = call.clone().send().await;
    assert_eq!((third.status, third.replayed()), (201, false));

    world.app.gate("later").open();
    second.await.expect("no panic").assert_replays(&third);
    resume(&world, first).await.assert_replays(&third);
    call.send().await.assert_replays(&third);
    let counts = world.counts();
    assert_eq!((counts.takeovers, counts.leases_lost), (2, 2));
}

/// P-20
async fn a_lost_lease_is_told_once(world: World) {
    let lease = world.short_lease();
    let world = world
        .again(Setup {
            lease: Some(lease),
            ..Setup::default()
        })
        .await;
    let script = Script::new("pay").step(late()).then(Step::default());
    let call = world.post("/charge").key("k").script(&script);
    world.store.hold(StoreCall::Renew);
    let owner = tokio::spawn(call.clone().send());
    world.store.until_under_way(StoreCall::Renew, 1).await;
    world.advance(lease).await;
    let second = call.send().await;

    // The keeper is told first, and then the owner.
    world.store.pass(StoreCall::Renew);
    world.until(|counts| counts.leases_lost == 1).await;
    resume(&world, owner).await.assert_replays(&second);
    assert_eq!(world.counts().leases_lost, 1);
}

/// B07-03
async fn a_taken_over_key_stays_bound(world: World) {
    let script = Script::new("pay").step(late()).then(Step::default());
    let (owner, call) = paused_owner(&world, &script).await;
    let other = world.post("/charge").key("k").script(&Script::new("other"));
    other.clone().send().await.assert_refused(409, "key-reused");
    assert_eq!(call.send().await.status, 201);
    other.send().await.assert_refused(409, "key-reused");
    assert_eq!(world.app.runs("other"), 0);
    resume(&world, owner).await;
}

/// B01-06
async fn a_lapsed_key_that_must_not_run_again_is_unknown(world: World) {
    let script = Script::new("pay").step(late()).then(Step::default());
    let call = world.post("/unknown").key("k").script(&script);
    let owner = tokio::spawn(call.clone().send());
    world.app.gate("late").arrived(1).await;
    call.clone().send().await.assert_refused(409, "in-progress");
    for _ in 0..2 {
        world.advance(PAST_THE_LEASE).await;
        call.clone()
            .send()
            .await
            .assert_refused(409, "outcome-unknown");
    }
    let other = world
        .post("/unknown")
        .key("k")
        .script(&Script::new("other"));
    other.send().await.assert_refused(409, "key-reused");
    assert_eq!((world.app.runs("pay"), world.app.runs("other")), (1, 0));

    // It was only slow: now everybody knows.
    let first = resume(&world, owner).await;
    assert_eq!((first.status, first.replayed()), (201, false));
    call.send().await.assert_replays(&first);
    assert_eq!(world.app.effects("pay"), 1);
}
