//! The handle on an engine, and how it gets into an application: as a tower layer that puts it
//! into the extensions of each request.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::response::{IntoResponse, Response};
use http::{
    Request, StatusCode,
    header::{CACHE_CONTROL, RETRY_AFTER},
    request::Parts,
};
use idem_core::{
    Adapter, Caller, Counts, Drained, Engine, IdempotencyKey, Principal, Rejection, Store,
    StoreError,
    adapter::{Callers, Render, Renderer},
    observe::Operation,
    store::{Fence, Resolve, Resolved, Summary},
};
use tower_layer::Layer;
use tower_service::Service;

use crate::response;

/// Configures an [`Idempotency`]; see [`idem_core::Builder`] for its settings.
pub type Builder = idem_core::Builder<Idempotency>;

/// An engine with its store: the layer to put around a router, and the handle to keep.
///
/// Cheap to clone; all clones are one engine. Where routers are nested, the innermost layer wins.
///
/// # Examples
/// ```
/// use axum::{Router, http::request::Parts, routing::post};
/// use idem_axum::{Idempotency, MemoryStore, idempotent};
///
/// #[derive(Clone)]
/// struct AuthUser {
///     id: u64,
/// }
///
/// #[idempotent(scope = "user", ttl = "24h")]
/// async fn create_payment(body: String) -> String {
///     format!("paid: {body}")
/// }
///
/// # fn main() -> Result<(), idem_axum::ConfigError> {
/// let idem = Idempotency::builder(MemoryStore::new())
///     .scope("user", |parts: &Parts| {
///         parts.extensions.get::<AuthUser>().map(|user| user.id.to_string())
///     })
///     .build()?;
/// let app: Router = Router::new().route("/payments", post(create_payment)).layer(idem.clone());
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
}

impl Idempotency {
    /// An engine with default settings, over this store.
    ///
    /// # Examples
    /// ```
    /// use idem_axum::{Idempotency, MemoryStore};
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
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use idem_axum::{Idempotency, MemoryStore};
    /// use std::time::Duration;
    ///
    /// let idem = Idempotency::new(MemoryStore::new());
    /// // At the signal that also begins `with_graceful_shutdown`, beside it:
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
    /// use idem_axum::{Caller, Idempotency, IdempotencyKey, KeyRules, MemoryStore};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
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
    /// use idem_axum::{
    ///     Caller, Idempotency, IdempotencyKey,
    ///     store::{Resolve, Resolved},
    /// };
    ///
    /// # async fn free(idem: &Idempotency, ada: Caller, key: IdempotencyKey) -> Result<(), idem_axum::StoreError> {
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
    pub(crate) fn refuse(&self, rejection: &Rejection, parts: Option<&Parts>) -> Response {
        let mut problem = response::restore(self.0.engine.problem(rejection));
        let (Some(render), Some(parts)) = (&self.0.renderer, parts) else {
            return problem;
        };
        let mut words = render(rejection, parts);
        if words.status() == StatusCode::OK {
            *words.status_mut() = problem.status();
        }
        for name in [RETRY_AFTER, CACHE_CONTROL] {
            if let Some(value) = problem.headers_mut().remove(&name)
                && !words.headers().contains_key(&name)
            {
                words.headers_mut().insert(name, value);
            }
        }
        words
    }

    /// Refuses, and tells the observers.
    pub(crate) fn reject(
        &self,
        operation: Operation<'_>,
        rejection: Rejection,
        cause: Option<&(dyn std::error::Error + 'static)>,
        parts: &Parts,
    ) -> Response {
        let rejection = self.0.engine.reject(operation, rejection, cause);
        self.refuse(&rejection, Some(parts))
    }
}

impl Adapter for Idempotency {
    type Parts = Parts;
    type Response = Response;

    fn principal(parts: &Parts) -> Option<Principal> {
        parts.extensions.get().cloned()
    }

    fn install(engine: Engine, callers: Callers<Self>, renderer: Option<Renderer<Self>>) -> Self {
        Self(Arc::new(Installed {
            engine,
            callers,
            renderer,
        }))
    }
}

impl<R: IntoResponse> Render<R> for Idempotency {
    fn render(answer: R, _: &Parts) -> Response {
        answer.into_response()
    }
}

impl fmt::Debug for Idempotency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idempotency")
            .field("engine", &self.0.engine)
            .finish_non_exhaustive()
    }
}

impl<S> Layer<S> for Idempotency {
    type Service = IdempotencyService<S>;

    fn layer(&self, inner: S) -> IdempotencyService<S> {
        IdempotencyService {
            inner,
            idem: self.clone(),
        }
    }
}

/// Puts an [`Idempotency`] into the extensions of each request.
#[derive(Debug, Clone)]
pub struct IdempotencyService<S> {
    inner: S,
    idem: Idempotency,
}

impl<S, B> Service<Request<B>> for IdempotencyService<S>
where
    S: Service<Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> S::Future {
        request.extensions_mut().insert(self.idem.clone());
        self.inner.call(request)
    }
}
