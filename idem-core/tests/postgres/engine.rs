//! A whole engine over the store.

use std::{thread, time::Duration};

use idem_core::{
    Adapter, Builder, Caller, Engine, Fingerprint, Policy, Principal, Record, RequestHead,
    Selection, StorageKey,
    adapter::{Callers, Renderer},
    engine::{Admission, Answer, Begun, Keyed, Ran, Reply},
    store::Claim,
};
use tokio::runtime;

use crate::{attempt::Attempt, cost::Statistics, subjects::postgres::Postgres};

const LEASE: Duration = Duration::from_secs(1);
static POLICY: Policy = Policy::new("pay").lease(LEASE);

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

fn engine(subject: &Postgres) -> Engine {
    let built = Builder::<Bare>::new(subject.store.clone()).build();
    built.expect("valid settings").0
}

/// A request whose handler does some work; whether it ran.
async fn request(engine: &Engine, key: &str, work: impl FnOnce() + Send + 'static) -> bool {
    let admission = engine.admit(&POLICY, "POST", || Some("/pay"), [key.as_bytes()]);
    let Admission::Keyed(admitted) = admission else {
        panic!("{admission:?}");
    };
    let request = Keyed {
        admitted,
        caller: Caller::Endpoint,
        fingerprint: Fingerprint::of(&RequestHead::new("POST", "/pay"), b"{}"),
        attempt: None,
        selection: Selection::new(),
    };
    match engine.begin(request).await {
        Begun::Claimed(claimed) => {
            let handler = async move {
                work();
                Ran {
                    record: Record::new(201, "paid"),
                    outcome: None,
                    response: (),
                }
            };
            let ran = claimed.run(handler).await;
            assert!(matches!(ran, Ok(Reply::Own(()))));
            true
        }
        Begun::Answered(Answer::Replay(_)) => false,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_costs_two_statements_and_its_retry_one() {
    let server = idem_services::Postgres::start(&[]).await;
    let subject = Postgres::at(&server.url(), |options| options).await;
    let engine = engine(&subject);
    let mut statistics = Statistics::of(&server).await;
    // The keeper connects with the first one.
    assert!(request(&engine, "warm", || {}).await);
    statistics.take().await;
    for key in ["a", "b", "c"] {
        assert!(request(&engine, key, || {}).await);
        assert_eq!(statistics.take().await, 2);
        assert!(!request(&engine, key, || {}).await);
        assert_eq!(statistics.take().await, 1);
    }
}

/// The handler blocks the only thread of the application for three of its leases.
#[test]
fn a_handler_that_blocks_every_worker_keeps_its_lease() {
    let runtime = || {
        runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime")
    };
    let application = runtime();
    let (subject, engine) = application.block_on(async {
        let subject = Postgres::new().await;
        let engine = engine(&subject);
        assert!(request(&engine, "warm", || {}).await);
        (subject, engine)
    });
    // Another replica, which looks when the first lease would have lapsed twice.
    let table = subject.table.clone();
    let (blocked, look) = std::sync::mpsc::channel();
    let replica = thread::spawn(move || {
        runtime().block_on(async move {
            let url = idem_services::Postgres::shared().await.url();
            let store = Postgres::at(&url, |options| options.with_table(table))
                .await
                .store;
            let key = Attempt::at("slow");
            let id = StorageKey::derive("", &Caller::Endpoint, "POST /pay", &key.key);
            let fingerprint = Fingerprint::of(&RequestHead::new("POST", "/pay"), b"{}");
            let retry = Attempt {
                id,
                fingerprint,
                ..key
            };
            look.recv().expect("the handler runs");
            thread::sleep(LEASE * 2);
            retry.claim(&store).await.expect("an answer")
        })
    });
    application.block_on(async {
        let work = move || {
            blocked.send(()).expect("the replica waits");
            thread::sleep(LEASE * 3);
        };
        assert!(request(&engine, "slow", work).await);
    });
    let claim = replica.join().expect("the replica looks");
    assert!(matches!(claim, Claim::InProgress { .. }), "{claim:?}");
    assert_eq!(engine.counts().leases_lost, 0);
    let replayed = application.block_on(request(&engine, "slow", || {}));
    assert!(!replayed, "it was stored");
}
