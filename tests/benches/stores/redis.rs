//! A Redis, and `GET` and `SET` over a multiplexed connection as the floor.
//!
//! The values of the floor are as long as those of the store, and so are its names.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::body::Bytes;
use idem_core::RedisStore;
use idem_services::Redis;
use redis::{Client, aio::MultiplexedConnection, cmd};

use super::{
    Asked, Backend, KEPT, What,
    stage::{ANSWER, Bare, Id, LEASE, Stage},
};

const ANSWERS: &str = "Redis answers";
/// What a name of the store has before its digest, and how long that is.
const PREFIX_LEN: usize = "idem:v1:{}".len() + 43 - 32;

pub(crate) struct Server {
    redis: Redis,
    control: MultiplexedConnection,
    sizes: Sizes,
    kept: usize,
}

/// How long a value is.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    claimed: usize,
    completed: usize,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let redis = Redis::start(&[]).await;
        let mut control = redis.connection().await;
        let mut sizes = Sizes {
            claimed: 0,
            completed: ANSWER.len(),
        };
        let stage = open(redis.url(), sizes).await;
        let _ = stage.claim(&super::id(0), KEPT).await;
        (sizes.claimed, _) = measure(&mut control).await;
        let _: () = cmd("FLUSHALL")
            .query_async(&mut control)
            .await
            .expect(ANSWERS);
        stage.first(super::Side::Ours, &super::id(0), KEPT).await;
        let kept;
        (sizes.completed, kept) = measure(&mut control).await;
        let _: () = cmd("FLUSHALL")
            .query_async(&mut control)
            .await
            .expect(ANSWERS);
        Self {
            redis,
            control,
            sizes,
            kept,
        }
    }
}

/// How long the only value is, and how many bytes Redis needs for it.
async fn measure(control: &mut MultiplexedConnection) -> (usize, usize) {
    let names: Vec<String> = cmd("KEYS")
        .arg("*")
        .query_async(control)
        .await
        .expect(ANSWERS);
    let [name] = &names[..] else {
        panic!("one record: {names:?}");
    };
    assert_eq!(name.len(), PREFIX_LEN + 32);
    let length = cmd("STRLEN").arg(name).query_async(control).await;
    let usage = cmd("MEMORY")
        .arg("USAGE")
        .arg(name)
        .query_async(control)
        .await;
    (length.expect(ANSWERS), usage.expect(ANSWERS))
}

async fn open(url: String, sizes: Sizes) -> Stage<BareRedis> {
    let store = RedisStore::connect(&url).await.expect("the store opens");
    let client = Client::open(url).expect("a url");
    let connection = client.get_multiplexed_async_connection().await;
    let padding = vec![b'.'; sizes.completed - ANSWER.len()];
    let bare = BareRedis {
        connection: connection.expect(ANSWERS),
        claimed: vec![b'.'; sizes.claimed].into(),
        completed: [&padding[..], ANSWER.as_bytes()].concat().into(),
    };
    Stage::new(Arc::new(store), bare)
}

impl Backend for Server {
    type Bare = BareRedis;

    const CASES: [(What, [&'static str; 2], f64); 2] = [
        (What::Replay, ["GET", "replay"], 0.95),
        (What::First, ["SET NX PX, SET EX", "first execution"], 0.90),
    ];

    fn headline(&self) -> String {
        format!(
            "Redis: a value of {} B when claimed, of {} B when completed, for which it keeps {} B",
            self.sizes.claimed, self.sizes.completed, self.kept
        )
    }

    fn pid(&self) -> u32 {
        self.redis.pid()
    }

    async fn settle(&mut self, _: &Stage<BareRedis>) {}

    fn open(&self) -> impl Future<Output = Stage<BareRedis>> + Send + 'static {
        open(self.redis.url(), self.sizes)
    }

    async fn asked(&mut self) -> Asked {
        let mut info = cmd("INFO");
        info.arg("commandstats");
        let told: String = info.query_async(&mut self.control).await.expect(ANSWERS);
        let calls = told.lines().filter_map(|line| {
            let (name, told) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            let calls = told.split(',').next()?.parse().ok()?;
            Some((name, calls)).filter(|(name, _)| *name != "info")
        });
        let calls: BTreeMap<&str, u64> = calls.collect();
        let all: u64 = calls.values().sum();
        // The script of a completion asks for the time, reads the record and writes it.
        let scripts = calls.get("evalsha").copied().unwrap_or_default();
        Asked {
            times: all - 3 * scripts,
            within: 3 * scripts,
            logged: 0,
        }
    }
}

#[derive(Clone)]
pub(crate) struct BareRedis {
    connection: MultiplexedConnection,
    claimed: Bytes,
    completed: Bytes,
}

impl Bare for BareRedis {
    async fn read(&self, id: &Id) -> Bytes {
        let mut connection = self.connection.clone();
        let value: Vec<u8> = cmd("GET")
            .arg(&name(id))
            .query_async(&mut connection)
            .await
            .expect(ANSWERS);
        assert_eq!(value.len(), self.completed.len());
        let value = Bytes::from(value);
        value.slice(value.len() - ANSWER.len()..)
    }

    async fn begin(&self, id: &Id) {
        let mut connection = self.connection.clone();
        let set: bool = cmd("SET")
            .arg(&name(id))
            .arg(&self.claimed[..])
            .arg("NX")
            .arg("PX")
            .arg(LEASE.as_millis())
            .query_async(&mut connection)
            .await
            .expect(ANSWERS);
        assert!(set, "the key is new");
    }

    async fn end(&self, id: &Id, ttl: Duration) {
        let mut connection = self.connection.clone();
        let _: () = cmd("SET")
            .arg(&name(id))
            .arg(&self.completed[..])
            .arg("EX")
            .arg(ttl.as_secs())
            .query_async(&mut connection)
            .await
            .expect(ANSWERS);
    }
}

fn name(id: &Id) -> [u8; PREFIX_LEN + 32] {
    let mut name = [b'-'; PREFIX_LEN + 32];
    name[PREFIX_LEN..].copy_from_slice(id);
    name
}
