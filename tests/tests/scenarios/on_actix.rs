//! What is particular to actix-web: where the engine is found, extractors that share one payload,
//! handlers that stay on their worker, and the shutdown. It stands apart from the matrix of
//! frameworks and stores.

use std::{
    cell::RefCell,
    future::{Ready, ready},
    io::Read,
    net::SocketAddr,
    rc::Rc,
    time::{Duration, Instant},
};

use actix_web::{
    App as Service, Either, Error, FromRequest, HttpMessage, HttpRequest, HttpResponse, Responder,
    body::{self, BoxBody, MessageBody},
    dev::{Payload, ServerHandle, ServiceRequest, ServiceResponse},
    error::{ErrorUnauthorized, InternalError},
    guard,
    http::{StatusCode, header::ContentType},
    middleware::{Compress, Next, from_fn},
    rt, web,
};
use flate2::read::GzDecoder;
use futures_util::{StreamExt, future::LocalBoxFuture};
use idem_actix::{
    Attempt, Caller, Idempotency, IdempotencyKey, KeyRules, MemoryStore, Outcome, OutcomeExt,
    Principal, idempotent, shutdown,
};
use idem_tests::{Answer, Call, Connection, Protocol, actix_app, app::App};
use serde_json::{Value, json};

/// A running application, its client, and what its handlers share with the test.
struct Served {
    addr: SocketAddr,
    server: ServerHandle,
    app: App,
    idem: Idempotency,
}

impl Served {
    /// Serves what is configured, as an application that sets nothing else: with one worker, and
    /// clients that may close their half of a connection.
    async fn start(configure: fn(&mut web::ServiceConfig, &Idempotency)) -> Self {
        Self::over(Idempotency::new(MemoryStore::new()), 1, configure).await
    }

    async fn over(
        idem: Idempotency,
        workers: usize,
        configure: fn(&mut web::ServiceConfig, &Idempotency),
    ) -> Self {
        idem_tests::logs::listen();
        let app = App::default();
        let (data, engine) = (web::Data::new(app.clone()), idem.clone());
        let factory = move || {
            Service::new()
                .app_data(data.clone())
                .configure(|config| configure(config, &engine))
        };
        let (addr, server) = actix_app::listen(factory, workers, true).await;
        Self {
            addr,
            server,
            app,
            idem,
        }
    }

    fn post(&self, path: &str) -> Call {
        Call::new(Protocol::Http1.client(), self.addr, "POST", path)
    }

    async fn connect(&self) -> Connection {
        Connection::open(self.addr).await
    }

