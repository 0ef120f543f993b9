//! The sample application on actix-web: one route for each way of writing the attribute.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    fmt,
    future::{Ready, pending, ready},
    io,
    net::{SocketAddr, TcpListener},
    panic::AssertUnwindSafe,
    thread,
};

use actix_multipart::Multipart;
use actix_web::{
    Error, FromRequest, HttpMessage, HttpRequest, HttpResponse, HttpResponseBuilder, HttpServer,
    Responder,
    body::{BodyStream, BoxBody, MessageBody, SizedStream},
    dev::{Payload, ServerHandle, ServiceFactory, ServiceRequest, ServiceResponse},
    error::{InternalError, JsonPayloadError},
    http::{StatusCode, header},
    middleware::{Next, from_fn},
    rt::System,
    web::{self, Bytes, Json},
};
use futures_util::{FutureExt, Stream, StreamExt, stream};
use idem_actix::{Attempt, Idempotency, Outcome, OutcomeExt, Principal, Rejection, idempotent};
use serde_json::{Value, json};
use tokio::{sync::oneshot, task::JoinHandle};
use tracing::Instrument;

use crate::{
    app::{App, Reply},
    script::{self, Script, Seen},
    store::TestStore,
    world::{Handle, Params, Setup, Workers},
};

/// Starts the application on a free port.
pub(crate) async fn start(
    app: App,
    store: TestStore,
    setup: &Setup,
) -> (SocketAddr, Box<dyn Handle>, JoinHandle<()>) {
    let mut builder = setup
        .apply(Idempotency::builder(store))
        .scope("tenant", |request: &HttpRequest| text(request, "x-tenant"))
        .scope("flaky", |_: &HttpRequest| {
            Err::<Option<String>, _>("the directory is down")
        });
    if setup.envelope {
        builder = builder.reject_with(envelope);
    }
    let idem = builder
        .build()
        .expect("the settings of a scenario are valid");

    let workers = match setup.workers {
        Workers::Shared => 2,
        Workers::One => 1,
    };
    let (engine, catches) = (idem.clone(), setup.catch_panic);
    let no_engine = setup.no_engine;
    let factory = move || {
        let mut service = actix_web::App::new();
        if !no_engine {
            service = service.app_data(engine.clone());
        }
        let app = app.clone();
        service
            .wrap(from_fn(move |request, next| {
                catch_panic(catches, request, next)
            }))
            .configure(routes)
            .wrap(from_fn(count))
            .wrap(from_fn(authenticate))
            .wrap(from_fn(trace))
            .app_data(web::Data::new(app))
    };
    let (addr, server) = serve(factory, workers).await;
    (addr, Box::new(idem), server)
}

/// Serves an application on a free port. A client that closes its half of a connection is taken for
/// gone, so that scenarios can tell when the service has noticed.
///
/// # Panics
/// If there is no port.
pub async fn serve<F, T, B>(factory: F, workers: usize) -> (SocketAddr, JoinHandle<()>)
where
    F: Fn() -> actix_web::App<T> + Send + Clone + 'static,
    T: ServiceFactory<
            ServiceRequest,
            Config = (),
            Response = ServiceResponse<B>,
            Error = Error,
            InitError = (),
        > + 'static,
    B: MessageBody + 'static,
{
    let (addr, handle) = listen(factory, workers, false).await;
    let server = tokio::spawn(async move {
        let _stopped = Stopped(handle);
        // Ends when the scenario aborts it.
        pending::<()>().await;
    });
    (addr, server)
}

