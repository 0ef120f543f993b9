//! The isolation level that a database has by default changes no answer.

use std::sync::Arc;

use idem_core::{
    Store,
    store::{Claim, Completion},
};
use tokio::{sync::Barrier, task::JoinSet};

use crate::{
    attempt::{Attempt, completed, record},
    subjects::postgres::Postgres,
};

/// The subject in a database of this level.
async fn at(level: &str) -> Postgres {
    let name = format!("d_{:032x}", rand::random::<u128>());
    let server = idem_services::Postgres::shared().await;
    let settings = [("default_transaction_isolation", level)];
    Postgres::at(&server.create_database(&name, &settings).await, |it| it).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_has_a_typed_answer_at_every_level() {
    for level in ["read committed", "repeatable read", "serializable"] {
        let subject = at(level).await;
        let store = &subject.store;
        let mut first = Attempt::fresh();
        let grant = first.acquire(store).await;
        let busy = first.rival().claim(store).await.expect("the store answers");
        assert!(
            matches!(busy, Claim::InProgress { grant: of, .. } if of == grant),
            "{level}: {busy:?}"
        );
        let done = first.complete(store, &record("paid")).await;
        assert_eq!(done.expect("the store answers"), Completion::Stored);
        let replay = first.rival().claim(store).await.expect("the store answers");
        assert_eq!(replay, completed(&record("paid")), "{level}");

        subject
            .execute("UPDATE {} SET expires_at = now() - interval '1 s'")
            .await;
        assert_eq!(first.rival().acquire(store).await.attempt, 1, "{level}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_serialization_failure_reaches_the_caller() {
    const CLAIMS: usize = 50;
    for level in ["repeatable read", "serializable"] {
        let subject = Arc::new(at(level).await);
        for same in [true, false] {
            let (first, start) = (Attempt::fresh(), Arc::new(Barrier::new(CLAIMS)));
            let mut claims = JoinSet::new();
            for _ in 0..CLAIMS {
                let mut attempt = if same {
                    first.rival()
                } else {
                    Attempt::fresh()
                };
                let (subject, start) = (Arc::clone(&subject), Arc::clone(&start));
                claims.spawn(async move {
                    start.wait().await;
                    let claim = attempt.claim(&subject.store).await.expect("an answer");
                    let Claim::Acquired { grant } = claim else {
                        let lost =
                            matches!(claim, Claim::InProgress { .. } | Claim::Completed { .. });
                        assert!(lost, "{claim:?}");
                        return false;
                    };
                    attempt.grant = Some(grant);
                    let renewal = attempt.renew(&subject.store).await;
                    let _ = renewal.expect("an answer");
                    let done = attempt.complete(&subject.store, &record("paid")).await;
                    assert_eq!(done.expect("an answer"), Completion::Stored);
                    true
                });
            }
            let won = claims.join_all().await.into_iter().filter(|won| *won);
            assert_eq!(won.count(), if same { 1 } else { CLAIMS }, "{level}");
        }
        let purged = subject.store.purge(10).await;
        assert_eq!(purged.expect("an answer"), 0);
    }
}
