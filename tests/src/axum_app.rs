//! The sample application on axum: one route for each way of writing the attribute.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    io,
    net::SocketAddr,
};

use axum::{
    Extension, Form, Json, Router,
    body::{Body, Bytes},
    extract::{
        ConnectInfo, DefaultBodyLimit, FromRequestParts, MatchedPath, Multipart, OriginalUri, Path,
        RawForm, Request, State,
    },
    http::{
        HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version,
        header::{AUTHORIZATION, CONTENT_LENGTH, RETRY_AFTER},
        request::Parts,
    },
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{any, get, post},
};
use futures_util::{StreamExt, stream};
use http_body_util::{BodyExt, Full};
use idem_axum::{Attempt, Idempotency, Outcome, Principal, Rejection, idempotent};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};
use tower_http::{catch_panic::CatchPanicLayer, trace::TraceLayer};

use crate::{
    app::{App, Reply},
    script::{self, Script, Seen},
    store::TestStore,
    world::{Handle, Params, Setup},
};

/// Starts the application on a free port.
pub(crate) async fn start(
    app: App,
    store: TestStore,
    setup: &Setup,
) -> (SocketAddr, Box<dyn Handle>, JoinHandle<()>) {
    let mut builder = setup
        .apply(Idempotency::builder(store))
        .scope("tenant", |parts: &Parts| text(parts, "x-tenant"))
        .scope("flaky", |_: &Parts| {
            Err::<Option<String>, _>("the directory is down")
        });
    if setup.envelope {
        builder = builder.reject_with(envelope);
    }
    let idem = builder
        .build()
        .expect("the settings of a scenario are valid");

    let counted = middleware::from_fn_with_state(app.clone(), count);
    let mut router = router(&app);
    if !setup.no_engine {
        router = router.layer(idem.clone());
    }
    if setup.catch_panic {
        router = router.layer(CatchPanicLayer::new());
    }
    let (addr, server) = serve(outside(router.layer(counted))).await;
    (addr, Box::new(idem), server)
}

/// The routes of the application, without an engine and without what [`outside`] adds.
pub fn router(app: &App) -> Router {
    routes(app).fallback(fallback).with_state(app.clone())
}

/// Puts the layers of the application around a router that has its engine: authentication, and a
/// span for each request.
pub fn outside(router: Router) -> Router {
    let span = |request: &Request| {
        let id = request.headers().get("x-request-id");
        let id = id.and_then(|id| id.to_str().ok()).unwrap_or_default();
        tracing::info_span!("request", request_id = id)
    };
    let trace = TraceLayer::new_for_http()
        .make_span_with(span)
        .on_failure(());
    router.layer(middleware::from_fn(authenticate)).layer(trace)
}

/// Serves a router on a free port.
///
/// # Panics
/// If there is none.
pub async fn serve(router: Router) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let addr = listener.local_addr().expect("it is bound");
    let server = tokio::spawn(async move {
        let service = router.into_make_service_with_connect_info::<SocketAddr>();
        // Ends when the scenario aborts it.
        let _ = axum::serve(listener, service).await;
    });
    (addr, server)
}

