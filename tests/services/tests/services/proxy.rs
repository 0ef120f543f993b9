//! The proxy, in front of a server that repeats each line.

use std::{net::SocketAddr, time::Duration};

use idem_services::{
    Direction::{ToClient, ToServer},
    Proxy, Redis,
};
use redis::AsyncCommands;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::{Instant, timeout},
};

use crate::Outcome;

const SHORT: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_secs(10);

/// A server that answers `hello` with `HELLO`, and says what it was sent on all connections.
async fn shouting() -> std::io::Result<(SocketAddr, mpsc::UnboundedReceiver<String>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let addr = listener.local_addr()?;
    let (heard, hearing) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let heard = heard.clone();
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                let mut line = String::new();
                while stream.read_line(&mut line).await.is_ok_and(|read| read > 0) {
                    let _ = heard.send(line.clone());
                    let _ = stream.write_all(line.to_uppercase().as_bytes()).await;
                    line.clear();
                }
            });
        }
    });
    Ok((addr, hearing))
}

/// What a client reads until its connection is closed.
async fn rest(client: &mut TcpStream) -> String {
    let mut rest = Vec::new();
    let closed = timeout(LONG, client.read_to_end(&mut rest)).await;
    // A connection that is reset is closed as well.
    assert!(closed.is_ok(), "it is still open, after {rest:?}");
    String::from_utf8_lossy(&rest).into_owned()
}

