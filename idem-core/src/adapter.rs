//! What the core knows of a web framework: its types, and nothing else.
//!
//! An adapter implements [`Adapter`] for its handle, so that the builder and everything that it
//! sets are written once.

use std::{collections::HashMap, fmt, sync::Arc};

use crate::{
    engine::Engine,
    error::NotConfigured,
    policy::Policy,
    rejection::Rejection,
    scope::{Caller, IntoCaller, Principal, Resolution, Scope},
};

/// A web framework's handle on an engine.
///
/// # Examples
/// ```
/// use idem_core::{
///     Adapter, Builder, ConfigError, Engine, MemoryStore, Principal, Record,
///     adapter::{Callers, Render, Renderer},
/// };
///
/// /// For a framework whose requests and responses are these.
/// struct Handle {
///     engine: Engine,
///     callers: Callers<Self>,
///     renderer: Option<Renderer<Self>>,
/// }
///
/// impl Adapter for Handle {
///     type Parts = http::request::Parts;
///     type Response = http::Response<String>;
///
///     fn principal(parts: &http::request::Parts) -> Option<Principal> {
///         parts.extensions.get().cloned()
///     }
///
///     fn install(
///         engine: Engine,
///         callers: Callers<Self>,
///         renderer: Option<Renderer<Self>>,
///     ) -> Self {
///         Self { engine, callers, renderer }
///     }
/// }
///
/// impl Render<String> for Handle {
///     fn render(answer: String, _: &http::request::Parts) -> http::Response<String> {
///         http::Response::new(answer)
///     }
/// }
///
/// let handle: Handle = Builder::new(MemoryStore::new())
///     .reject_with(|rejection, _parts| rejection.title().to_owned())
///     .build()?;
/// assert!(handle.renderer.is_some());
/// assert_eq!(handle.engine.marker(), "idempotent-replayed");
/// # let _ = handle.callers;
/// # Ok::<(), ConfigError>(())
/// ```
pub trait Adapter: Sized {
    /// What a resolver and a renderer can read of a request.
    type Parts: 'static;
    /// The framework's response.
    type Response: 'static;

    /// The authenticated caller, where the application's authentication put it; `None` if there is
    /// nobody, not even an anonymous one.
    fn principal(parts: &Self::Parts) -> Option<Principal>;

    /// Makes the handle. Called once, by [`Builder::build`](crate::Builder::build). Without a
    /// `renderer` a refusal is answered with [`Engine::problem`].
    fn install(engine: Engine, callers: Callers<Self>, renderer: Option<Renderer<Self>>) -> Self;
}

/// What an application may answer in place of our problem document. An adapter implements it for
/// everything that its framework takes as a response; the example of [`Adapter`] does so.
#[diagnostic::on_unimplemented(
    message = "`{R}` is not a response",
    label = "`reject_with` must return what a handler could return"
)]
pub trait Render<R>: Adapter {
    /// Makes the framework's response of it, to this request.
    fn render(answer: R, parts: &Self::Parts) -> Self::Response;
}

/// Writes the application's own answer to a refusal.
pub type Renderer<A> =
    Arc<dyn Fn(&Rejection, &<A as Adapter>::Parts) -> <A as Adapter>::Response + Send + Sync>;

type Resolver<P> = Arc<dyn Fn(&P) -> Resolution + Send + Sync>;

/// The resolvers of an engine, by name. `"user"` reads the [`Principal`] unless it is replaced.
///
/// # Examples
/// ```
/// use idem_core::{Builder, Caller, MemoryStore, NotConfigured, Policy, Principal, Rejection, Scope};
#[doc = include_str!("adapter/bare.md")]
///
/// let idem: Bare = Builder::new(MemoryStore::new()).build()?;
/// let policy = Policy::new("shop::create_payment");
/// let (mut parts, ()) = http::Request::new(()).into_parts();
///
/// // Nobody put a caller there: the client learns nothing, the log says what to write.
/// let unresolved = idem.callers.resolve(&policy, &parts).expect_err("nobody is there");
/// assert_eq!(unresolved.rejection, Rejection::NotConfigured);
/// assert!(matches!(unresolved.cause, Some(NotConfigured::NoPrincipal)));
///
/// parts.extensions.insert(Principal::new("ada"));
/// let caller = idem.callers.resolve(&policy, &parts).expect("ada is there");
/// assert_eq!(caller, Caller::User("ada".to_owned()));
/// let shared = policy.scope(Scope::Endpoint);
/// assert_eq!(idem.callers.resolve(&shared, &parts).expect("no caller needed"), Caller::Endpoint);
/// # Ok::<(), idem_core::ConfigError>(())
/// ```
pub struct Callers<A: Adapter> {
    resolvers: HashMap<Box<str>, Resolver<A::Parts>>,
}

impl<A: Adapter> Callers<A> {
    /// Adds a resolver; `false` if there is one of that name.
    pub(crate) fn add<C: IntoCaller>(
        &mut self,
        name: &str,
        resolver: impl Fn(&A::Parts) -> C + Send + Sync + 'static,
    ) -> bool {
        let resolver: Resolver<A::Parts> = Arc::new(move |parts| resolver(parts).into_caller());
        self.resolvers.insert(name.into(), resolver).is_none()
    }

    /// Says whose key a request carries.
    ///
    /// # Errors
    /// [`Unresolved`] says what to answer and, for the log, why.
    pub fn resolve(&self, policy: &Policy, parts: &A::Parts) -> Result<Caller, Unresolved> {
        let scope = policy.scope;
        let Some(name) = scope.resolver() else {
            return Ok(Caller::Endpoint);
        };
        let resolution = match self.resolvers.get(name) {
            Some(resolver) => resolver(parts),
            None if scope == Scope::User => A::principal(parts).into_caller(),
            None => return Err(NotConfigured::NoResolver { scope: name }.into()),
        };
        match resolution {
            Resolution::Known(value) => Ok(scope.caller(value)),
            Resolution::Anonymous => Err(Unresolved::anonymous()),
            Resolution::Absent if self.resolvers.contains_key(name) => {
                Err(NotConfigured::NoCaller { scope: name }.into())
            }
            Resolution::Absent => Err(NotConfigured::NoPrincipal.into()),
            Resolution::Failed(cause) => Err(NotConfigured::ResolverFailed {
                scope: name,
                source: cause,
            }
            .into()),
        }
    }
}

impl<A: Adapter> Default for Callers<A> {
    fn default() -> Self {
        Self {
            resolvers: HashMap::new(),
        }
    }
}

impl<A: Adapter> fmt::Debug for Callers<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.resolvers.keys()).finish()
    }
}

/// Why nobody can be named as the caller. The example of [`Callers`] shows one.
#[derive(Debug)]
pub struct Unresolved {
    /// What the client is told.
    pub rejection: Rejection,
    /// What the log is told.
    pub cause: Option<NotConfigured>,
}

impl Unresolved {
    fn anonymous() -> Self {
        Self {
            rejection: Rejection::CallerMissing,
            cause: None,
        }
    }
}

impl From<NotConfigured> for Unresolved {
    fn from(cause: NotConfigured) -> Self {
        Self {
            rejection: Rejection::NotConfigured,
            cause: Some(cause),
        }
    }
}
