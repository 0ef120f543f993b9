//! A Cluster of three primaries.

use std::{error::Error, iter::once, net::TcpListener, time::Duration};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use futures_util::future::join;
use idem_core::{
    RedisStore, RedisStoreOptions, Store,
    store::{Completion, Renewal},
};
use idem_services::{Cluster, Redis};
use tokio::time::timeout;

use crate::{
    attempt::{Attempt, completed, in_progress, paid},
    world::patient,
};

async fn connected(cluster: &Cluster, options: RedisStoreOptions) -> RedisStore {
    let urls = cluster.urls();
    let store = RedisStore::connect_cluster(urls.iter().map(String::as_str), options).await;
    store.expect("the store opens")
}

async fn tell(node: &Redis, command: &[&str]) {
    let mut order = redis::cmd(command[0]);
    order.arg(&command[1..]);
    let mut connection = node.connection().await;
    let told = order.query_async::<redis::Value>(&mut connection).await;
    told.expect("it obeys");
}

/// The keys of one call may lie anywhere, and each is sent to where it lies.
#[tokio::test]
async fn leases_on_all_nodes_are_renewed_in_one_call() {
    let cluster = Cluster::start(&[]).await;
    let store = connected(&cluster, patient()).await;
    let mut attempts = Vec::new();
    for _ in 0..40 {
        let mut attempt = Attempt::fresh();
        attempt.acquire(&store).await;
        attempts.push(attempt);
    }
    // One node has forgotten its scripts.
    tell(&cluster.nodes()[1], &["SCRIPT", "FLUSH"]).await;
    let leases: Vec<_> = attempts.iter().map(Attempt::as_lease).collect();
    let renewals = store.renew(&leases).await.expect("it answers");
    assert_eq!(renewals.len(), 40);
    let renewed = |renewal: &Renewal| matches!(renewal, Renewal::Renewed { .. });
    assert!(renewals.iter().all(renewed), "{renewals:?}");
    for attempt in &attempts {
        assert_eq!(attempt.complete(&store, &paid()).await, Completion::Stored);
    }
    for node in cluster.nodes() {
        let mut connection = node.connection().await;
        let size = redis::cmd("DBSIZE");
        let size = size.query_async::<usize>(&mut connection).await;
        assert!(size.expect("it counts") > 0);
    }
}

/// A slot moves to another node while its records are claimed and completed.
#[tokio::test]
async fn records_whose_slot_moves_are_found() {
    let cluster = Cluster::start(&[]).await;
    let store = connected(&cluster, patient()).await;
    let (mut running, mut done) = (Attempt::fresh(), Attempt::fresh());
    let granted = running.acquire(&store).await;
    done.acquire(&store).await;
    assert_eq!(done.complete(&store, &paid()).await, Completion::Stored);

    for attempt in [&running, &done] {
        let slot = cluster.slot_of(&name(attempt)).await;
        let to = (cluster.owner(slot).await + 1) % 3;
        let migration = cluster.begin_migration(slot, to).await;
        // Not moved yet, and moved while the old node still answers for the slot.
        let _ = attempt.rival().claim(&store).await;
        migration.move_keys().await;
        let _ = attempt.rival().claim(&store).await;
        migration.finish().await;
    }
    assert_eq!(in_progress(running.rival().claim(&store).await).0, granted);
    assert_eq!(running.complete(&store, &paid()).await, Completion::Stored);
    assert_eq!(completed(done.rival().claim(&store).await), paid());
}

fn name(attempt: &Attempt) -> String {
    let id = URL_SAFE_NO_PAD.encode(attempt.key().as_bytes());
    format!("idem:v1:{{{id}}}")
}

/// The node of the key is asked, and not whichever comes first.
#[tokio::test]
async fn replicas_are_waited_for_on_the_node_of_the_key() {
    let cluster = Cluster::start(&[]).await;
    let options = patient().with_wait_replicas(1, Duration::from_millis(100));
    let store = connected(&cluster, options).await;
    for _ in 0..5 {
        let claim = Attempt::fresh().try_claim(&store).await;
        let error = claim.expect_err("there are none");
        let cause = error.source().expect("a cause").to_string();
        assert_eq!(cause, "0 of 1 replicas acknowledged");
    }
}

