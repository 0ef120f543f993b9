//! Redis with replicas: failover by hand and by a sentinel, and the cluster.

use std::time::Duration;

use idem_services::{Cluster, Direction::ToClient, Redis, Replicated, Sentinel};
use redis::{AsyncCommands, RedisResult, cmd};

use crate::Outcome;

#[tokio::test]
async fn a_replica_has_what_it_acknowledged() -> Outcome {
    let pair = Replicated::start(&[]).await;
    let mut primary = pair.primary().connection().await;
    let () = primary.set("key", 1).await?;
    let replicas: usize = cmd("WAIT")
        .arg(1)
        .arg(10_000)
        .query_async(&mut primary)
        .await?;
    assert_eq!(replicas, 1);
    let mut replica = pair.replica().connection().await;
    let value: u32 = replica.get("key").await?;
    assert_eq!(value, 1);

    let refused: RedisResult<()> = replica.set("key", 2).await;
    assert!(refused.is_err());
    pair.promote().await;
    let () = replica.set("key", 2).await?;
    Ok(())
}

#[tokio::test]
async fn a_replica_that_lags_is_promoted_without_the_last_write() -> Outcome {
    let pair = Replicated::start(&[]).await;
    pair.link().delay(ToClient, Duration::from_hours(1));
    let () = pair.primary().connection().await.set("key", 1).await?;
    pair.link().struck().await;
    pair.primary().kill();
    pair.promote().await;
    let value: Option<u32> = pair.replica().connection().await.get("key").await?;
    assert_eq!(value, None);
    Ok(())
}

#[tokio::test]
async fn the_sentinel_names_another_primary_once_the_first_is_killed() -> Outcome {
    let trio = Sentinel::start(&[]).await;
    assert_eq!(trio.master().await, trio.primary().addr());
    let () = trio.primary().connection().await.set("key", 1).await?;
    trio.primary().kill();
    trio.until_master(trio.replica()).await;
    assert_eq!(trio.master().await, trio.replica().addr());
    let () = trio.replica().connection().await.set("key", 2).await?;
    Ok(())
}

async fn get(node: &Redis, key: &str) -> RedisResult<Option<u32>> {
    node.connection().await.get(key).await
}

/// The name of the error by which a node sends its client to another one.
fn redirection(answer: RedisResult<Option<u32>>) -> Option<String> {
    let error = answer.err()?;
    error.code().map(ToOwned::to_owned)
}

#[tokio::test]
async fn the_cluster_serves_the_keys_of_each_node() -> Outcome {
    let cluster = Cluster::start(&[]).await;
    let mut owners = Vec::new();
    for key in ["a", "b", "c"] {
        let owner = cluster.owner(cluster.slot_of(key).await).await;
        owners.push(owner);
        for (number, node) in cluster.nodes().iter().enumerate() {
            let set: RedisResult<()> = node.connection().await.set(key, 1).await;
            assert_eq!(set.is_ok(), number == owner, "{key} on {number}");
        }
    }
    owners.sort_unstable();
    owners.dedup();
    assert_eq!(owners, [0, 1, 2]);
    Ok(())
}

#[tokio::test]
async fn a_slot_moves_step_by_step() -> Outcome {
    let cluster = Cluster::start(&[]).await;
    let slot = cluster.slot_of("{tag}").await;
    let from = cluster.owner(slot).await;
    let to = (from + 1) % 3;
    let [old, new] = [from, to].map(|number| &cluster.nodes()[number]);
    let () = old.connection().await.set("{tag}here", 1).await?;

    let migration = cluster.begin_migration(slot, to).await;
    assert_eq!(get(old, "{tag}here").await?, Some(1));
    assert_eq!(
        redirection(get(old, "{tag}new").await).as_deref(),
        Some("ASK")
    );
    assert_eq!(
        redirection(get(new, "{tag}new").await).as_deref(),
        Some("MOVED")
    );

    migration.move_keys().await;
    assert_eq!(
        redirection(get(old, "{tag}here").await).as_deref(),
        Some("ASK")
    );

    migration.finish().await;
    assert_eq!(cluster.owner(slot).await, to);
    assert_eq!(get(new, "{tag}here").await?, Some(1));
    assert_eq!(
        redirection(get(old, "{tag}here").await).as_deref(),
        Some("MOVED")
    );

    cluster.migrate_slot(slot, from).await;
    assert_eq!(get(old, "{tag}here").await?, Some(1));
    Ok(())
}

#[tokio::test]
async fn a_node_of_the_cluster_comes_back() -> Outcome {
    let cluster = Cluster::start(&[]).await;
    cluster.nodes()[1].restart().await;
    cluster.until_ok().await;
    Ok(())
}