/// Serves an application on a free port of its own thread, and gives the handle of its server.
///
/// # Panics
/// If there is no port.
pub async fn listen<F, T, B>(
    factory: F,
    workers: usize,
    half_closed: bool,
) -> (SocketAddr, ServerHandle)
where
    F: Fn() -> actix_web::App<T> + Send + Clone + 'static,
    T: ServiceFactory<
            ServiceRequest,
            Config = (),
            Response = ServiceResponse<B>,
            Error = Error,
            InitError = (),
        > + 'static,
    B: MessageBody + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let addr = listener.local_addr().expect("it is bound");
    let (started, handle) = oneshot::channel();
    thread::spawn(move || {
        System::new().block_on(async move {
            let server = HttpServer::new(factory)
                .workers(workers)
                .h1_allow_half_closed(half_closed)
                .disable_signals()
                .listen_auto_h2c(listener)
                .expect("a listener")
                .run();
            let _ = started.send(server.handle());
            server.await
        })
    });
    (addr, handle.await.expect("it has started"))
}

/// Stops a server when it is dropped.
struct Stopped(ServerHandle);

impl Drop for Stopped {
    fn drop(&mut self) {
        // The command is on its way with the call.
        drop(self.0.stop(false));
    }
}

fn routes(config: &mut web::ServiceConfig) {
    let accounts = || web::resource("/accounts/{id}/charge").route(web::post().to(charge));
    config
        // As much as axum takes, where nothing else is said.
        .app_data(web::PayloadConfig::new(2 * 1024 * 1024))
        .app_data(web::JsonConfig::default().error_handler(|error, _| malformed(error)))
        .service(
            web::resource("/limited")
                .app_data(web::PayloadConfig::new(10 * 1024 * 1024))
                .route(web::post().to(counted)),
        )
        .service(
            web::resource("/unlimited")
                .app_data(web::PayloadConfig::new(usize::MAX))
                .route(web::post().to(counted)),
        )
        .route("/charge", web::route().to(charge))
        .route("/refund", web::route().to(charge))
        .route("/shared", web::post().to(shared))
        .route("/tenant", web::post().to(tenant))
        .route("/flaky", web::post().to(flaky))
        .route("/unregistered", web::post().to(unregistered))
        .route("/required", web::route().to(required))
        .route("/required-any", web::route().to(required_any))
        .route("/uuid", web::post().to(uuid))
        .route("/event", web::post().to(event))
        .route("/associated", web::route().to(Charges::create))
        .route("/associated-required", web::route().to(Charges::require))
        .route("/associated-uuid", web::post().to(Charges::identify))
        .route("/wait", web::post().to(wait))
        .route("/wait-briefly", web::post().to(wait_briefly))
        .route("/unknown", web::post().to(unknown))
        .route("/short", web::post().to(short))
        .route("/brief-lease", web::post().to(brief_lease))
        .route("/fallible", web::post().to(fallible))
        .route("/named", web::route().to(named))
        .route("/renamed", web::route().to(named))
        .service(accounts())
        .service(web::scope("/nested/{tenant}").service(accounts()))
        .service(web::scope("/named-fallback").default_service(web::to(named)))
        .service(web::scope("/nested-fallback").default_service(web::to(fallback)))
        .route("/extracted", web::post().to(extracted))
        .service(
            web::resource("/read")
                .route(web::get().to(charge))
                .route(web::head().to(charge))
                .route(web::post().to(charge)),
        )
        .route("/guarded/argument", web::post().to(guarded))
        .service(
            web::resource("/guarded/route-layer")
                .route(web::post().to(charge).wrap(from_fn(permit))),
        )
        .service(
            web::resource("/guarded/layer")
                .wrap(from_fn(permit))
                .route(web::post().to(charge)),
        )
        .route("/echo/json", web::post().to(echo_json))
        .route("/echo/form", web::post().to(echo_form))
        .route("/echo/raw-form", web::post().to(echo_bytes))
        .route("/echo/bytes", web::post().to(echo_bytes))
        .route("/echo/string", web::post().to(echo_string))
        .route("/echo/multipart", web::post().to(echo_multipart))
        .route("/echo/request", web::post().to(echo_request))
        .route("/echo/body", web::post().to(echo_body))
        .route("/echo/nothing", web::post().to(echo_nothing))
        .route("/echo/stream", web::post().to(echo_stream))
        .service(web::scope("/echo/{tenant}").route("/seen/{id}", web::post().to(echo_seen)))
        .route("/traced", web::post().to(traced))
        .route("/counted", web::post().to(counted))
        .default_service(web::to(fallback));
}