    async fn until_executed(&self, handlers: u64) {
        for _ in 0..1_000 {
            if self.idem.counts().executed == handlers {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("never came to be: {:?}", self.idem.counts());
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // The command is on its way with the call.
        drop(self.server.stop(false));
    }
}

/// Writes a line into the ledger; the answer is its number.
async fn charge(app: &App, line: &str) -> String {
    let script = idem_tests::Script::new(line);
    let seen = idem_tests::script::Seen::default();
    let reply = app.perform(script, seen).await;
    format!("{} {}", reply.status, app.effects(line))
}

#[idempotent(scope = "endpoint")]
async fn pay(app: web::Data<App>, body: String) -> String {
    charge(&app, &body).await
}

/// Sends it twice: it runs once and is replayed.
async fn assert_protected(served: &Served, path: &str) -> Answer {
    let call = served.post(path).key("k").body(path.to_owned());
    let first = call.clone().send().await;
    assert_eq!((first.status, first.replayed()), (200, false), "{path}");
    call.send().await.assert_replays(&first);
    assert_eq!(served.app.effects(path), 1, "{path}");
    first
}

/// An engine that marks its replays with this header.
fn marked(name: &str) -> Idempotency {
    Idempotency::builder(MemoryStore::new())
        .replay_marker(name)
        .build()
        .expect("valid settings")
}

#[tokio::test]
async fn the_engine_is_found_at_every_level_and_the_inner_one_wins() {
    let served = Served::start(|config, idem| {
        config
            .app_data(idem.clone())
            .route("/app", web::post().to(pay))
            .service(
                web::scope("/scope")
                    .app_data(marked("x-scope"))
                    .route("/pay", web::post().to(pay))
                    .service(
                        web::resource("/resource")
                            .app_data(marked("x-resource"))
                            .route(web::post().to(pay)),
                    ),
            );
    })
    .await;
    for (path, marker) in [
        ("/app", "idempotent-replayed"),
        ("/scope/pay", "x-scope"),
        ("/scope/resource", "x-resource"),
    ] {
        let call = served.post(path).key("k").body(path);
        let first = call.clone().send().await;
        assert_eq!(first.status, 200, "{path}");
        let again = call.send().await;
        assert_eq!(again.header(marker), Some("true"), "{path}");
        assert_eq!(served.app.effects(path), 1);
    }
}

#[tokio::test]
async fn the_engine_is_found_as_shared_data_too() {
    let served = Served::start(|config, idem| {
        config
            .app_data(web::Data::new(idem.clone()))
            .route("/pay", web::post().to(pay));
    })
    .await;
    assert_protected(&served, "/pay").await;
}

#[tokio::test]
async fn a_missing_engine_is_told_with_or_without_a_key() {
    let served = Served::start(|config, _| {
        config.route("/pay", web::post().to(pay));
    })
    .await;
    for call in [served.post("/pay"), served.post("/pay").key("k")] {
        call.send().await.assert_refused(500, "not-configured");
    }
    assert_eq!(served.app.total(), 0);
}

#[tokio::test]
async fn all_workers_have_the_store_of_one_engine() {
    let idem = Idempotency::new(MemoryStore::new());
    let served = Served::over(idem, 4, |config, idem| {
        config
            .app_data(idem.clone())
            .route("/pay", web::post().to(pay));
    })
    .await;
    let calls = (0..32).map(|_| served.post("/pay").key("k").body("pay").send());
    let answers = futures_util::future::join_all(calls).await;
    let first = answers.iter().filter(|answer| answer.status == 200);
    assert!(first.count() >= 1);
    assert!(
        answers
            .iter()
            .all(|it| it.status == 200 || it.status == 409)
    );
    assert_eq!(served.app.effects("pay"), 1);
}

/// Authenticates late and without reading the body.
struct Login;

impl FromRequest for Login {
    type Error = Error;
    type Future = LocalBoxFuture<'static, Result<Self, Error>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let request = request.clone();
        Box::pin(async move {
            rt::time::sleep(Duration::from_millis(5)).await;
            let account = request.headers().get("x-account");
            let account = account.and_then(|value| value.to_str().ok());
            let account = account.ok_or_else(|| ErrorUnauthorized("who are you?"))?;
            let principal = Principal::new(account);
            request.extensions_mut().insert(principal);
            Ok(Self)
        })
    }
}

#[idempotent]
async fn pay_as(_: Login, app: web::Data<App>, body: String) -> String {
    charge(&app, &body).await
}

#[tokio::test]
async fn an_argument_that_awaits_refuses_before_the_body_is_read() {
    let served = Served::start(|config, idem| {
        config
            .app_data(idem.clone())
            .route("/pay", web::post().to(pay_as));
    })
    .await;
    // The body never comes.
    let mut connection = served.connect().await;
    let announced = [("content-length", "1000000"), ("idempotency-key", "k")];
    connection.head("/pay", &announced).await;
    assert_eq!(connection.framed().await.status, 401);

    // What it left in the request names the caller.
    let call = |account| served.post("/pay").key("k").set("x-account", account);
    let first = call("ada").body("pay").send().await;
    assert_eq!((first.status, first.replayed()), (200, false));
    call("ada").body("pay").send().await.assert_replays(&first);
    let other = call("bob").body("pay").send().await;
    assert_eq!((other.status, other.replayed()), (200, false));
    assert_eq!(served.app.effects("pay"), 2);
}

#[idempotent]
async fn pay_as_late(body: web::Json<Value>, app: web::Data<App>, _: Login) -> String {
    charge(&app, &body.to_string()).await
}

#[idempotent]
async fn pay_as_later(body: web::Json<Value>, _: Login, app: web::Data<App>) -> String {
    charge(&app, &body.to_string()).await
}

/// The one that names the caller may stand after the one that reads the body.
#[tokio::test]
async fn the_caller_is_named_after_an_argument_that_reads_the_body() {
    let served = Served::start(|config, idem| {
        config
            .app_data(idem.clone())
            .route("/last", web::post().to(pay_as_late))
            .route("/later", web::post().to(pay_as_later));
    })
    .await;
    for path in ["/last", "/later"] {
        let call = || served.post(path).key("k").json("1");
        assert_eq!(call().send().await.status, 401, "{path}");
        let first = call().set("x-account", "ada").send().await;
        assert_eq!((first.status, first.replayed()), (200, false), "{path}");
        call()
            .set("x-account", "ada")
            .send()
            .await
            .assert_replays(&first);
        let other = call().set("x-account", "bob").send().await;
        assert_eq!((other.status, other.replayed()), (200, false), "{path}");
        // What is wrong with the key is told before the body is read.
        let mut connection = served.connect().await;
        let announced = [
            ("content-length", "10"),
            ("content-type", "application/json"),
            ("idempotency-key", "not, one"),
        ];
        connection.head(path, &announced).await;
        assert_eq!(connection.framed().await.status, 400, "{path}");
    }
    assert_eq!(served.app.effects("1"), 4);
}

/// A limit of an argument that reads the body, and the application's words for it.
fn brief() -> web::JsonConfig {
    web::JsonConfig::default()
        .limit(16)
        .error_handler(|error, _| {
            let words = HttpResponse::ImATeapot().body(format!("no: {error}"));
            InternalError::from_response(error, words).into()
        })
}

#[idempotent(scope = "endpoint")]
async fn pay_json(app: web::Data<App>, body: web::Json<Value>) -> String {
    charge(&app, &body.to_string()).await
}

#[idempotent(scope = "endpoint")]
async fn pay_form(app: web::Data<App>, body: web::Form<Vec<(String, String)>>) -> String {
    charge(&app, &format!("{:?}", body.into_inner())).await
}

#[tokio::test]
async fn the_limits_and_the_words_of_the_application_stay_its_own() {
    let served = Served::start(|config, idem| {
        config
            .app_data(idem.clone())
            .app_data(brief())
            .app_data(web::FormConfig::default().limit(16))
            .app_data(web::PayloadConfig::new(16))
            .route("/json", web::post().to(pay_json))
            .route("/form", web::post().to(pay_form))
            .route("/text", web::post().to(pay));
    })
    .await;
    let long = json!("a body of more than sixteen bytes").to_string();
    let requests = [
        ("/json", ContentType::json(), &long[..]),
        ("/json", ContentType::json(), "{"),
        ("/json", ContentType::plaintext(), "1"),
        ("/form", ContentType::form_url_encoded(), &long[..]),
        ("/text", ContentType::plaintext(), &long[..]),
    ];
    for (path, content_type, body) in requests {
        let call = served
            .post(path)
            .set("content-type", content_type.to_string());
        let call = call.body(body.to_owned());
        let plain = call.clone().send().await;
        assert!((400..500).contains(&plain.status), "{path} {plain:?}");
        let keyed = call.key("k").send().await;
        assert_eq!(
            (keyed.status, &keyed.body),
            (plain.status, &plain.body),
            "{path} {body}"
        );
    }
    assert_eq!(served.app.total(), 0);
    // No claim is left: another request has the key.
    let other = served.post("/json").key("k").json("1").send().await;
    assert_eq!((other.status, other.replayed()), (200, false));
    let teapot = served.post("/json").key("t").json(long).send().await;
    assert_eq!(teapot.status, 418);
}

#[idempotent(scope = "endpoint")]
async fn pay_in_the_middle(
    app: web::Data<App>,
    body: Result<web::Json<Value>, Error>,
    again: String,
    request: HttpRequest,
) -> HttpResponse {
    let line = match body {
        Ok(body) => body.to_string(),
        Err(error) => error.to_string(),
    };
    assert_eq!((again.as_str(), request.path()), ("", "/middle"));
    HttpResponse::Ok().body(charge(&app, &line).await)
}

#[idempotent(scope = "endpoint")]
async fn pay_either(
    app: web::Data<App>,
    body: Either<web::Json<Value>, web::Bytes>,
) -> impl Responder {
    let line = match body {
        Either::Left(json) => json.to_string(),
        Either::Right(bytes) => bytes.escape_ascii().to_string(),
    };
    charge(&app, &line).await
}

#[tokio::test]
async fn one_payload_serves_arguments_in_any_place() {
    let served = Served::start(|config, idem| {
        config
            .app_data(idem.clone())
            .app_data(web::JsonConfig::default().limit(16))
            .route("/middle", web::post().to(pay_in_the_middle))
            .route("/either", web::post().to(pay_either));
    })
    .await;
    let long = json!("a body of more than sixteen bytes").to_string();
    for (path, body) in [
        ("/middle", "[1]"),
        // The argument gives up half-way; what it left is read for the fingerprint.
        ("/middle", &long),
        ("/either", "[2]"),
        ("/either", "no json"),
    ] {
        let call = |extra: &str| {
            let call = served.post(path).key(body.len().to_string());
            call.json(format!("{body}{extra}"))
        };
        let first = call("").send().await;
        assert_eq!((first.status, first.replayed()), (200, false), "{path}");
        call("").send().await.assert_replays(&first);
        call(" ").send().await.assert_refused(409, "key-reused");
    }
    assert_eq!(served.app.total(), 4);
}

/// Has a task of its own read the body.
struct Spawned(Vec<u8>);

impl FromRequest for Spawned {
    type Error = Error;
    type Future = LocalBoxFuture<'static, Result<Self, Error>>;

