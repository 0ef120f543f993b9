//! Redis, alone.

use std::{env, path::Path, process::Command, time::Duration};

use idem_services::Redis;
use redis::{AsyncCommands, RedisResult};
use tokio::{net::TcpStream, time::timeout};

use crate::Outcome;

#[tokio::test]
async fn answers() -> Outcome {
    let mut connection = Redis::shared().await.connection().await;
    let () = connection.set("answers", 1).await?;
    let value: u32 = connection.get("answers").await?;
    assert_eq!(value, 1);
    Ok(())
}

#[tokio::test]
async fn two_start_at_the_same_time() -> Outcome {
    let (one, other) = tokio::join!(Redis::start(&[]), Redis::start(&[]));
    assert_ne!(one.port(), other.port());
    assert_ne!(one.pid(), other.pid());
    let () = one.connection().await.set("key", 1).await?;
    let value: Option<u32> = other.connection().await.get("key").await?;
    assert_eq!(value, None);
    Ok(())
}

#[tokio::test]
async fn goes_by_its_configuration() -> Outcome {
    let redis = Redis::start(&[("maxmemory", "64mb"), ("save", "60 1")]).await;
    let mut connection = redis.connection().await;
    let mut config = async |name: &str| -> RedisResult<(String, String)> {
        let config = redis::cmd("CONFIG").arg("GET").arg(name).to_owned();
        config.query_async(&mut connection).await
    };
    assert_eq!(config("maxmemory").await?.1, (64 << 20).to_string());
    assert_eq!(config("save").await?.1, "60 1");
    assert_eq!(config("appendonly").await?.1, "no");
    assert_eq!(config("maxmemory-policy").await?.1, "noeviction");
    Ok(())
}

#[tokio::test]
async fn hangs_while_it_is_paused() -> Outcome {
    let redis = Redis::start(&[]).await;
    let mut connection = redis.connection().await;
    redis.pause();
    let ping = redis::cmd("PING");
    let answer = ping.query_async::<String>(&mut connection);
    tokio::pin!(answer);
    let early = timeout(Duration::from_millis(200), &mut answer).await;
    assert!(early.is_err());
    redis.resume();
    assert_eq!(answer.await?, "PONG");
    Ok(())
}

#[tokio::test]
async fn comes_back_with_what_it_wrote_to_disk() -> Outcome {
    let redis = Redis::start(&[("appendonly", "yes"), ("appendfsync", "always")]).await;
    let () = redis.connection().await.set("key", 1).await?;
    let pid = redis.pid();

    redis.kill();
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    let refused = TcpStream::connect(redis.addr()).await;
    assert!(refused.is_err());

    redis.restart().await;
    assert_ne!(redis.pid(), pid);
    let value: u32 = redis.connection().await.get("key").await?;
    assert_eq!(value, 1);
    Ok(())
}

#[tokio::test]
async fn comes_back_empty_without_a_disk() -> Outcome {
    let redis = Redis::start(&[]).await;
    let () = redis.connection().await.set("key", 1).await?;
    redis.pause();
    redis.restart().await;
    let value: Option<u32> = redis.connection().await.get("key").await?;
    assert_eq!(value, None);
    Ok(())
}

#[tokio::test]
#[should_panic(expected = "nonesuch")]
async fn says_why_it_does_not_start() {
    Redis::start(&[("nonesuch", "1")]).await;
}

#[test]
fn says_what_to_install() -> Outcome {
    let without = Command::new(env::current_exe()?)
        .args(["--exact", "redis::answers", "--nocapture"])
        .env("PATH", "/nowhere")
        .output()?;
    let said = String::from_utf8_lossy(&without.stderr);
    let wanted = "`redis-server` is not installed; it is in the Debian package `redis-server`";
    assert!(said.contains(wanted), "{said}");
    Ok(())
}

#[tokio::test]
async fn can_be_waited_for_in_a_task() -> Outcome {
    let redis = tokio::spawn(Redis::shared()).await?;
    let url = redis.url();
    tokio::spawn(async { Redis::start(&[]).await.restart().await }).await?;
    assert_eq!(Redis::shared().await.url(), url);
    Ok(())
}