#[tokio::test]
async fn a_node_of_a_cluster_is_no_server_of_its_own() {
    let cluster = Cluster::start(&[]).await;
    let refused = RedisStore::connect(&cluster.urls()[0]).await;
    let error = refused.expect_err("it is a node of a Cluster").to_string();
    assert!(error.contains("Cluster"), "{error}");
}

#[tokio::test]
async fn a_node_that_starts_again_is_found_again() {
    let cluster = Cluster::start(&[]).await;
    let store = connected(&cluster, patient()).await;
    cluster.nodes()[0].restart().await;
    cluster.until_ok().await;
    // Some of these are on that node.
    for _ in 0..20 {
        let mut attempt = Attempt::fresh();
        // It may take a call to notice.
        let _ = attempt.try_claim(&store).await;
        attempt.acquire(&store).await;
        assert_eq!(attempt.complete(&store, &paid()).await, Completion::Stored);
    }
}

/// A node is gone for good: its slots are lost, and those of the others are not.
#[tokio::test]
async fn a_node_that_is_down_costs_its_own_slots_only() {
    let cluster = Cluster::start(&[("cluster-require-full-coverage", "no")]).await;
    let limit = Duration::from_secs(2);
    let store = connected(&cluster, patient().with_timeout(limit)).await;
    let mut attempts = Vec::new();
    for _ in 0..12 {
        let attempt = Attempt::fresh();
        let owner = cluster.owner(cluster.slot_of(&name(&attempt)).await).await;
        attempts.push((attempt, owner));
    }
    cluster.nodes()[0].kill();
    for _ in 0..3 {
        for (attempt, owner) in &attempts {
            let claim = attempt.try_claim(&store).await;
            // The first call may meet a connection that is on its way out.
            let claim = if claim.is_err() && *owner != 0 {
                attempt.try_claim(&store).await
            } else {
                claim
            };
            assert_eq!(claim.is_ok(), *owner != 0, "{owner}: {claim:?}");
        }
    }
    let other = store.reopen().await.expect("two of three are there");
    for (attempt, owner) in &attempts {
        if *owner != 0 {
            in_progress(attempt.rival().claim(&*other).await);
        }
    }
}

/// What the others say counts, and each has the same time for it.
#[tokio::test]
async fn a_silent_node_costs_no_lease_of_another() {
    let cluster = Cluster::start(&[("cluster-require-full-coverage", "no")]).await;
    let store = connected(&cluster, RedisStoreOptions::default()).await;
    // More than are renewed in one go.
    let mut attempts: Vec<_> = (0..600).map(|_| Attempt::fresh()).collect();
    for attempt in &mut attempts {
        attempt.acquire(&store).await;
    }
    cluster.nodes()[0].pause();
    let leases: Vec<_> = attempts.iter().map(Attempt::as_lease).collect();
    let renewals = store.renew(&leases).await.expect("two of three answer");
    assert_eq!(renewals.len(), 600);
    let count = |of: fn(&Renewal) -> bool| renewals.iter().filter(|it| of(it)).count();
    let renewed = count(|renewal| matches!(renewal, Renewal::Renewed { .. }));
    let unanswered = count(|renewal| matches!(renewal, Renewal::Unanswered));
    // Each node has a third of the slots.
    assert_eq!(renewed + unanswered, 600);
    assert!((300..500).contains(&renewed), "{renewed}");

    for node in &cluster.nodes()[1..] {
        node.pause();
    }
    store.renew(&leases).await.expect_err("nobody answers");
}

/// The slots of a silent node are given to another one, and it never says goodbye.
#[tokio::test]
async fn slots_that_another_node_took_over_are_found() {
    let cluster = Cluster::start(&[("cluster-require-full-coverage", "no")]).await;
    let store = connected(&cluster, RedisStoreOptions::default()).await;
    let attempts = on_all_nodes(&cluster).await;
    let (attempt, _) = attempts.iter().find(|(_, owner)| *owner == 0).expect("one");
    let slot = cluster.slot_of(&name(attempt)).await.to_string();
    cluster.nodes()[0].pause();
    let mut successor = cluster.nodes()[1].connection().await;
    let mut id = redis::cmd("CLUSTER");
    id.arg("MYID");
    let id: String = id.query_async(&mut successor).await.expect("it has a name");
    for node in &cluster.nodes()[1..] {
        tell(node, &["CLUSTER", "SETSLOT", &slot, "NODE", &id]).await;
    }
    let found = async { while attempt.try_claim(&store).await.is_err() {} };
    let found = timeout(Duration::from_secs(40), found).await;
    found.expect("the other node is asked");
}