fn routes(app: &App) -> Router<App> {
    let accounts = Router::new().route("/accounts/{id}/charge", post(charge));
    let permitted = || middleware::from_fn_with_state(app.clone(), permit);
    Router::new()
        .route("/charge", any(charge))
        .route("/refund", any(charge))
        .route("/shared", post(shared))
        .route("/tenant", post(tenant))
        .route("/flaky", post(flaky))
        .route("/unregistered", post(unregistered))
        .route("/required", any(required))
        .route("/required-any", any(required_any))
        .route("/uuid", post(uuid))
        .route("/event", post(event))
        .route("/associated", any(Charges::create))
        .route("/associated-required", any(Charges::require))
        .route("/associated-uuid", post(Charges::identify))
        .route("/wait", post(wait))
        .route("/wait-briefly", post(wait_briefly))
        .route("/unknown", post(unknown))
        .route("/short", post(short))
        .route("/brief-lease", post(brief_lease))
        .route("/fallible", post(fallible))
        .route("/named", any(named))
        .route("/renamed", any(named))
        .route("/accounts/{id}/charge", post(charge))
        .nest("/nested/{tenant}", accounts)
        .nest("/named-fallback", Router::new().fallback(named))
        .nest("/nested-fallback", Router::new().fallback(fallback))
        .route("/extracted", post(extracted))
        .route("/read", get(charge).post(charge))
        .route("/guarded/argument", post(guarded))
        .merge(
            Router::new()
                .route("/guarded/route-layer", post(charge))
                .route_layer(permitted()),
        )
        .merge(
            Router::new()
                .route("/guarded/layer", post(charge))
                .layer(permitted()),
        )
        .route("/echo/json", post(echo_json))
        .route("/echo/form", post(echo_form))
        .route("/echo/raw-form", post(echo_raw_form))
        .route("/echo/bytes", post(echo_bytes))
        .route("/echo/string", post(echo_string))
        .route("/echo/multipart", post(echo_multipart))
        .route("/echo/request", post(echo_request))
        .route("/echo/body", post(echo_body))
        .route("/echo/nothing", post(echo_nothing))
        .nest(
            "/echo/{tenant}",
            Router::new().route("/seen/{id}", post(echo_seen)),
        )
        .route("/echo/stream", post(echo_stream))
        .route("/traced", post(traced))
        .route("/counted", post(counted))
        .route(
            "/limited",
            post(counted).layer(DefaultBodyLimit::max(10 * 1024 * 1024)),
        )
        .route(
            "/unlimited",
            post(counted).layer(DefaultBodyLimit::disable()),
        )
}

/// Everything a scripted handler takes but the script.
struct Context {
    app: App,
    seen: Seen,
}

impl FromRequestParts<App> for Context {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Response> {
        let Path(params) = Path::<Params>::from_request_parts(parts, app)
            .await
            .map_err(IntoResponse::into_response)?;
        let uri = OriginalUri::from_request_parts(parts, app)
            .await
            .map(|uri| uri.0.to_string());
        let seen = Seen {
            method: parts.method.to_string(),
            uri: uri.unwrap_or_default(),
            route: parts
                .extensions
                .get::<MatchedPath>()
                .map(|path| path.as_str().to_owned()),
            params,
            version: format!("{:?}", parts.version),
            user: user(parts),
            peer: parts
                .extensions
                .get::<ConnectInfo<SocketAddr>>()
                .map(|peer| peer.ip().to_string()),
            ..Seen::default()
        };
        Ok(Self {
            app: app.clone(),
            seen,
        })
    }
}

impl Context {
    async fn perform(self, attempt: &Attempt, script: Script) -> Response {
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
            async fn $name(context: Context, attempt: Attempt, Json(script): Json<Script>) -> Response {
                context.perform(&attempt, script).await
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
    async fn create(context: Context, attempt: Attempt, Json(script): Json<Script>) -> Response {
        Self::perform(context, attempt, script).await
    }

    #[idempotent(associated, required)]
    async fn require(context: Context, attempt: Attempt, Json(script): Json<Script>) -> Response {
        Self::perform(context, attempt, script).await
    }

    #[idempotent(
        associated,
        key_format = "uuid",
        scope = "tenant",
        operation = "charges.identify"
    )]
    async fn identify(context: Context, attempt: Attempt, Json(script): Json<Script>) -> Response {
        Self::perform(context, attempt, script).await
    }

    async fn perform(context: Context, attempt: Attempt, script: Script) -> Response {
        context.perform(&attempt, script).await
    }
}

/// A handler with a span of its own.
#[idempotent]
#[tracing::instrument(skip_all)]
async fn traced(context: Context, attempt: Attempt, Json(script): Json<Script>) -> Response {
    context.perform(&attempt, script).await
}

/// A permission that the handler asks for as an argument.
struct Permitted;

impl FromRequestParts<App> for Permitted {
    type Rejection = StatusCode;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, StatusCode> {
        if let Some(status) = app.refusal() {
            return Err(StatusCode::from_u16(status).expect("a status"));
        }
        let user = user(parts).ok_or(StatusCode::UNAUTHORIZED)?;
        if app.may(&user) {
            Ok(Self)
        } else {
            Err(StatusCode::FORBIDDEN)
        }
    }
}

