//! The handle on an engine, and how it gets into an application: as its `app_data`.

use std::{fmt, sync::Arc, time::Duration};

use actix_web::{
    HttpMessage, HttpRequest, HttpResponse, Responder,
    dev::ServerHandle,
    http::{
        StatusCode,
        header::{CACHE_CONTROL, HeaderName, RETRY_AFTER},
    },
};
use idem_core::{
    Adapter, Caller, Counts, Drained, Engine, IdempotencyKey, Policy, Principal, Rejection, Store,
    StoreError,
    adapter::{Callers, Render, Renderer},
    store::{Fence, Resolve, Resolved, Summary},
};

use crate::response;

/// Configures an [`Idempotency`]; see [`idem_core::Builder`] for its settings.
pub type Builder = idem_core::Builder<Idempotency>;

/// An engine with its store: the `app_data` of an application, and the handle to keep.
///
/// Cheap to clone; all clones are one engine. Make it once, outside of the closure that
/// `HttpServer::new` calls for each of its workers: each would have an embedded store of its own.
/// It may be the data of an `App`, of a scope or of a resource; the innermost wins. Wrapped in a
/// `web::Data` it is found too, where there is no plain one.
///
/// # Examples
/// ```
/// use actix_web::{App, HttpMessage, HttpRequest, post};
/// use idem_actix::{Idempotency, MemoryStore, idempotent};
///
/// struct AuthUser {
///     id: u64,
/// }
///
/// #[post("/payments")]
/// #[idempotent(scope = "user", ttl = "24h")]
/// async fn create_payment(body: String) -> String {
///     format!("paid: {body}")
/// }
///
/// # fn main() -> Result<(), idem_actix::ConfigError> {
/// let idem = Idempotency::builder(MemoryStore::new())
///     .scope("user", |request: &HttpRequest| {
///         request.extensions().get::<AuthUser>().map(|user| user.id.to_string())
///     })
///     .build()?;
/// // In `HttpServer::new(move || …)`:
/// let app = App::new().app_data(idem.clone()).service(create_payment);
/// # let _ = app;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Idempotency(pub(crate) Arc<Installed>);

/// What the handle shares.
pub(crate) struct Installed {
    pub(crate) engine: Engine,
    pub(crate) callers: Callers<Idempotency>,
    pub(crate) renderer: Option<Renderer<Idempotency>>,
    /// That carries the key, unless a handler names another one.
    pub(crate) header: Option<HeaderName>,
}

impl Idempotency {
    /// An engine with default settings, over this store.
    ///
    /// # Examples
    /// ```
    /// use idem_actix::{Idempotency, MemoryStore};
    ///
    /// let idem = Idempotency::new(MemoryStore::new());
    /// assert_eq!(idem.counts().executed, 0);
    /// ```
    pub fn new(store: impl Store) -> Self {
        Builder::new(store)
            .build()
            .expect("the default settings are valid")
    }

    /// Configures an engine over this store.
    pub fn builder(store: impl Store) -> Builder {
        Builder::new(store)
    }

    /// How often each thing happened since the engine was built.
    pub fn counts(&self) -> Counts {
        self.0.engine.counts()
    }

    /// Refuses keyed requests from now on, replays too, with 503 `shutting-down`; waits up to
    /// `limit` for the handlers that run, detached ones included; then ends the detached ones.
    ///
    /// Nothing that ran is released by it: what is left over lapses, and an equal request runs
    /// again after that.
    ///
    /// # Cancel safety
    /// Cancel safe; the engine stays closed.
    ///
    /// # Examples
    /// ```
    /// # #[actix_web::main]
    /// # async fn main() {
    /// use idem_actix::{Idempotency, MemoryStore};
    /// use std::time::Duration;
    ///
    /// let idem = Idempotency::new(MemoryStore::new());
    /// // Before the server stops; `idem_actix::shutdown` does both.
    /// let drained = idem.drain(Duration::from_secs(10)).await;
    /// assert_eq!(drained.left, 0);
    /// # }
    /// ```
    pub async fn drain(&self, limit: Duration) -> Drained {
        self.0.engine.drain(limit).await
    }