/// Some attempts with the number of the node that serves each, of all nodes.
async fn on_all_nodes(cluster: &Cluster) -> Vec<(Attempt, usize)> {
    let mut attempts = Vec::new();
    for _ in 0..12 {
        let attempt = Attempt::fresh();
        let owner = cluster.owner(cluster.slot_of(&name(&attempt)).await).await;
        attempts.push((attempt, owner));
    }
    attempts
}

/// Claims all that the first node does not serve, each in time.
async fn others_answer(store: &dyn Store, attempts: &[(Attempt, usize)]) {
    for (attempt, _) in attempts.iter().filter(|(_, owner)| *owner != 0) {
        let _ = attempt.claim(store).await;
    }
}

/// Claims one that the first node serves, until it answers.
async fn comes_back(store: &dyn Store, attempts: &[(Attempt, usize)]) {
    let (attempt, _) = attempts.iter().find(|(_, owner)| *owner == 0).expect("one");
    for _ in 0..20 {
        if attempt.try_claim(store).await.is_ok() {
            return;
        }
    }
    panic!("the slots of the first node do not come back");
}

/// A node hangs, and refuses nothing: whoever asks it waits in vain.
#[tokio::test]
async fn a_node_that_is_silent_costs_its_own_slots_only() {
    let cluster = Cluster::start(&[("cluster-require-full-coverage", "no")]).await;
    let store = connected(&cluster, RedisStoreOptions::default()).await;
    let attempts = on_all_nodes(&cluster).await;
    cluster.nodes()[0].pause();
    for _ in 0..3 {
        let (of_the_first, _) = attempts.iter().find(|(_, owner)| *owner == 0).expect("one");
        let claim = of_the_first.try_claim(&store).await;
        claim.expect_err("its node does not answer");
        others_answer(&store, &attempts).await;
    }
    let reopened = store.reopen().await.expect("two of three answer");
    others_answer(&*reopened, &attempts).await;
    cluster.nodes()[0].resume();
    comes_back(&store, &attempts).await;
    comes_back(&*reopened, &attempts).await;
}

/// A connection lives in the runtime that made it; another runtime makes another.
#[test]
fn a_store_over_a_cluster_outlives_its_runtime() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().expect("a runtime")
    };
    let first = runtime();
    let (cluster, store) = first.block_on(async {
        let cluster = Cluster::start(&[]).await;
        let store = connected(&cluster, RedisStoreOptions::default()).await;
        (cluster, store)
    });
    drop(first);
    runtime().block_on(async {
        let found = async { while Attempt::fresh().try_claim(&store).await.is_err() {} };
        let found = timeout(Duration::from_secs(10), found).await;
        found.expect("it connects anew");
    });
    drop(cluster);
}

#[tokio::test]
async fn a_store_connects_while_a_node_or_a_seed_is_silent() {
    let cluster = Cluster::start(&[("cluster-require-full-coverage", "no")]).await;
    let attempts = on_all_nodes(&cluster).await;
    // Connections are made to it, and nobody ever reads from them.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = format!("redis://{}/", listener.local_addr().expect("an address"));
    cluster.nodes()[0].pause();
    let urls = cluster.urls();
    let urls = once(silent.as_str()).chain(urls.iter().map(String::as_str));
    let store = RedisStore::connect_cluster(urls, RedisStoreOptions::default()).await;
    let store = store.expect("two of three answer");
    others_answer(&store, &attempts).await;
    // Nor do those who ask for its slots hold the others up for too long.
    let (lost, _) = attempts.iter().find(|(_, owner)| *owner == 0).expect("one");
    let in_vain = async {
        for _ in 0..3 {
            let claim = lost.try_claim(&store).await;
            claim.expect_err("its node does not answer");
        }
    };
    join(in_vain, async {
        for _ in 0..5 {
            others_answer(&store, &attempts).await;
        }
    })
    .await;
    cluster.nodes()[0].resume();
    comes_back(&store, &attempts).await;
}
