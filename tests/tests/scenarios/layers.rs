//! The engine among tower layers and in nested routers. All of it is about axum and tower, so that
//! it stands apart from the matrix of frameworks and stores.

use std::{
    fmt::Debug,
    future::{Ready, ready},
    io::Read,
    net::SocketAddr,
    task::{Context, Poll},
};

use axum::{Router, extract::DefaultBodyLimit};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use futures_util::{FutureExt, future::join_all};
use http::Request;
use idem_axum::{Idempotency, MemoryStore};
use idem_tests::{
    Answer, Call, Connection, Protocol, Script, Step, app::App, axum_app, script::Body,
};
use tokio::task::JoinHandle;
use tower::{
    Layer, Service, ServiceBuilder, ServiceExt, buffer::BufferLayer, limit::ConcurrencyLimitLayer,
};
use tower_http::{compression::CompressionLayer, limit::RequestBodyLimitLayer};

/// A running application and its client.
struct Served {
    addr: SocketAddr,
    server: JoinHandle<()>,
}

impl Served {
    /// Serves a router that has its engine.
    async fn start(router: Router) -> Self {
        idem_tests::logs::listen();
        let (addr, server) = axum_app::serve(axum_app::outside(router)).await;
        Self { addr, server }
    }

    fn post(&self, path: &str) -> Call {
        Call::new(reqwest::Client::new(), self.addr, "POST", path)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn engine() -> Idempotency {
    Idempotency::new(MemoryStore::new())
}

/// A service that reserves a place in `poll_ready`, as limits and buffers do; a clone has none.
#[derive(Debug, Default)]
struct Reserving {
    reserved: bool,
    full: bool,
}

impl Clone for Reserving {
    fn clone(&self) -> Self {
        Self {
            reserved: false,
            ..*self
        }
    }
}

impl Service<Request<()>> for Reserving {
    type Response = ();
    type Error = &'static str;
    type Future = Ready<Result<(), &'static str>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        if self.full {
            return Poll::Pending;
        }
        self.reserved = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        assert!(self.reserved, "called without a place");
        self.reserved = false;
        let installed = request.extensions().get::<Idempotency>();
        ready(installed.map(|_| ()).ok_or("no engine"))
    }
}

/// P-16
#[tokio::test]
async fn the_layer_calls_the_service_that_said_it_was_ready() {
    assert_serves(engine().layer(Reserving::default())).await;
}

/// P-16
#[tokio::test]
async fn a_buffer_lives_inside_and_outside() {
    let inside = ServiceBuilder::new()
        .layer(engine())
        .layer(BufferLayer::new(1));
    assert_serves(inside.service(Reserving::default())).await;
    let outside = ServiceBuilder::new()
        .layer(BufferLayer::new(1))
        .layer(engine());
    assert_serves(outside.service(Reserving::default())).await;
}

/// That it takes requests, one after another, and its clones too.
async fn assert_serves<S>(service: S)
where
    S: Service<Request<()>, Error: Debug> + Clone,
{
    for mut service in [service.clone(), service] {
        for _ in 0..3 {
            let ready = service.ready().await.expect("no error");
            ready.call(Request::new(())).await.expect("an engine");
        }
    }
}

/// P-16
#[tokio::test]
async fn the_layer_is_no_readier_than_its_service() {
    let full = Reserving {
        full: true,
        ..Reserving::default()
    };
    let mut service = engine().layer(full);
    assert!(service.ready().now_or_never().is_none());
}

/// P-16
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_concurrency_limit_lives_inside_and_outside() {
    // A limit panics when it is called without a place.
    for router in [
        |app: &App| {
            let layers = ServiceBuilder::new()
                .layer(engine())
                .layer(ConcurrencyLimitLayer::new(2));
            axum_app::router(app).layer(layers)
        },
        |app: &App| {
            let layers = ServiceBuilder::new()
                .layer(ConcurrencyLimitLayer::new(2))
                .layer(engine());
            axum_app::router(app).layer(layers)
        },
    ] {
        assert_pays(router).await;
    }
}

/// Pays with eight keys at once, and then again.
async fn assert_pays(router: impl FnOnce(&App) -> Router) {
    let app = App::default();
    let served = Served::start(router(&app)).await;
    let post = |key: usize| pay(&served, "/charge", key.to_string());
    let first = join_all((0..8).map(post)).await;
    let again = join_all((0..8).map(post)).await;
    for (first, again) in first.iter().zip(&again) {
        assert_eq!(first.status, 201);
        again.assert_replays(first);
    }
    assert_eq!(app.effects("pay"), 8);
}

