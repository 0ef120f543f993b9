//! Equal requests at the same time: one runs, and every client learns of one answer.

use std::{
    env,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use idem_tests::{
    Answer, Call, Connection, Protocol, Script, Setup, Step, Time, Workers, World, scenarios,
};
use rand::{Rng, RngExt, SeedableRng, rngs::SmallRng};

scenarios![
    second_caller_gets_409_while_first_runs,
    fifty_equal_requests_at_two_replicas_run_once,
    fifty_streams_of_one_http_2_connection_run_once,
    storms_charge_once_each,
    fifty_retries_of_a_released_key_run_once,
    fifty_retries_of_a_lapsed_key_run_once,
    fifty_requests_after_the_expiry_run_once,
    equal_requests_under_other_keys_do_not_meet,
    a_handler_that_blocks_its_thread_keeps_its_lease,
    a_handler_that_blocks_its_thread_holds_up_no_call_of_the_store,
];

/// How many equal requests come at once.
const STORM: usize = 50;

/// B01-08
async fn second_caller_gets_409_while_first_runs(world: World) {
    let script = Script::new("pay").step(gated());
    let call = world.post("/charge").key("k").script(&script);
    let first = tokio::spawn(call.clone().send());
    world.app.gate("pay").arrived(1).await;

    let second = call.clone().send().await;
    second.assert_refused(409, "in-progress");
    assert_eq!(world.app.effects("pay"), 0);

    world.app.gate("pay").open();
    let first = first.await.expect("no panic");
    assert_eq!(first.status, 201);
    call.send().await.assert_replays(&first);
    assert_eq!((world.app.runs("pay"), world.app.effects("pay")), (1, 1));
}

/// Sends equal requests at once, half of them to another replica. One of them stands at the gate
/// `pay` until each other one is refused; gives its answer, which is then replayed.
async fn one_of_fifty_runs(world: &World, script: &Script) -> Answer {
    let beside = world.beside(Setup::default()).await;
    let call = |replica: &World| replica.post("/charge").key("k").script(script);
    let mut answers = tokio::task::JoinSet::new();
    for replica in [world, &beside].into_iter().cycle().take(STORM) {
        answers.spawn(call(replica).send());
    }
    for _ in 1..STORM {
        let other = answers.join_next().await.expect("49 do not run");
        other.expect("no panic").assert_refused(409, "in-progress");
    }
    world.app.gate("pay").arrived(1).await;

    world.app.gate("pay").open();
    let own = answers.join_next().await.expect("one runs");
    let own = own.expect("no panic");
    assert_eq!((own.status, own.replayed()), (201, false));
    for replica in [world, &beside] {
        call(replica).send().await.assert_replays(&own);
    }
    own
}

fn gated() -> Step {
    Step::default().gate("pay")
}

/// B01-01, P-01
async fn fifty_equal_requests_at_two_replicas_run_once(world: World) {
    let script = Script::new("pay").step(gated());
    one_of_fifty_runs(&world, &script).await;
    assert_eq!((world.app.runs("pay"), world.app.effects("pay")), (1, 1));
}

/// B01-01, P-01
async fn fifty_streams_of_one_http_2_connection_run_once(world: World) {
    let script = Script::new("pay").step(gated());
    let call = world
        .post("/charge")
        .key("k")
        .script(&script)
        .over(Protocol::Http2);
    let mut answers = tokio::task::JoinSet::new();
    for _ in 0..STORM {
        answers.spawn(call.clone().send());
    }
    for _ in 1..STORM {
        let other = answers.join_next().await.expect("49 do not run");
        other.expect("no panic").assert_refused(409, "in-progress");
    }
    world.app.gate("pay").open();
    let own = answers.join_next().await.expect("one runs");
    call.send().await.assert_replays(&own.expect("no panic"));
    assert_eq!((world.app.runs("pay"), world.app.effects("pay")), (1, 1));
}

/// B01-01, P-01
///
/// `IDEM_STORM_SEED` repeats a run, as far as the scheduler lets it.
async fn storms_charge_once_each(world: World) {
    let seed = env::var("IDEM_STORM_SEED").ok();
    let seed = seed.and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(rand::random);
    eprintln!("IDEM_STORM_SEED={seed}");
    let mut random = SmallRng::seed_from_u64(seed);

    let beside = world.beside(Setup::default()).await;
    let mut connections = Vec::new();
    for replica in [&world, &beside].into_iter().cycle().take(STORM) {
        connections.push(replica.connect().await);
    }
    let rounds = world.rounds(1_000);
    for round in 0..rounds {
        let storm = Storm::new(&world, round, &mut random);
        let requests = connections.iter_mut().map(|connection| {
            let jitter = Duration::from_millis(random.random_range(0..3));
            storm.request(connection, jitter)
        });
        let answers = join_all(requests).await;
        assert_one_answer(&answers);
        assert_eq!(world.app.effects(&storm.line), 1, "round {round}");
    }
    assert_eq!((world.app.total(), world.counts().takeovers), (rounds, 0));
}

/// One storm: its handler answers at once, or when some of the others were refused.
struct Storm<'a> {
    world: &'a World,
    line: String,
    call: Call,
    answered: AtomicUsize,
    opens_after: usize,
}