/// The application's answer to a body that is not what its handler takes.
fn malformed(error: JsonPayloadError) -> Error {
    match error {
        JsonPayloadError::Deserialize(error) if error.is_data() => {
            Refused(StatusCode::UNPROCESSABLE_ENTITY).into()
        }
        other => other.into(),
    }
}

/// The state that all handlers share with the test.
fn shared_with_test(request: &HttpRequest) -> App {
    let app = request.app_data::<web::Data<App>>();
    App::clone(app.expect("every application of a scenario has it"))
}

/// Everything a scripted handler takes but the script.
struct Context {
    app: App,
    seen: Seen,
}

impl FromRequest for Context {
    type Error = Infallible;
    type Future = Ready<Result<Self, Infallible>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let uri = request.uri();
        let params = request.match_info().iter();
        let seen = Seen {
            method: request.method().to_string(),
            uri: uri
                .path_and_query()
                .map_or_else(|| uri.to_string(), ToString::to_string),
            route: request.match_pattern(),
            params: params
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            version: format!("{:?}", request.version()),
            user: user(request),
            peer: request.peer_addr().map(|peer| peer.ip().to_string()),
            ..Seen::default()
        };
        let app = shared_with_test(request);
        ready(Ok(Self { app, seen }))
    }
}

impl Context {
    async fn perform(self, attempt: &Attempt, script: Script) -> HttpResponse {
        let seen = Seen {
            attempt: attempt.number(),
            fence: attempt.fence(),
            downstream: attempt.downstream_key("charge"),
            ..self.seen
        };
        let reply = self.app.perform(script, seen).await;
        if let Some(reference) = &reply.reference {
            attempt.reference(reference);
        }
        respond(&self.app, reply)
    }
}

macro_rules! scripted {
    ($($(#[$attribute:meta])* $name:ident,)*) => {
        $(
            $(#[$attribute])*
            async fn $name(context: Context, attempt: Attempt, script: Json<Script>) -> HttpResponse {
                context.perform(&attempt, script.into_inner()).await
            }
        )*
    };
}

scripted! {
    #[idempotent]
    charge,
    #[idempotent(scope = "endpoint")]
    shared,
    #[idempotent(scope = "tenant")]
    tenant,
    #[idempotent(scope = "flaky")]
    flaky,
    #[idempotent(scope = "nowhere")]
    unregistered,
    #[idempotent(required)]
    required,
    #[idempotent(required = "any")]
    required_any,
    #[idempotent(key_format = "uuid")]
    uuid,
    #[idempotent(header = "X-Event-Id")]
    event,
    #[idempotent(wait = "10s")]
    wait,
    #[idempotent(wait = "300ms")]
    wait_briefly,
    #[idempotent(on_lapse = "unknown")]
    unknown,
    #[idempotent(ttl = "2s")]
    short,
    #[idempotent(lease = "1s")]
    brief_lease,
    #[idempotent(operation = "charges.create")]
    named,
    #[idempotent]
    fallback,
}

/// Handlers that are associated functions.
struct Charges;

impl Charges {
    #[idempotent(associated)]
    async fn create(context: Context, attempt: Attempt, script: Json<Script>) -> HttpResponse {
        Self::perform(context, attempt, script).await
    }

    #[idempotent(associated, required)]
    async fn require(context: Context, attempt: Attempt, script: Json<Script>) -> HttpResponse {
        Self::perform(context, attempt, script).await
    }

    #[idempotent(
        associated,
        key_format = "uuid",
        scope = "tenant",
        operation = "charges.identify"
    )]
    async fn identify(context: Context, attempt: Attempt, script: Json<Script>) -> HttpResponse {
        Self::perform(context, attempt, script).await
    }

    async fn perform(context: Context, attempt: Attempt, script: Json<Script>) -> HttpResponse {
        context.perform(&attempt, script.into_inner()).await
    }
}

/// A handler with a span of its own.
#[idempotent]
#[tracing::instrument(skip_all)]
async fn traced(context: Context, attempt: Attempt, script: Json<Script>) -> HttpResponse {
    context.perform(&attempt, script.into_inner()).await
}

/// A permission that the handler asks for as an argument.
struct Permitted;

impl FromRequest for Permitted {
    type Error = Refused;
    type Future = Ready<Result<Self, Refused>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(permitted(request).map(|()| Self))
    }
}