async fn answer(client: &mut TcpStream, request: &str) -> std::io::Result<String> {
    client.write_all(request.as_bytes()).await?;
    let mut answer = vec![0; request.len()];
    timeout(LONG, client.read_exact(&mut answer)).await??;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[tokio::test]
async fn passes_and_counts() -> Outcome {
    let (server, _heard) = shouting().await?;
    let proxy = Proxy::start(server);
    let mut one = TcpStream::connect(proxy.addr()).await?;
    let mut other = TcpStream::connect(proxy.addr()).await?;
    assert_eq!(answer(&mut one, "hello\n").await?, "HELLO\n");
    assert_eq!(answer(&mut other, "you\n").await?, "YOU\n");
    assert_eq!(proxy.connections(), 2);
    assert_eq!(proxy.bytes(ToServer), 10);
    assert_eq!(proxy.bytes(ToClient), 10);
    proxy.until_open(2).await;
    drop(one);
    proxy.until_open(1).await;
    Ok(())
}

#[tokio::test]
async fn passes_a_great_deal() -> Outcome {
    let (server, _heard) = shouting().await?;
    let proxy = Proxy::start(server);
    let mut client = TcpStream::connect(proxy.addr()).await?;
    let mut line = "x".repeat(3 << 20);
    line.push('\n');
    assert_eq!(answer(&mut client, &line).await?, line.to_uppercase());
    Ok(())
}

#[tokio::test]
async fn passes_the_end_of_one_direction() -> Outcome {
    let (server, mut heard) = shouting().await?;
    let proxy = Proxy::start(server);
    let mut client = TcpStream::connect(proxy.addr()).await?;
    client.write_all(b"hello").await?;
    client.shutdown().await?;
    assert_eq!(rest(&mut client).await, "HELLO");
    assert_eq!(heard.recv().await.as_deref(), Some("hello"));
    proxy.until_open(0).await;
    Ok(())
}

#[tokio::test]
async fn delays_until_it_passes_again() -> Outcome {
    let (server, mut heard) = shouting().await?;
    let proxy = Proxy::start(server);
    let mut client = TcpStream::connect(proxy.addr()).await?;

    proxy.delay(ToServer, SHORT);
    let start = Instant::now();
    assert_eq!(answer(&mut client, "hello\n").await?, "HELLO\n");
    assert!(start.elapsed() >= SHORT);
    heard.recv().await;

    proxy.pass();
    proxy.delay(ToClient, Duration::from_hours(1));
    client.write_all(b"anyone?\n").await?;
    assert_eq!(heard.recv().await.as_deref(), Some("anyone?\n"));
    proxy.struck().await;
    proxy.pass();
    let mut late = [0; 8];
    timeout(LONG, client.read_exact(&mut late)).await??;
    assert_eq!(&late, b"ANYONE?\n");
    Ok(())
}

#[tokio::test]
async fn cuts_a_request() -> Outcome {
    let (server, mut heard) = shouting().await?;
    let proxy = Proxy::start(server);
    let mut client = TcpStream::connect(proxy.addr()).await?;
    let mut bystander = TcpStream::connect(proxy.addr()).await?;
    answer(&mut client, "hello\n").await?;
    heard.recv().await;

    proxy.cut_after(ToServer, 3);
    client.write_all(b"hello\n").await?;
    proxy.struck().await;
    assert_eq!(heard.recv().await.as_deref(), Some("hel"));
    assert_eq!(rest(&mut client).await, "");

    assert_eq!(answer(&mut bystander, "me?\n").await?, "ME?\n");
    Ok(())
}

#[tokio::test]
async fn cuts_a_reply() -> Outcome {
    let (server, _heard) = shouting().await?;
    let proxy = Proxy::start(server);
    let mut client = TcpStream::connect(proxy.addr()).await?;

    proxy.cut_after(ToClient, 9);
    assert_eq!(answer(&mut client, "hello\n").await?, "HELLO\n");
    client.write_all(b"hello\n").await?;
    assert_eq!(rest(&mut client).await, "HEL");
    proxy.struck().await;

    let mut client = TcpStream::connect(proxy.addr()).await?;
    assert_eq!(answer(&mut client, "hello\n").await?, "HELLO\n");
    Ok(())
}

#[tokio::test]
async fn drops_replies_and_stays_connected() -> Outcome {
    let (server, mut heard) = shouting().await?;
    let proxy = Proxy::start(server);
    let mut client = TcpStream::connect(proxy.addr()).await?;

    proxy.drop_replies();
    client.write_all(b"lost\n").await?;
    proxy.struck().await;
    assert_eq!(heard.recv().await.as_deref(), Some("lost\n"));
    assert!(timeout(SHORT, client.read_u8()).await.is_err());

    proxy.pass();
    assert_eq!(answer(&mut client, "hello\n").await?, "HELLO\n");
    assert_eq!(proxy.bytes(ToClient), 6);
    Ok(())
}

#[tokio::test]
async fn closes_instead_of_a_reply() -> Outcome {
    let redis = Redis::start(&[]).await;
    let proxy = Proxy::start(redis.addr());
    let client = redis::Client::open(proxy.url(&redis.url()))?;
    let mut through = client.get_multiplexed_async_connection().await?;
    let () = through.set("key", 1).await?;

    proxy.close_on_reply();
    let lost: redis::RedisResult<u32> = through.incr("key", 1).await;
    assert!(lost.is_err());
    proxy.struck().await;

    let value: u32 = redis.connection().await.get("key").await?;
    assert_eq!(value, 2);
    let mut again = client.get_multiplexed_async_connection().await?;
    let value: u32 = again.incr("key", 1).await?;
    assert_eq!(value, 3);
    Ok(())
}

#[tokio::test]
async fn closes_all_and_accepts_more() -> Outcome {
    let (server, _heard) = shouting().await?;
    let proxy = Proxy::start(server);
    let mut client = TcpStream::connect(proxy.addr()).await?;
    answer(&mut client, "hello\n").await?;
    proxy.close_all();
    assert_eq!(rest(&mut client).await, "");
    let mut client = TcpStream::connect(proxy.addr()).await?;
    assert_eq!(answer(&mut client, "hello\n").await?, "HELLO\n");
    Ok(())
}

#[tokio::test]
async fn refuses_until_it_passes_again() -> Outcome {
    let (server, _heard) = shouting().await?;
    let proxy = Proxy::start(server);
    let mut client = TcpStream::connect(proxy.addr()).await?;
    answer(&mut client, "hello\n").await?;

    proxy.refuse();
    assert!(TcpStream::connect(proxy.addr()).await.is_err());
    assert_eq!(rest(&mut client).await, "");
    proxy.refuse();

    proxy.pass();
    let mut client = TcpStream::connect(proxy.addr()).await?;
    assert_eq!(answer(&mut client, "hello\n").await?, "HELLO\n");

    let addr = proxy.addr();
    drop(proxy);
    assert!(TcpStream::connect(addr).await.is_err());
    Ok(())
}

#[test]
fn outlives_the_runtime_of_its_first_test() -> Outcome {
    let (server, kept) = (
        std::net::TcpListener::bind("127.0.0.1:0")?,
        tokio::runtime::Runtime::new()?,
    );
    let target = server.local_addr()?;
    let proxy = kept.block_on(async { Proxy::start(target) });
    drop(kept);
    std::net::TcpStream::connect(proxy.addr())?;
    server.accept()?;
    Ok(())
}