    /// Says what is known of a key: its state, attempts, fence, times, status, and what the handler
    /// called the thing that it made ([`Attempt::reference`](crate::Attempt)); `None` if there is no
    /// record, or none any more.
    ///
    /// `operation` is what the attribute says, or method and route template: `POST /v1/payments`.
    ///
    /// # Errors
    /// [`StoreError`] if the store does not answer within the engine's limit.
    ///
    /// # Cancel safety
    /// Cancel safe.
    ///
    /// # Examples
    /// Support staff ask what became of a payment:
    /// ```
    /// use idem_actix::{Caller, Idempotency, IdempotencyKey, KeyRules, MemoryStore};
    ///
    /// # #[actix_web::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let idem = Idempotency::new(MemoryStore::new());
    /// let ada = Caller::User("ada".to_owned());
    /// let key = IdempotencyKey::parse(b"order-17", &KeyRules::default())?;
    /// match idem.lookup(&ada, "POST /v1/payments", &key).await? {
    ///     Some(found) => println!("{:?}, status {:?}, {:?}", found.state, found.status, found.reference),
    ///     None => println!("never seen, or forgotten since"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lookup(
        &self,
        caller: &Caller,
        operation: &str,
        key: &IdempotencyKey,
    ) -> Result<Option<Summary>, StoreError> {
        self.0.engine.lookup(caller, operation, key).await
    }

    /// Decides an outcome that nobody knows, or frees a key that is stuck; if its fence is still the
    /// one that [`lookup`](Self::lookup) told.
    ///
    /// An owner that still runs is replaced: it changes the record no more, except that after a
    /// release or a forgetting its engine may claim the key anew for its answer, as
    /// [`Store::resolve`] says.
    ///
    /// # Errors
    /// [`StoreError`] if the store does not answer within the engine's limit: the decision may be
    /// carried out or not, and a look-up tells.
    ///
    /// # Cancel safety
    /// Not cancel safe: a dropped decision may be carried out.
    ///
    /// # Examples
    /// ```
    /// use idem_actix::{
    ///     Caller, Idempotency, IdempotencyKey,
    ///     store::{Resolve, Resolved},
    /// };
    ///
    /// # async fn free(idem: &Idempotency, ada: Caller, key: IdempotencyKey) -> Result<(), idem_actix::StoreError> {
    /// // The bank knows nothing of this payment: the next equal request may run.
    /// if let Some(found) = idem.lookup(&ada, "POST /v1/payments", &key).await? {
    ///     let seen = found.grant.fence;
    ///     let resolved = idem.resolve(&ada, "POST /v1/payments", &key, seen, Resolve::Release).await?;
    ///     if let Resolved::Stale { .. } = resolved {
    ///         println!("it has changed meanwhile: look again");
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn resolve(
        &self,
        caller: &Caller,
        operation: &str,
        key: &IdempotencyKey,
        seen: Fence,
        how: Resolve,
    ) -> Result<Resolved, StoreError> {
        self.0
            .engine
            .resolve(caller, operation, key, seen, how)
            .await
    }

    /// Answers a refusal: in the application's own words, or with a problem document.
    ///
    /// Words are a body. Where they say nothing of status and headers, these are the refusal's: a
    /// client must not take it for a success.
    pub(crate) fn refuse(&self, rejection: &Rejection, request: &HttpRequest) -> HttpResponse {
        let mut problem = response::restore(self.0.engine.problem(rejection));
        let Some(render) = &self.0.renderer else {
            return problem;
        };
        let mut words = render(rejection, request);
        if words.status() == StatusCode::OK {
            *words.status_mut() = problem.status();
        }
        for name in [RETRY_AFTER, CACHE_CONTROL] {
            if let Some(value) = problem.headers_mut().remove(&name).next()
                && !words.headers().contains_key(&name)
            {
                words.headers_mut().insert(name, value);
            }
        }
        words
    }
}

impl Adapter for Idempotency {
    type Parts = HttpRequest;
    type Response = HttpResponse;

    fn principal(request: &HttpRequest) -> Option<Principal> {
        request.extensions().get().cloned()
    }

    fn install(engine: Engine, callers: Callers<Self>, renderer: Option<Renderer<Self>>) -> Self {
        const ANY: &Policy = &Policy::new("");
        // The builder has checked it.
        let header = HeaderName::try_from(engine.header(ANY)).ok();
        Self(Arc::new(Installed {
            engine,
            callers,
            renderer,
            header,
        }))
    }
}

impl<R: Responder<Body: 'static>> Render<R> for Idempotency {
    fn render(answer: R, request: &HttpRequest) -> HttpResponse {
        answer.respond_to(request).map_into_boxed_body()
    }
}

impl fmt::Debug for Idempotency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idempotency")
            .field("engine", &self.0.engine)
            .finish_non_exhaustive()
    }
}

/// Shuts a server down so that nothing which has begun is cut short: it takes no new connections,
/// keyed requests are refused with 503 `shutting-down`, the handlers that run have up to `limit` to
/// end, those whose client is gone too, and then the server stops as it does by itself: a handler
/// that has a client left gets [`shutdown_timeout`](actix_web::HttpServer::shutdown_timeout) more, 30
/// seconds unless you say less. Requests without a key are served as long as their connections last. New
/// connections wait in the backlog and are reset in the end, so let a load balancer turn away first.
///
/// A server that only stops ends each worker that has no connection left, and with it the handlers
/// which go on without their clients. So have it leave the signals to you
/// ([`disable_signals`](actix_web::HttpServer::disable_signals)), SIGTERM too, and call this at the
/// signal. Where there are several engines, [`drain`](Idempotency::drain) the others before.
///
/// # Cancel safety
/// Not cancel safe: a shutdown that is dropped leaves the engine closed and the server as far as it has come.
///
/// # Examples
/// ```no_run
/// use actix_web::{App, HttpServer, rt::signal::unix::{SignalKind, signal}};
/// use idem_actix::{Idempotency, MemoryStore};
/// use std::time::Duration;
///
/// #[actix_web::main]
/// async fn main() -> std::io::Result<()> {
///     let idem = Idempotency::new(MemoryStore::new());
///     let data = idem.clone();
///     let server = HttpServer::new(move || App::new().app_data(data.clone()))
///         .bind("127.0.0.1:8080")?
///         .disable_signals()
///         .shutdown_timeout(5)
///         .run();
///     let handle = server.handle();
///     let serving = actix_web::rt::spawn(server);
///     signal(SignalKind::terminate())?.recv().await;
///     let drained = idem_actix::shutdown(handle, &idem, Duration::from_secs(30)).await;
///     println!("{} left unfinished", drained.left);
///     serving.await?
/// }
/// ```
pub async fn shutdown(server: ServerHandle, idem: &Idempotency, limit: Duration) -> Drained {
    server.pause().await;
    let drained = idem.drain(limit).await;
    server.stop(true).await;
    drained
}
