//! The store does what it is asked, and its reply is lost.

use std::time::Duration;

use idem_services::{Direction, Proxy};
use idem_tests::{Script, Setup, Step, StoreKind, World};

use crate::{Own, on_both, service};

on_both![
    the_claim_whose_reply_was_lost_goes_on_as_the_owner,
    the_claim_whose_reply_never_came_goes_on_as_the_owner,
    the_outcome_whose_reply_was_lost_is_stored_once,
    the_release_whose_reply_was_lost_is_done_once,
    a_connection_cut_in_the_middle_of_a_call_costs_nobody_anything,
];

/// A service that reaches its store through a proxy, with a connection that is known to work.
async fn through_a_proxy(kind: StoreKind) -> (Own, Proxy, World) {
    let own = Own::start(kind).await;
    let proxy = Proxy::start(own.addr());
    let world = service(kind, &proxy.url(&own.url()), Setup::default()).await;
    let warm = world
        .post("/charge")
        .key("warm")
        .script(&Script::new("warm"));
    assert_eq!(warm.send().await.status, 201);
    (own, proxy, world)
}

/// B01-02
async fn the_claim_whose_reply_was_lost_goes_on_as_the_owner(kind: StoreKind) {
    let (_own, proxy, world) = through_a_proxy(kind).await;
    let call = world.post("/charge").key("k").script(&Script::new("pay"));
    proxy.close_on_reply();
    let first = call.clone().send().await;
    proxy.struck().await;
    assert_eq!((first.status, first.replayed()), (201, false));
    call.send().await.assert_replays(&first);
    assert_eq!((world.app.runs("pay"), world.counts().takeovers), (1, 0));
}

/// B01-02: the connection stays open, and says nothing.
async fn the_claim_whose_reply_never_came_goes_on_as_the_owner(kind: StoreKind) {
    let (_own, proxy, world) = through_a_proxy(kind).await;
    let call = world.post("/charge").key("k").script(&Script::new("pay"));
    proxy.drop_replies();
    let sending = tokio::spawn(call.clone().send());
    proxy.struck().await;
    proxy.close_all();
    proxy.pass();
    let first = sending.await.expect("no panic");
    assert_eq!((first.status, first.replayed()), (201, false));
    call.send().await.assert_replays(&first);
    assert_eq!((world.app.runs("pay"), world.counts().takeovers), (1, 0));
}

/// B01-02
async fn the_outcome_whose_reply_was_lost_is_stored_once(kind: StoreKind) {
    let (_own, proxy, world) = through_a_proxy(kind).await;
    let script = Script::new("pay").step(Step::default().gate("paid"));
    let call = world.post("/charge").key("k").script(&script);
    let paying = tokio::spawn(call.clone().send());
    world.app.gate("paid").arrived(1).await;
    proxy.close_on_reply();
    world.app.gate("paid").open();
    let first = paying.await.expect("no panic");
    proxy.struck().await;
    assert_eq!((first.status, first.replayed()), (201, false));
    call.send().await.assert_replays(&first);
    let counts = world.counts();
    assert_eq!(
        (
            world.app.runs("pay"),
            counts.leases_lost,
            counts.completions_lost
        ),
        (1, 0, 0)
    );
}

/// B07-04: the key is free at once.
async fn the_release_whose_reply_was_lost_is_done_once(kind: StoreKind) {
    let (_own, proxy, world) = through_a_proxy(kind).await;
    let failing = Step::status(503).gate("failed");
    let script = Script::new("pay").step(failing).then(Step::default());
    let call = world.post("/charge").key("k").script(&script);
    let failing = tokio::spawn(call.clone().send());
    world.app.gate("failed").arrived(1).await;
    proxy.close_on_reply();
    world.app.gate("failed").open();
    assert_eq!(failing.await.expect("no panic").status, 503);
    proxy.struck().await;
    let second = call.send().await;
    assert_eq!((second.status, second.replayed()), (201, false));
    assert_eq!((world.app.runs("pay"), world.counts().leases_lost), (2, 0));
}

/// B04-05, B05-01: whatever byte it is, the next calls are whole.
async fn a_connection_cut_in_the_middle_of_a_call_costs_nobody_anything(kind: StoreKind) {
    let (_own, proxy, world) = through_a_proxy(kind).await;
    let script = Script::new("pay");
    let call = |key: String| world.post("/charge").key(key).script(&script);
    let mut answers = Vec::new();
    for bytes in (0..400).step_by(20) {
        for direction in [Direction::ToServer, Direction::ToClient] {
            proxy.cut_after(direction, bytes);
            let key = format!("{direction:?}-{bytes}");
            answers.push((key.clone(), call(key).send().await));
        }
    }
    proxy.pass();
    for (key, answer) in &answers {
        assert_eq!((answer.status, answer.replayed()), (201, false), "{key}");
        call(key.clone()).send().await.assert_replays(answer);
    }
    assert_eq!(world.app.runs("pay"), answers.len());
    assert_eq!(world.drain(Duration::from_secs(10)).await.left, 0);
}