    fn from_request(_: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let mut payload = payload.take();
        Box::pin(async move {
            let reading = rt::spawn(async move {
                let mut body = Vec::new();
                while let Some(chunk) = payload.next().await {
                    body.extend_from_slice(&chunk?);
                }
                Ok(Self(body))
            });
            reading.await.expect("no panic")
        })
    }
}

#[idempotent(scope = "endpoint")]
async fn pay_spawned(body: Spawned, app: web::Data<App>) -> String {
    charge(&app, &body.0.escape_ascii().to_string()).await
}

#[idempotent(scope = "endpoint")]
async fn pay_unread(app: web::Data<App>) -> String {
    charge(&app, "unread").await
}

#[tokio::test]
async fn a_body_that_another_task_reads_or_nobody_is_part_of_the_fingerprint() {
    let served = Served::start(|config, idem| {
        config
            .app_data(idem.clone())
            .route("/spawned", web::post().to(pay_spawned))
            .route("/unread", web::post().to(pay_unread));
    })
    .await;
    for path in ["/spawned", "/unread"] {
        let call = |body: &str| served.post(path).key("k").body(body.to_owned());
        let first = call("one").send().await;
        assert_eq!(first.status, 200, "{path}");
        call("one").send().await.assert_replays(&first);
        call("two").send().await.assert_refused(409, "key-reused");
    }
    assert_eq!(served.app.total(), 2);
}

/// Keeps across an await what must stay on its thread.
#[idempotent(scope = "endpoint")]
async fn pay_here(
    app: web::Data<App>,
    request: HttpRequest,
    attempt: Attempt,
    mut body: web::Payload,
) -> String {
    let line = Rc::new(RefCell::new(String::new()));
    while let Some(chunk) = body.next().await {
        let chunk = chunk.expect("the whole body is there");
        line.borrow_mut().push_str(&String::from_utf8_lossy(&chunk));
    }
    app.gate("begun").pass().await;
    let line = line.take();
    let paid = charge(&app, &line).await;
    format!("{paid} at {} by {}", request.path(), attempt.number())
}

fn here(config: &mut web::ServiceConfig, idem: &Idempotency) {
    config
        .app_data(idem.clone())
        .route("/here", web::post().to(pay_here));
}

/// B12-04, B03-04: the client resets its connection, or closes it, which this server allows.
#[tokio::test]
async fn a_handler_that_is_not_send_outlives_its_client() {
    for resets in [true, false] {
        let served = Served::start(here).await;
        let call = served.post("/here").key("k").body("pay");
        let mut connection = served.connect().await;
        connection.send(&call).await;
        served.app.gate("begun").arrived(1).await;
        if resets {
            connection.reset();
        } else {
            drop(connection);
        }
        served.app.gate("begun").open();
        served.until_executed(1).await;
        let retry = call.send().await;
        assert_eq!((retry.status, retry.replayed()), (200, true));
        assert_eq!(served.app.effects("pay"), 1);
    }
}

/// B03-01, B03-04: two hundred of them, on connections that are reset or closed.
#[tokio::test]
async fn two_hundred_clients_leave_a_server_that_sets_nothing() {
    let served = Served::start(here).await;
    let call = |n: usize| {
        let call = served.post("/here").key(format!("k{n}"));
        call.body(format!("pay {n}"))
    };
    let mut connections = Vec::new();
    for n in 0..200 {
        let mut connection = served.connect().await;
        connection.send(&call(n)).await;
        connections.push(connection);
    }
    served.app.gate("begun").arrived(200).await;
    for (n, connection) in connections.into_iter().enumerate() {
        if n % 2 == 0 {
            connection.reset();
        } else {
            drop(connection);
        }
    }
    served.app.gate("begun").open();
    served.until_executed(200).await;
    for n in 0..200 {
        let retry = call(n).send().await;
        assert_eq!((retry.status, retry.replayed()), (200, true));
        assert_eq!(served.app.effects(&format!("pay {n}")), 1);
    }
    assert_eq!(served.idem.counts().takeovers, 0);
}

/// B03-02
#[tokio::test]
async fn a_shutdown_waits_for_handlers_whose_clients_are_gone() {
    let idem = Idempotency::builder(MemoryStore::new())
        .lease(Duration::from_secs(2))
        .build()
        .expect("valid settings");
    let served = Served::over(idem.clone(), 2, here).await;
    let mut connections = Vec::new();
    for n in 0..3 {
        let call = served.post("/here").key(format!("k{n}"));
        let mut connection = served.connect().await;
        connection.send(&call.body(format!("pay {n}"))).await;
        connections.push(connection);
    }
    served.app.gate("begun").arrived(3).await;
    for connection in connections {
        connection.reset();
    }
    let (server, engine) = (served.server.clone(), idem.clone());
    let down =
        tokio::spawn(async move { shutdown(server, &engine, Duration::from_secs(20)).await });
    // Another server of the engine tells when it is closed.
    let beside = Served::over(idem.clone(), 1, |config, idem| {
        config
            .app_data(idem.clone())
            .route("/pay", web::post().to(pay));
    })
    .await;
    let mut tries = 0;
    loop {
        let late = beside.post("/pay").key(format!("late-{tries}"));
        let answer = late.body("late").send().await;
        if answer.status == 503 {
            answer.assert_refused(503, "shutting-down");
            break;
        }
        tries += 1;
        assert!(tries < 1_000, "the engine is never closed: {answer:?}");
    }
    assert!(!down.is_finished());
    // The server takes no new connections, even for requests without a key.
    let mut late = served.connect().await;
    late.send(&served.post("/here").body("late")).await;
    served.app.gate("begun").open();
    let drained = down.await.expect("no panic");
    assert_eq!((drained.finished, drained.left), (3, 0));
    for n in 0..3 {
        assert_eq!(served.app.effects(&format!("pay {n}")), 1);
    }
    assert!(late.answer().await.is_none());
    assert_eq!(served.app.total(), 3);
}

/// B03-02
#[tokio::test]
async fn a_shutdown_ends_in_time_and_what_is_left_lapses() {
    let lease = Duration::from_secs(1);
    let store = MemoryStore::new();
    let idem = Idempotency::builder(store.clone())
        .lease(lease)
        .build()
        .expect("valid settings");
    let served = Served::over(idem.clone(), 1, here).await;
    let call = served.post("/here").key("k").body("pay");
    let mut connection = served.connect().await;
    connection.send(&call).await;
    served.app.gate("begun").arrived(1).await;
    connection.reset();
    let begun = Instant::now();
    let limit = Duration::from_millis(500);
    let drained = shutdown(served.server.clone(), &idem, limit).await;
    assert_eq!((drained.finished, drained.left), (0, 1));
    assert!(begun.elapsed() < Duration::from_secs(10), "{begun:?}");
    assert_eq!(served.app.total(), 0);

    // Another server over the same store runs it when its lease is over, and not after the ttl.
    let engine = Idempotency::builder(store).lease(lease).build();
    let beside = Served::over(engine.expect("valid settings"), 1, here).await;
    beside.app.gate("begun").open();
    let call = || beside.post("/here").key("k").body("pay");
    let mut answer = call().send().await;
    while answer.status == 409 {
        answer.assert_refused(409, "in-progress");
        tokio::time::sleep(Duration::from_millis(50)).await;
        answer = call().send().await;
    }
    assert_eq!(&answer.body[..], b"201 1 at /here by 2");
}

#[idempotent(scope = "endpoint")]
async fn pay_compressed(app: web::Data<App>, body: String) -> String {
    charge(&app, &body).await.repeat(100)
}

/// B12-01: compression outside, so that a replay is compressed as its own client wants.
#[tokio::test]
async fn a_replay_is_compressed_as_its_client_wants() {
    let served = Served::start(|config, idem| {
        config.service(
            web::scope("")
                .wrap(Compress::default())
                .app_data(idem.clone())
                .route("/pay", web::post().to(pay_compressed)),
        );
    })
    .await;
    let call = || served.post("/pay").key("k").body("pay");
    let plain = call().send().await;
    assert_eq!(&plain.body[..], "201 1".repeat(100).as_bytes());
    let zipped = call().set("accept-encoding", "gzip").send().await;
    assert!(zipped.replayed());
    assert_eq!(zipped.header("content-encoding"), Some("gzip"));
    let mut unzipped = String::new();
    let read = GzDecoder::new(&zipped.body[..]).read_to_string(&mut unzipped);
    read.expect("gzip");
    assert_eq!(unzipped.as_bytes(), &plain.body[..]);
}

#[idempotent(scope = "endpoint", operation = "pay.v2")]
async fn pay_v2(app: web::Data<App>, body: String) -> String {
    charge(&app, &format!("v2 {body}")).await
}

/// Routes that only guards tell apart need a name of their own.
#[tokio::test]
async fn versions_of_a_resource_are_kept_apart_by_their_operation() {
    let served = Served::start(|config, idem| {
        let second = || guard::Header("x-version", "2");
        config.app_data(idem.clone()).service(
            web::resource("/pay")
                .route(web::post().guard(second()).to(pay_v2))
                .route(web::post().to(pay)),
        );
    })
    .await;
    for (version, line) in [("1", "pay"), ("2", "v2 pay")] {
        let call = || served.post("/pay").key("k").set("x-version", version);
        let first = call().body("pay").send().await;
        assert_eq!((first.status, first.replayed()), (200, false));
        call().body("pay").send().await.assert_replays(&first);
        assert_eq!(served.app.effects(line), 1);
    }
}

#[idempotent(scope = "endpoint")]
async fn order(app: web::Data<App>, body: web::Json<u32>) -> impl Responder {
    let _ = charge(&app, "order").await;
    if *body == 0 {
        return Outcome::Release.with(Either::Left(web::Json("out of stock")));
    }
    Outcome::Keep.with(Either::Right("ordered"))
}

/// A responder that carries no extensions says what it is worth.
#[tokio::test]
async fn any_responder_says_what_it_is_worth() {
    let served = Served::start(|config, idem| {
        config
            .app_data(idem.clone())
            .route("/order", web::post().to(order));
    })
    .await;
    let call = |stock: &str| served.post("/order").key(stock).json(stock.to_owned());
    for _ in 0..2 {
        let answer = call("0").send().await;
        assert_eq!((answer.status, answer.replayed()), (200, false));
        assert_eq!(answer.json(), json!("out of stock"));
    }
    let first = call("1").send().await;
    call("1").send().await.assert_replays(&first);
    assert_eq!(served.app.effects("order"), 3);
}

/// Answers in each of the ways in which there is nothing to say.
#[idempotent(scope = "endpoint")]
async fn nothing(how: String) -> HttpResponse {
    let no_body = || BoxBody::new(body::None::new());
    match &*how {
        "empty" => HttpResponse::Ok().finish(),
        "no content" => HttpResponse::NoContent().finish(),
        "no body" => HttpResponse::with_body(StatusCode::NO_CONTENT, no_body()),
        _ => HttpResponse::with_body(StatusCode::NOT_MODIFIED, no_body()),
    }
}

#[tokio::test]
async fn an_answer_without_a_body_is_replayed_in_each_of_its_forms() {
    let served = Served::start(|config, idem| {
        config
            .app_data(idem.clone())
            .route("/nothing", web::post().to(nothing));
    })
    .await;
    for how in ["empty", "no content", "no body", "not modified"] {
        let call = || served.post("/nothing").body(how);
        let key = how.replace(' ', "-");
        let plain = call().send().await;
        for replayed in [false, true] {
            let answer = call().key(&key).send().await;
            assert_eq!((answer.status, answer.replayed()), (plain.status, replayed));
            assert!(answer.body.is_empty(), "{how}");
            let length = |answer: &Answer| answer.header("content-length").map(str::to_owned);
            assert_eq!(length(&answer), length(&plain), "{how} {replayed}");
        }
    }
}

/// Says less than it has.
#[idempotent(scope = "endpoint")]
async fn declared(app: web::Data<App>) -> HttpResponse {
    let _ = charge(&app, "declared").await;
    let chunks = ["ab", "cd"].map(|chunk| Ok::<_, Error>(web::Bytes::from(chunk)));
    HttpResponse::Ok()
        .no_chunking(3)
        .streaming(futures_util::stream::iter(chunks))
}

/// P-15
#[tokio::test]
async fn a_replay_ends_at_the_declared_length() {
    let served = Served::start(|config, idem| {
        config
            .app_data(idem.clone())
            .route("/declared", web::post().to(declared));
    })
    .await;
    let call = || served.post("/declared").key("k");
    let first = call().send().await;
    assert_eq!(&first.body[..], b"abc");
    let again = call().send().await;
    again.assert_replays(&first);
    assert_eq!(again.header("content-length"), Some("3"));
    assert_eq!(served.app.effects("declared"), 1);
}

/// B12-03: a limit of the application above the one that we have for what has none.
#[tokio::test]
async fn a_body_as_long_as_the_application_allows_is_taken() {
    let served = Served::start(|config, idem| {
        config
            .app_data(idem.clone())
            .app_data(web::PayloadConfig::new(32 << 20))
            .route("/counted", web::post().to(counted));
    })
    .await;
    let call = || served.post("/counted").body(vec![b'x'; 20 << 20]);
    assert_eq!(call().send().await.status, 200);
    let first = call().key("k").send().await;
    assert_eq!((first.status, first.replayed()), (200, false));
    call().key("k").send().await.assert_replays(&first);
}

#[idempotent(scope = "endpoint")]
async fn counted(body: web::Bytes) -> String {
    body.len().to_string()
}

/// Sends a request once more if it failed.
async fn again(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    let same = request.request().clone();
    let answer = next.call(request).await?;
    if answer.status().is_server_error() {
        drop(answer);
        let payload = Payload::None;
        return next.call(ServiceRequest::from_parts(same, payload)).await;
    }
    Ok(answer)
}

#[idempotent(scope = "endpoint")]
async fn pay_twice(app: web::Data<App>, attempt: Attempt) -> HttpResponse {
    let _ = charge(&app, "twice").await;
    if attempt.number() == 1 {
        attempt.reference("first");
        return HttpResponse::InternalServerError().finish();
    }
    HttpResponse::Ok().body(attempt.number().to_string())
}

/// A request that a middleware sends once more is another attempt.
#[tokio::test]
async fn a_request_that_is_dispatched_again_sees_its_own_attempt() {
    let served = Served::start(|config, idem| {
        config.app_data(idem.clone()).service(
            web::resource("/twice")
                .wrap(from_fn(again))
                .route(web::post().to(pay_twice)),
        );
    })
    .await;
    let answer = served.post("/twice").key("k").send().await;
    assert_eq!((answer.status, &answer.body[..]), (200, &b"2"[..]));
    let key = IdempotencyKey::parse(b"k", &KeyRules::default()).expect("a key");
    let found = served.idem.lookup(&Caller::Endpoint, "POST /twice", &key);
    let found = found.await.expect("an answer").expect("a record");
    assert_eq!(found.reference, None);
}

/// What a middleware has made of the body.
#[derive(Clone)]
struct Parsed(u32);

/// Reads the body before the handler; puts it back if the request says so.
async fn parse(
    mut request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    let body = request.extract::<web::Bytes>().await?;
    let text = String::from_utf8_lossy(&body);
    let parsed = text.parse().unwrap_or_default();
    request.extensions_mut().insert(Parsed(parsed));
    if request.headers().contains_key("x-put-back") {
        request.set_payload(Payload::from(body));
    }
    next.call(request).await
}

#[idempotent(scope = "endpoint")]
async fn pay_parsed(app: web::Data<App>, amount: web::ReqData<Parsed>) -> String {
    charge(&app, &format!("pay {}", amount.0)).await
}

/// R3: else another body would be answered with the first receipt.
#[tokio::test]
async fn a_body_that_a_middleware_took_is_not_taken_for_an_empty_one() {
    let served = Served::start(|config, idem| {
        config.app_data(idem.clone()).service(
            web::resource("/pay")
                .wrap(from_fn(parse))
                .route(web::post().to(pay_parsed)),
        );
    })
    .await;
    let call = |amount: &'static str| served.post("/pay").body(amount);
    assert_eq!(call("1").send().await.status, 200);
    for amount in ["1", "2"] {
        let answer = call(amount).key("k").send().await;
        answer.assert_refused(500, "not-configured");
    }
    let call = |amount| call(amount).key("k").set("x-put-back", "1");
    let first = call("1").send().await;
    assert_eq!((first.status, first.replayed()), (200, false));
    call("1").send().await.assert_replays(&first);
    call("2").send().await.assert_refused(409, "key-reused");
    assert_eq!(
        (served.app.effects("pay 1"), served.app.effects("pay 2")),
        (2, 0)
    );
}

/// A fallback has no operation, and not that of a resource whose guards kept the request from it.
#[tokio::test]
async fn a_fallback_does_not_answer_with_the_record_of_a_guarded_resource() {
    let served = Served::start(|config, idem| {
        let guarded = || web::post().guard(guard::Header("x-version", "1")).to(pay);
        let resource = || web::resource("/pay").guard(guard::Header("x-version", "1"));
        config
            .app_data(idem.clone())
            .service(
                web::scope("/scope")
                    .service(resource().route(guarded()))
                    .default_service(web::to(pay)),
            )
            .service(resource().route(guarded()))
            .default_service(web::to(pay));
    })
    .await;
    for path in ["/pay", "/scope/pay"] {
        let call = || served.post(path).key("k").body(path);
        let first = call().set("x-version", "1").send().await;
        assert_eq!((first.status, first.replayed()), (200, false), "{path}");
        call().send().await.assert_refused(500, "not-configured");
        assert_eq!(served.app.effects(path), 1);
    }
}

/// An extractor that is ready at once and refuses, with and without a key.
struct Never;

impl FromRequest for Never {
    type Error = Error;
    type Future = Ready<Result<Self, Error>>;

    fn from_request(_: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Err(ErrorUnauthorized("never")))
    }
}

#[idempotent(scope = "endpoint", required)]
async fn pay_never(_: Never, app: web::Data<App>, body: String) -> String {
    charge(&app, &body).await
}

/// What an argument refuses goes before what the key would be refused for.
#[tokio::test]
async fn an_argument_refuses_before_the_key_is_looked_at() {
    let served = Served::start(|config, idem| {
        config
            .app_data(idem.clone())
            .route("/never", web::post().to(pay_never));
    })
    .await;
    for call in [
        served.post("/never"),
        served.post("/never").key("not, one"),
        served.post("/never").key("k"),
    ] {
        let answer = call.body("pay").send().await;
        assert_eq!((answer.status, &answer.body[..]), (401, &b"never"[..]));
    }
    assert_eq!(served.app.total(), 0);
}