#[idempotent]
async fn guarded(
    _: Permitted,
    context: Context,
    attempt: Attempt,
    Json(script): Json<Script>,
) -> Response {
    context.perform(&attempt, script).await
}

/// A handler whose failures are errors.
#[idempotent]
async fn fallible(
    context: Context,
    attempt: Attempt,
    Json(script): Json<Script>,
) -> Result<Response, Response> {
    let response = context.perform(&attempt, script).await;
    if response.status().is_server_error() {
        Err(response)
    } else {
        Ok(response)
    }
}

/// Authenticates as an argument of the handler, instead of in a layer.
struct Login;

impl FromRequestParts<App> for Login {
    type Rejection = StatusCode;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, StatusCode> {
        let name = text(parts, "x-login").ok_or(StatusCode::UNAUTHORIZED)?;
        parts.extensions.insert(Principal::new(name));
        Ok(Self)
    }
}

#[idempotent]
async fn extracted(
    _: Login,
    context: Context,
    attempt: Attempt,
    Json(script): Json<Script>,
) -> Response {
    context.perform(&attempt, script).await
}

async fn permit(State(app): State<App>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    match Permitted::from_request_parts(&mut parts, &app).await {
        Ok(Permitted) => next.run(Request::from_parts(parts, body)).await,
        Err(status) => status.into_response(),
    }
}

async fn count(State(app): State<App>, request: Request, next: Next) -> Response {
    let _busy = app.begin();
    next.run(request).await
}

/// Names the caller: `Bearer <name>`, or `Anonymous`; without the header it names nobody, as an
/// application that forgot its authentication.
async fn authenticate(mut request: Request, next: Next) -> Response {
    let header = request
        .headers()
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let principal = match header {
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
    next.run(request).await
}

fn user(parts: &Parts) -> Option<String> {
    parts.extensions.get::<Principal>()?.id().map(str::to_owned)
}

fn text(parts: &Parts, header: &str) -> Option<String> {
    parts.headers.get(header)?.to_str().ok().map(str::to_owned)
}

/// The envelope of the application: a body, and a status only where the request asks for one.
fn envelope(rejection: &Rejection, parts: &Parts) -> Response {
    let body = json!({
        "success": false,
        "code": rejection.code(),
        "message": "DUPLICATE_REQUEST",
        "nonce": text(parts, "x-nonce"),
        "uri": parts.uri.path(),
        "retry_after": rejection.retry_after(),
        "data": null,
    });
    let status: Option<StatusCode> =
        text(parts, "x-refuse-with").and_then(|status| status.parse().ok());
    match status {
        Some(status) => (status, [(RETRY_AFTER, "7")], Json(body)).into_response(),
        None => Json(body).into_response(),
    }
}

fn respond(app: &App, reply: Reply) -> Response {
    let length: Option<usize> = match &reply.body {
        script::Body::Declared(chunks) => Some(chunks.iter().map(String::len).sum()),
        _ => None,
    };
    let chunks = |chunks: Vec<String>| {
        stream::iter(
            chunks
                .into_iter()
                .map(|chunk| Ok::<_, io::Error>(Bytes::from(chunk))),
        )
    };
    let body = match reply.body {
        script::Body::Bytes(bytes) => Body::from(bytes),
        script::Body::Chunks(parts) | script::Body::Declared(parts) => {
            Body::from_stream(chunks(parts))
        }
        script::Body::Broken(chunk) => {
            Body::from_stream(chunks(vec![chunk]).chain(stream::once(async {
                Err(io::Error::other("the source broke off"))
            })))
        }
        script::Body::Endless(chunk) => {
            Body::from_stream(chunks(vec![chunk]).chain(stream::pending()))
        }
        script::Body::Gated(mut parts, gate) => {
            let others = parts.split_off(1.min(parts.len()));
            let gate = app.gate(&gate);
            let late = stream::once(async move {
                gate.pass().await;
                chunks(others)
            });
            Body::from_stream(chunks(parts).chain(late.flatten()))
        }
        script::Body::Repeated(chunk, times) => {
            let chunk = Bytes::from(chunk);
            let times = stream::iter(std::iter::repeat_n(chunk, times));
            Body::from_stream(times.map(Ok::<_, Infallible>))
        }
        script::Body::Trailed(chunk) => {
            Body::new(Full::new(Bytes::from(chunk)).with_trailers(sum()))
        }
        script::Body::ChunkTrailed(chunk) => {
            Body::new(Body::from_stream(chunks(vec![chunk])).with_trailers(sum()))
        }
        // `App` has made bytes of these.
        script::Body::Unique | script::Body::Large(_) | script::Body::Seen => Body::empty(),
    };
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(reply.status).expect("a status");
    for (name, value) in reply.headers {
        let name: HeaderName = name.parse().expect("a header name");
        let value = HeaderValue::from_bytes(&value).expect("a header value");
        response.headers_mut().append(name, value);
    }
    if let Some(length) = length {
        response.headers_mut().insert(CONTENT_LENGTH, length.into());
    }
    let outcome = reply.outcome.map(|outcome| match outcome.as_str() {
        "keep" => Outcome::Keep,
        "release" => Outcome::Release,
        "forget" => Outcome::Forget,
        "unknown" => Outcome::Unknown,
        other => panic!("{other} is no outcome"),
    });
    match outcome {
        Some(outcome) => (Extension(outcome), response).into_response(),
        None => response,
    }
}

/// The trailers of an answer that has some.
fn sum<E>() -> Ready<Option<Result<HeaderMap, E>>> {
    let sum = (
        HeaderName::from_static("x-sum"),
        HeaderValue::from_static("7"),
    );
    ready(Some(Ok(HeaderMap::from_iter([sum]))))
}

/// What an echo handler got, as JSON: the bytes of its body, escaped, and its head.
fn echo(head: &Head, body: impl AsRef<[u8]>) -> Json<Value> {
    Json(json!({
        "body": body.as_ref().escape_ascii().to_string(),
        "method": head.method.as_str(),
        "version": format!("{:?}", head.version),
        "user": head.user,
        "custom": head.custom,
    }))
}

/// What the extractor [`Head`] leaves for those after it.
#[derive(Clone)]
struct Noted;

/// The head of a request, as a parts extractor sees it.
struct Head {
    method: Method,
    version: Version,
    user: Option<String>,
    custom: Option<String>,
}

impl<S: Send + Sync> FromRequestParts<S> for Head {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        parts.extensions.insert(Noted);
        Ok(Self {
            method: parts.method.clone(),
            version: parts.version,
            user: user(parts),
            custom: text(parts, "x-custom"),
        })
    }
}