fn permitted(request: &HttpRequest) -> Result<(), Refused> {
    let app = shared_with_test(request);
    if let Some(status) = app.refusal() {
        return Err(Refused(StatusCode::from_u16(status).expect("a status")));
    }
    let user = user(request).ok_or(Refused(StatusCode::UNAUTHORIZED))?;
    if app.may(&user) {
        Ok(())
    } else {
        Err(Refused(StatusCode::FORBIDDEN))
    }
}

/// A refusal of the application's own.
#[derive(Debug)]
struct Refused(StatusCode);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl actix_web::ResponseError for Refused {
    fn error_response(&self) -> HttpResponse {
        HttpResponse::new(self.0)
    }
}

#[idempotent]
async fn guarded(
    _: Permitted,
    context: Context,
    attempt: Attempt,
    script: Json<Script>,
) -> HttpResponse {
    context.perform(&attempt, script.into_inner()).await
}

/// A handler whose failures are errors.
#[idempotent]
async fn fallible(
    context: Context,
    attempt: Attempt,
    script: Json<Script>,
) -> Result<HttpResponse, Error> {
    let response = context.perform(&attempt, script.into_inner()).await;
    if response.status().is_server_error() {
        Err(InternalError::from_response("it failed", response).into())
    } else {
        Ok(response)
    }
}

/// Authenticates as an argument of the handler, instead of in a middleware.
struct Login;

impl FromRequest for Login {
    type Error = Refused;
    type Future = Ready<Result<Self, Refused>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let Some(name) = text(request, "x-login") else {
            return ready(Err(Refused(StatusCode::UNAUTHORIZED)));
        };
        request.extensions_mut().insert(Principal::new(name));
        ready(Ok(Self))
    }
}

#[idempotent]
async fn extracted(
    _: Login,
    context: Context,
    attempt: Attempt,
    script: Json<Script>,
) -> HttpResponse {
    context.perform(&attempt, script.into_inner()).await
}

async fn permit(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    permitted(request.request())?;
    Ok(next.call(request).await?.map_into_boxed_body())
}

async fn count(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let _busy = shared_with_test(request.request()).begin();
    Ok(next.call(request).await?.map_into_boxed_body())
}

async fn trace(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let id = text(request.request(), "x-request-id").unwrap_or_default();
    let span = tracing::info_span!("request", request_id = id);
    let answered = next.call(request).instrument(span).await?;
    Ok(answered.map_into_boxed_body())
}

/// Makes a 500 of a panic, unless it is to close the connection.
async fn catch_panic(
    catches: bool,
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let answering = next.call(request);
    let answered = if catches {
        let caught = AssertUnwindSafe(answering).catch_unwind().await;
        caught.unwrap_or_else(|panic| {
            let panic = panic.downcast_ref::<String>();
            tracing::error!(?panic, "the service panicked");
            Err(Refused(StatusCode::INTERNAL_SERVER_ERROR).into())
        })?
    } else {
        answering.await?
    };
    Ok(answered.map_into_boxed_body())
}