/// B13-02
#[tokio::test]
async fn routers_of_one_engine_share_its_records() {
    let (app, idem) = (App::default(), engine());
    let one = Served::start(axum_app::router(&app).layer(idem.clone())).await;
    let other = Served::start(axum_app::router(&app).layer(idem.clone())).await;
    let first = pay(&one, "/charge", "k").await;
    pay(&other, "/charge", "k").await.assert_replays(&first);
    assert_eq!(app.effects("pay"), 1);
    assert_eq!((idem.counts().executed, idem.counts().replayed), (1, 1));
}

/// B13-02
#[tokio::test]
async fn engines_share_records_where_they_share_a_store() {
    let (app, store) = (App::default(), MemoryStore::new());
    let serve = |store| Served::start(axum_app::router(&app).layer(Idempotency::new(store)));
    let one = serve(store.clone()).await;
    let same = serve(store).await;
    let another = serve(MemoryStore::new()).await;
    let first = pay(&one, "/charge", "k").await;
    pay(&same, "/charge", "k").await.assert_replays(&first);
    assert_eq!(app.effects("pay"), 1);
    assert!(!pay(&another, "/charge", "k").await.replayed());
    assert_eq!(app.effects("pay"), 2);
}

/// B13-02
#[tokio::test]
async fn namespaces_keep_the_records_of_one_store_apart() {
    let (app, store) = (App::default(), MemoryStore::new());
    let serve = |namespace: &str| {
        let idem = Idempotency::builder(store.clone()).namespace(namespace);
        let idem = idem.build().expect("valid settings");
        Served::start(axum_app::router(&app).layer(idem))
    };
    let (one, same, other) = (serve("a").await, serve("a").await, serve("b").await);
    let first = pay(&one, "/charge", "k").await;
    pay(&same, "/charge", "k").await.assert_replays(&first);
    let second = pay(&other, "/charge", "k").await;
    assert_eq!((second.status, second.replayed()), (201, false));
    pay(&other, "/charge", "k").await.assert_replays(&second);
    assert_eq!(app.effects("pay"), 2);
}

/// B13-02
#[tokio::test]
async fn a_handler_that_is_mounted_twice_is_two_operations() {
    let (app, idem) = (App::default(), engine());
    let router = Router::new()
        .nest("/v1", axum_app::router(&app))
        .nest("/v2", axum_app::router(&app))
        .layer(idem);
    let served = Served::start(router).await;
    let first = pay(&served, "/v1/charge", "k").await;
    let second = pay(&served, "/v2/charge", "k").await;
    assert_eq!((second.status, second.replayed()), (201, false));
    pay(&served, "/v1/charge", "k").await.assert_replays(&first);
    pay(&served, "/v2/charge", "k")
        .await
        .assert_replays(&second);
    assert_eq!(app.effects("pay"), 2);

    // A name of its own makes one operation of both; on another path it is another request.
    assert_eq!(pay(&served, "/v1/named", "k").await.status, 201);
    let other = pay(&served, "/v2/named", "k").await;
    other.assert_refused(409, "key-reused");
    assert_eq!(app.effects("pay"), 3);
}

/// B13-02
#[tokio::test]
async fn the_innermost_engine_wins() {
    let (app, store) = (App::default(), MemoryStore::new());
    let inner = Idempotency::builder(store.clone()).namespace("inner");
    let inner = inner.build().expect("valid settings");
    let outer = Idempotency::new(store.clone());
    let router = axum_app::router(&app)
        .nest("/inner", axum_app::router(&app).layer(inner.clone()))
        .layer(outer.clone());
    let served = Served::start(router).await;
    let first = pay(&served, "/inner/charge", "k").await;
    pay(&served, "/inner/charge", "k")
        .await
        .assert_replays(&first);
    assert_eq!((inner.counts().executed, inner.counts().replayed), (1, 1));
    assert_eq!((outer.counts().executed, outer.counts().replayed), (0, 0));
    pay(&served, "/charge", "k").await;
    assert_eq!((inner.counts().executed, outer.counts().executed), (1, 1));
    assert_eq!((app.effects("pay"), store.len()), (2, 2));
}

/// B10-06, B10-02
#[tokio::test]
async fn each_client_gets_the_encoding_it_accepts() {
    let app = App::default();
    let layers = ServiceBuilder::new()
        .layer(CompressionLayer::new())
        .layer(engine());
    let served = Served::start(axum_app::router(&app).layer(layers)).await;
    let step = Step::default().header("content-type", "text/plain");
    let script = Script::new("pay").step(step.body(Body::Large(1_000)));
    for protocol in Protocol::ALL {
        for [first, retry] in [["gzip", "identity"], ["identity", "gzip"], ["gzip", "gzip"]] {
            let key = format!("{protocol:?}-{first}-{retry}");
            let post = served.post("/charge").key(&key).script(&script);
            let post = |accepts| post.clone().over(protocol).set("accept-encoding", accepts);
            let answers = [
                (first, post(first).send().await),
                (retry, post(retry).send().await),
            ];
            for (accepts, answer) in &answers {
                assert_eq!(answer.status, 201);
                let encoding = (*accepts == "gzip").then_some("gzip");
                assert_eq!(answer.header("content-encoding"), encoding);
                assert_eq!(decoded(answer), vec![b'x'; 1_000]);
            }
            assert!(answers[1].1.replayed());
        }
    }
    assert_eq!(app.effects("pay"), 6);
}