#[idempotent]
async fn echo_json(head: Head, Json(body): Json<Value>) -> Json<Value> {
    echo(&head, body.to_string())
}

#[idempotent]
async fn echo_form(head: Head, Form(body): Form<Params>) -> Json<Value> {
    echo(&head, json!(body).to_string())
}

#[idempotent]
async fn echo_raw_form(head: Head, RawForm(body): RawForm) -> Json<Value> {
    echo(&head, body)
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
async fn echo_multipart(head: Head, mut body: Multipart) -> Response {
    let mut fields = Params::new();
    while let Ok(Some(field)) = body.next_field().await {
        let name = field.name().unwrap_or_default().to_owned();
        fields.insert(name, field.text().await.unwrap_or_default());
    }
    echo(&head, json!(fields).to_string()).into_response()
}

#[idempotent]
async fn echo_request(head: Head, request: Request) -> Response {
    let noted = request.extensions().get::<Noted>().is_some();
    let Ok(body) = request.into_body().collect().await else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let sum = body
        .trailers()
        .and_then(|trailers| trailers.get("x-sum")?.to_str().ok())
        .map(str::to_owned);
    let Json(mut answer) = echo(&head, body.to_bytes());
    answer["noted"] = noted.into();
    answer["sum"] = sum.into();
    Json(answer).into_response()
}

#[idempotent]
async fn echo_body(head: Head, body: Body) -> Response {
    let bytes = axum::body::to_bytes(body, usize::MAX)
        .await
        .unwrap_or_default();
    echo(&head, bytes).into_response()
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
async fn echo_stream(body: Body) -> Body {
    Body::from_stream(body.into_data_stream())
}