/// Names the caller: `Bearer <name>`, or `Anonymous`; without the header it names nobody, as an
/// application that forgot its authentication.
async fn authenticate(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let principal = match text(request.request(), "authorization").as_deref() {
        None => None,
        Some("Anonymous") => Some(Principal::anonymous()),
        Some(value) => {
            // What follows the name is the token, which may change.
            let name = value
                .trim_start_matches("Bearer ")
                .split('.')
                .next()
                .unwrap_or_default();
            Some(Principal::new(name))
        }
    };
    if let Some(principal) = principal {
        request.extensions_mut().insert(principal);
    }
    Ok(next.call(request).await?.map_into_boxed_body())
}

fn user(request: &HttpRequest) -> Option<String> {
    let extensions = request.extensions();
    extensions.get::<Principal>()?.id().map(str::to_owned)
}

fn text(request: &HttpRequest, header: &str) -> Option<String> {
    let value = request.headers().get(header)?;
    value.to_str().ok().map(str::to_owned)
}

/// The envelope of the application: a body, and a status only where the request asks for one.
fn envelope(rejection: &Rejection, request: &HttpRequest) -> HttpResponse {
    let body = json!({
        "success": false,
        "code": rejection.code(),
        "message": "DUPLICATE_REQUEST",
        "nonce": text(request, "x-nonce"),
        "uri": request.uri().path(),
        "retry_after": rejection.retry_after(),
        "data": null,
    });
    let status: Option<StatusCode> =
        text(request, "x-refuse-with").and_then(|status| status.parse().ok());
    match status {
        Some(status) => HttpResponse::build(status)
            .insert_header((header::RETRY_AFTER, "7"))
            .json(body),
        None => HttpResponse::Ok().json(body),
    }
}

fn respond(app: &App, reply: Reply) -> HttpResponse {
    let mut response = HttpResponse::build(StatusCode::from_u16(reply.status).expect("a status"));
    for (name, value) in reply.headers {
        let value = header::HeaderValue::from_bytes(&value).expect("a header value");
        response.append_header((name, value));
    }
    let response = body(&mut response, app, reply.body);
    match reply.outcome.as_deref() {
        None => response,
        // As a handler says it: over a response that is made already.
        Some(outcome) => {
            let outcome = match outcome {
                "keep" => Outcome::Keep,
                "release" => Outcome::Release,
                "forget" => Outcome::Forget,
                "unknown" => Outcome::Unknown,
                other => panic!("{other} is no outcome"),
            };
            let request = actix_web::test::TestRequest::default().to_http_request();
            outcome.with(response).respond_to(&request)
        }
    }
}

fn body(response: &mut HttpResponseBuilder, app: &App, body: script::Body) -> HttpResponse {
    match body {
        script::Body::Bytes(bytes) => response.body(bytes),
        script::Body::Chunks(parts) => response.body(BodyStream::new(chunks(parts))),
        script::Body::Declared(parts) => {
            let length: usize = parts.iter().map(String::len).sum();
            response.no_chunking(length as u64);
            response.body(BodyStream::new(chunks(parts)))
        }
        script::Body::Broken(chunk) => {
            let broken = stream::once(async { Err(io::Error::other("the source broke off")) });
            response.body(BodyStream::new(chunks(vec![chunk]).chain(broken)))
        }
        script::Body::Endless(chunk) => response.body(BodyStream::new(
            chunks(vec![chunk]).chain(stream::pending()),
        )),
        script::Body::Gated(mut parts, gate) => {
            let others = parts.split_off(1.min(parts.len()));
            let gate = app.gate(&gate);
            let late = stream::once(async move {
                gate.pass().await;
                chunks(others)
            });
            let late = Box::pin(late.flatten());
            response.body(BodyStream::new(chunks(parts).chain(late)))
        }
        script::Body::Repeated(chunk, times) => {
            let chunk = Bytes::from(chunk);
            let times = stream::iter(std::iter::repeat_n(chunk, times));
            response.body(BodyStream::new(times.map(Ok::<_, Infallible>)))
        }
        // There are no trailers on this framework.
        script::Body::Trailed(chunk) => {
            let length = chunk.len() as u64;
            response.body(SizedStream::new(length, chunks(vec![chunk])))
        }
        script::Body::ChunkTrailed(chunk) => response.body(BodyStream::new(chunks(vec![chunk]))),
        // `App` has made bytes of these.
        script::Body::Unique | script::Body::Large(_) | script::Body::Seen => response.finish(),
    }
}