/// B10-02
#[tokio::test]
async fn a_replay_through_a_compression_layer_says_its_length_once() {
    let app = App::default();
    let layers = ServiceBuilder::new()
        .layer(CompressionLayer::new())
        .layer(engine());
    let served = Served::start(axum_app::router(&app).layer(layers)).await;
    let chunks = ["x".repeat(500), "x".repeat(500)].to_vec();
    let step = Step::default().header("content-type", "text/plain");
    let script = Script::new("pay").step(step.body(Body::Declared(chunks)));
    let mut connection = Connection::open(served.addr).await;
    let post = served.post("/charge").key("k").script(&script);
    let post = post.set("accept-encoding", "gzip");
    connection.send(&post).await;
    let first = connection.framed().await;
    connection.send(&post).await;
    let replay = connection.framed().await;
    assert_eq!(replay.header("idempotent-replayed"), Some("true"));
    assert_eq!(replay.header("content-encoding"), Some("gzip"));
    assert_eq!(gunzip(&replay.body), gunzip(&first.body));
    assert_eq!(app.effects("pay"), 1);
}

/// B10-06
#[tokio::test]
async fn what_the_handler_encoded_is_replayed_as_it_is() {
    let app = App::default();
    let layers = ServiceBuilder::new()
        .layer(CompressionLayer::new())
        .layer(engine());
    let served = Served::start(axum_app::router(&app).layer(layers)).await;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    std::io::Write::write_all(&mut encoder, &[b'x'; 1_000]).expect("memory");
    let bytes = encoder.finish().expect("memory");
    let step = Step::default()
        .header("content-type", "text/plain")
        .header("content-encoding", "gzip");
    let script = Script::new("pay").step(step.bytes(&bytes));
    let post = served.post("/charge").key("k").script(&script);
    let post = post.set("accept-encoding", "gzip");
    let first = post.clone().send().await;
    let replay = post.send().await;
    replay.assert_replays(&first);
    assert_eq!(replay.header("content-encoding"), Some("gzip"));
    assert_eq!(&replay.body[..], bytes);
    assert_eq!(app.effects("pay"), 1);
}

/// B12-03
#[tokio::test]
async fn a_limit_of_a_layer_outside_is_the_one_that_is_named() {
    let app = App::default();
    let limited = ServiceBuilder::new()
        .layer(RequestBodyLimitLayer::new(1_000))
        .layer(engine());
    let limited = axum_app::router(&app).layer(limited);
    let default = axum_app::router(&app)
        .layer(engine())
        .layer(DefaultBodyLimit::max(1_000));
    for router in [limited, default] {
        let served = Served::start(router).await;
        let mut connection = Connection::open(served.addr).await;
        let headers = [("transfer-encoding", "chunked"), ("idempotency-key", "k")];
        connection.head("/counted", &headers).await;
        connection.chunk(vec![b'x'; 1_000]).await;
        connection.chunk("x").await;
        let answer = connection.framed().await;
        assert_eq!(answer.status, 413);
        let problem: serde_json::Value = serde_json::from_slice(&answer.body).expect("json");
        assert_eq!(problem["code"], "request-too-large");
        assert_eq!(problem["limit"], 1_000);

        let body = vec![b'x'; 1_000];
        let answer = served.post("/counted").key("k").body(body).send().await;
        assert_eq!((answer.status, &answer.body[..]), (200, &b"1000"[..]));
    }
}

async fn pay(served: &Served, path: &str, key: impl AsRef<[u8]>) -> Answer {
    let post = served.post(path).key(key);
    post.script(&Script::new("pay")).send().await
}

/// The body as its `Content-Encoding` says to read it.
fn decoded(answer: &Answer) -> Vec<u8> {
    match answer.header("content-encoding") {
        None => answer.body.to_vec(),
        Some("gzip") => gunzip(&answer.body),
        Some(other) => panic!("{other} was not accepted"),
    }
}

fn gunzip(bytes: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::new();
    let read = GzDecoder::new(bytes).read_to_end(&mut decoded);
    read.expect("gzip");
    decoded
}