impl<'a> Storm<'a> {
    fn new(world: &'a World, round: usize, random: &mut impl Rng) -> Self {
        let line = format!("storm {round}");
        let step = if random.random() {
            Step::default().gate(&line)
        } else {
            Step::default()
        };
        let script = Script::new(&line).step(step);
        let call = world.post("/charge").key(format!("storm-{round}"));
        Self {
            world,
            line,
            call: call.script(&script),
            answered: AtomicUsize::new(0),
            opens_after: random.random_range(1..STORM),
        }
    }

    async fn request(&self, connection: &mut Connection, jitter: Duration) -> Answer {
        tokio::time::sleep(jitter).await;
        connection.send(&self.call).await;
        let answer = connection.answer().await.expect("an answer");
        if self.answered.fetch_add(1, Ordering::Relaxed) + 1 == self.opens_after {
            self.world.app.gate(&self.line).open();
        }
        answer
    }
}

/// Exactly one is the handler's own; each other one replays it or says when to come again.
fn assert_one_answer(answers: &[Answer]) {
    let (own, others): (Vec<_>, Vec<_>) = answers
        .iter()
        .partition(|answer| answer.status == 201 && !answer.replayed());
    assert_eq!(own.len(), 1, "{answers:?}");
    for other in others {
        if other.status == 409 {
            other.assert_refused(409, "in-progress");
        } else {
            other.assert_replays(own[0]);
        }
    }
}

/// B01-01, P-01
async fn fifty_retries_of_a_released_key_run_once(world: World) {
    let failed = Step::status(503).without_effect();
    let script = Script::new("pay").step(failed).then(gated());
    let call = world.post("/charge").key("k").script(&script);
    assert_eq!(call.send().await.status, 503);

    one_of_fifty_runs(&world, &script).await;
    assert_eq!((world.app.runs("pay"), world.app.effects("pay")), (2, 1));
}

/// B01-01, P-01
async fn fifty_retries_of_a_lapsed_key_run_once(world: World) {
    let late = Step::default().gate("late").without_effect();
    let script = Script::new("pay").step(late).then(gated());
    let call = world.post("/charge").key("k").script(&script);
    let first = tokio::spawn(call.send());
    world.app.gate("late").arrived(1).await;
    world.advance(Duration::from_secs(31)).await;

    let second = one_of_fifty_runs(&world, &script).await;
    assert_eq!((world.app.runs("pay"), world.app.effects("pay")), (2, 1));
    world.app.gate("late").open();
    first.await.expect("no panic").assert_replays(&second);
}