fn chunks(chunks: Vec<String>) -> impl Stream<Item = io::Result<Bytes>> + Unpin {
    stream::iter(chunks.into_iter().map(|chunk| Ok(Bytes::from(chunk))))
}

/// What an echo handler got, as JSON: the bytes of its body, escaped, and its head.
fn echo(head: &Head, body: impl AsRef<[u8]>) -> Json<Value> {
    Json(json!({
        "body": body.as_ref().escape_ascii().to_string(),
        "method": head.method,
        "version": head.version,
        "user": head.user,
        "custom": head.custom,
    }))
}

/// What the extractor [`Head`] leaves for those after it.
struct Noted;

/// The head of a request.
struct Head {
    method: String,
    version: String,
    user: Option<String>,
    custom: Option<String>,
}

impl FromRequest for Head {
    type Error = Infallible;
    type Future = Ready<Result<Self, Infallible>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        request.extensions_mut().insert(Noted);
        ready(Ok(Self {
            method: request.method().to_string(),
            version: format!("{:?}", request.version()),
            user: user(request),
            custom: text(request, "x-custom"),
        }))
    }
}

#[idempotent]
async fn echo_json(head: Head, body: Json<Value>) -> Json<Value> {
    echo(&head, body.to_string())
}

#[idempotent]
async fn echo_form(head: Head, body: web::Form<BTreeMap<String, String>>) -> Json<Value> {
    echo(&head, json!(body.into_inner()).to_string())
}

#[idempotent]
async fn echo_bytes(head: Head, body: Bytes) -> Json<Value> {
    echo(&head, body)
}

#[idempotent]
async fn echo_string(head: Head, body: String) -> Json<Value> {
    echo(&head, body)
}

#[idempotent]
async fn echo_multipart(head: Head, mut body: Multipart) -> Json<Value> {
    let mut fields = Params::new();
    while let Some(Ok(mut field)) = body.next().await {
        let name = field.name().unwrap_or_default().to_owned();
        let mut value = Vec::new();
        while let Some(Ok(chunk)) = field.next().await {
            value.extend_from_slice(&chunk);
        }
        fields.insert(name, String::from_utf8(value).unwrap_or_default());
    }
    echo(&head, json!(fields).to_string())
}

#[idempotent]
async fn echo_request(head: Head, request: HttpRequest, body: web::Payload) -> impl Responder {
    let noted = request.extensions().get::<Noted>().is_some();
    let Ok(body) = body.to_bytes().await else {
        return HttpResponse::BadRequest().finish();
    };
    let Json(mut answer) = echo(&head, body);
    answer["noted"] = noted.into();
    answer["sum"] = Value::Null;
    HttpResponse::Ok().json(answer)
}

#[idempotent]
async fn echo_body(head: Head, body: web::Payload) -> Result<Json<Value>, Error> {
    Ok(echo(&head, body.to_bytes().await?))
}

#[idempotent]
async fn echo_nothing(head: Head) -> Json<Value> {
    echo(&head, b"")
}

/// Takes what is in the head as its last argument.
#[idempotent]
async fn echo_seen(context: Context) -> Json<Seen> {
    Json(context.seen)
}

/// Says how long the body is.
#[idempotent]
async fn counted(body: Bytes) -> String {
    body.len().to_string()
}

/// Gives the body back as it comes.
#[idempotent]
async fn echo_stream(body: web::Payload) -> HttpResponse {
    HttpResponse::Ok().streaming(body)
}