/// B01-01, P-01
async fn fifty_requests_after_the_expiry_run_once(world: World) {
    let script = Script::new("pay").step(Step::default()).then(gated());
    let call = world.post("/charge").key("k").script(&script);
    assert_eq!(call.send().await.status, 201);
    world.advance(Duration::from_hours(24)).await;

    one_of_fifty_runs(&world, &script).await;
    assert_eq!((world.app.runs("pay"), world.app.effects("pay")), (2, 2));
}

/// B01-01
async fn equal_requests_under_other_keys_do_not_meet(world: World) {
    let script = Script::new("pay").step(gated());
    let calls = (0..STORM).map(|number| {
        let call = world
            .post("/charge")
            .key(number.to_string())
            .script(&script);
        call.send()
    });
    let answers = join_all(calls);
    let all_run = async {
        world.app.gate("pay").arrived(STORM).await;
        world.app.gate("pay").open();
    };
    let (answers, ()) = tokio::join!(answers, all_run);
    for answer in &answers {
        assert_eq!((answer.status, answer.replayed()), (201, false));
    }
    assert_eq!(world.app.effects("pay"), STORM);
}

/// Repeats a request until it is answered with a replay; gives the replay, and how often the
/// request was refused.
async fn retry(call: Call) -> (Answer, usize) {
    for refused in 0..1_000 {
        let answer = call.clone().send().await;
        if answer.replayed() {
            return (answer, refused);
        }
        answer.assert_refused(409, "in-progress");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("never replayed")
}

/// P-09, B01-07
async fn a_handler_that_blocks_its_thread_keeps_its_lease(world: World) {
    let setup = Setup {
        time: Time::Real,
        lease: Some(Duration::from_secs(1)),
        ..Setup::default()
    };
    let blocked = Setup {
        workers: Workers::One,
        ..setup.clone()
    };
    let blocked = world.again(blocked).await;
    let beside = blocked.beside(setup).await;
    let blocks = Step::default().blocks(Duration::from_secs(3));
    let script = Script::new("pay").step(blocks.gate("begun"));
    blocked.app.gate("begun").open();
    let started = Instant::now();
    let first = tokio::spawn(blocked.post("/charge").key("k").script(&script).send());
    blocked.app.gate("begun").arrived(1).await;

    let call = beside.post("/charge").key("k").script(&script);
    let (replay, refused) = retry(call).await;
    assert!(
        started.elapsed() >= Duration::from_secs(3),
        "nothing blocked"
    );
    assert!(refused > 10, "refused {refused} times");
    let first = first.await.expect("no panic");
    replay.assert_replays(&first);
    assert_eq!(
        (blocked.app.runs("pay"), blocked.app.effects("pay")),
        (1, 1)
    );
    assert_eq!(
        (beside.counts().takeovers, blocked.counts().leases_lost),
        (0, 0)
    );
}

/// P-09: the calls of others, at the same store, go on meanwhile.
async fn a_handler_that_blocks_its_thread_holds_up_no_call_of_the_store(world: World) {
    let pay = |key: String| {
        let call = world.post("/charge").key(&key);
        call.script(&Script::new(&key)).send()
    };
    // All workers have called the store, some at once.
    let warm = join_all((0..20).map(|n| pay(format!("warm-{n}")))).await;
    assert!(warm.iter().all(|answer| answer.status == 201));

    let blocks = Step::default().gate("begun").blocks(Duration::from_secs(3));
    let script = Script::new("blocks").step(blocks);
    world.app.gate("begun").open();
    let blocking = world.post("/charge").key("blocks").script(&script);
    let blocking = tokio::spawn(blocking.send());
    world.app.gate("begun").arrived(1).await;

    // Those that the blocked thread has to serve are served late, and none is refused.
    let others = join_all((0..20).map(|n| pay(format!("other-{n}")))).await;
    for answer in others {
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    assert_eq!(blocking.await.expect("no panic").status, 201);
}
