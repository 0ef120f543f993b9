//! How an engine is configured, once for all its handlers.
//!
//! Every setting has a default that is safe in production. What can be wrong is found by
//! [`Builder::build`].

use std::{fmt, sync::Arc, time::Duration};

use tokio::runtime::Handle;

use crate::{
    adapter::{Adapter, Callers, Render, Renderer},
    engine::{Engine, Settings, StoreDown},
    error::ConfigError,
    headers::{HeaderRules, may_be_kept},
    key::{DEFAULT_MAX_KEY_LEN, KeyFormat},
    lease::{Keeper, KeeperOptions},
    live::WaiterLimits,
    observe::{Observer, Observers},
    policy::{Defaults, LONGEST, OnLapse, Required},
    rejection::{DEFAULT_PROBLEM_BASE, Rejection},
    scope::IntoCaller,
    store::Store,
};

/// The header that marks a replay.
pub const DEFAULT_MARKER: &str = "idempotent-replayed";

/// Configures an engine. An adapter's `Idempotency::builder(store)` makes one.
///
/// What an attribute says about its handler wins over what is set here. No duration may be zero.
/// What is wrong is found by [`build`](Self::build).
///
/// # Examples
/// `Bare` stands in for the handle of an adapter, such as `idem_axum::Idempotency`.
/// ```
/// use std::time::Duration;
///
/// use idem_core::{Builder, ConfigError, KeyFormat, MemoryStore, OnLapse, Required};
#[doc = include_str!("adapter/bare.md")]
///
/// let idem: Bare = Builder::new(MemoryStore::new())
///     .namespace("payments")
///     .required(Required::Creating)
///     .key_format(KeyFormat::Uuid)
///     .max_key_len(64)
///     .ttl(Duration::from_hours(48))
///     .lease(Duration::from_secs(20))
///     .max_execution(Duration::from_mins(2))
///     .on_lapse(OnLapse::Unknown)
///     .wait(Duration::from_secs(5))
///     .max_waiters(4, 256)
///     .max_request_body(1024 * 1024)
///     .max_stored_body(64 * 1024)
///     .max_stored_headers(8 * 1024)
///     .drop_header("x-internal")
///     .replay_marker("X-Replayed")
///     .problem_base("https://example.com/errors/")
///     .store_timeout(Duration::from_millis(500))
///     .purge_every(Duration::from_mins(5))
///     .build()?;
/// assert_eq!(idem.engine.marker(), "x-replayed");
/// assert_eq!(idem.engine.keeps(201, b"application/json", Some(64 * 1024)), Some(64 * 1024));
///
/// let wrong = Builder::<Bare>::new(MemoryStore::new()).lease(Duration::ZERO);
/// assert_eq!(wrong.build().err(), Some(ConfigError::Zero { setting: "lease" }));
/// # Ok::<(), ConfigError>(())
/// ```
#[must_use]
pub struct Builder<A: Adapter> {
    store: Arc<dyn Store>,
    settings: Settings,
    keeper: KeeperOptions,
    callers: Callers<A>,
    renderer: Option<Renderer<A>>,
    observers: Vec<Arc<dyn Observer>>,
    error: Option<ConfigError>,
}

impl<A: Adapter> Builder<A> {
    /// Starts from the defaults, over this store.
    pub fn new(store: impl Store) -> Self {
        let store_timeout = Duration::from_secs(1);
        Self {
            store: Arc::new(store),
            settings: Settings {
                namespace: "".into(),
                defaults: Defaults::default(),
                max_key_len: DEFAULT_MAX_KEY_LEN,
                max_request_body: None,
                max_stored_body: 256 * 1024,
                max_stored_headers: 16 * 1024,
                waiters: WaiterLimits {
                    per_key: 16,
                    total: 1_024,
                },
                headers: HeaderRules::default(),
                marker: DEFAULT_MARKER.into(),
                problem_base: DEFAULT_PROBLEM_BASE.into(),
                store_timeout,
                store_down: StoreDown::Reject,
            },
            keeper: KeeperOptions {
                max_execution: Duration::from_mins(10),
                store_timeout,
                purge_every: Some(Duration::from_mins(1)),
                runtime: None,
            },
            callers: Callers::default(),
            renderer: None,
            observers: Vec::new(),
            error: None,
        }
    }

    /// Keeps the records of this engine apart from those of others in the same store; empty by
    /// default. One namespace is one store: a key that is used in two regions is two operations.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.settings.namespace = namespace.into();
        self
    }

    /// Registers the resolver of a scope. `"user"` replaces the one that reads
    /// [`Principal`](crate::Principal); a handler asks for any other by `scope = "name"`.
    ///
    /// It must give a stable identity, never a credential that is renewed: after the renewal the
    /// retry would come from a new caller, and run again. What it may return is said by
    /// [`IntoCaller`]. A name can be registered once.
    ///
    /// # Examples
    /// ```
    /// use idem_core::{Builder, Caller, MemoryStore, Policy, Scope};
    #[doc = include_str!("adapter/bare.md")]
    ///
    /// #[derive(Clone)]
    /// struct Tenant(String);
    ///
    /// let idem: Bare = Builder::new(MemoryStore::new())
    ///     .scope("tenant", |parts: &http::request::Parts| {
    ///         parts.extensions.get::<Tenant>().map(|tenant| tenant.0.clone())
    ///     })
    ///     .build()?;
    ///
    /// // What an adapter does with it, for a handler that says `scope = "tenant"`:
    /// let policy = Policy::new("shop::create_payment").scope(Scope::Named("tenant"));
    /// let (mut parts, ()) = http::Request::new(()).into_parts();
    /// parts.extensions.insert(Tenant("acme".to_owned()));
    /// let caller = idem.callers.resolve(&policy, &parts).expect("a tenant");
    /// assert_eq!(caller, Caller::Named(vec![("tenant".into(), "acme".to_owned())]));
    /// # Ok::<(), idem_core::ConfigError>(())
    /// ```
    pub fn scope<C: IntoCaller>(
        mut self,
        name: &str,
        resolver: impl Fn(&A::Parts) -> C + Send + Sync + 'static,
    ) -> Self {
        if !is_scope_name(name) {
            self.error.get_or_insert(ConfigError::Invalid {
                setting: "scope",
                expected: "a name of letters, digits, `-` and `_`, and not `endpoint`",
            });
        }
        if !self.callers.add(name, resolver) {
            self.error
                .get_or_insert(ConfigError::DuplicateScope { name: name.into() });
        }
        self
    }

    /// The life of a completed record, from its completion; 24 h by default.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.settings.defaults.ttl = ttl;
        self
    }

    /// How long a claim lives unrenewed; 30 s by default. It is renewed each third of it, so this
    /// is how long a key stays blocked after its process died.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.defaults.lease = lease;
        self
    }

    /// How long a request waits for a running one with the same key; by default it does not, and
    /// is refused at once with 409 `in-progress`.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.settings.defaults.wait = Some(wait);
        self
    }

    /// Which requests must carry a key; none by default.
    pub fn required(mut self, required: Required) -> Self {
        self.settings.defaults.required = required;
        self
    }

    /// The header that carries the key; `Idempotency-Key` by default. Names are compared without
    /// case.
    ///
    /// # Examples
    /// ```
    /// use idem_core::{Builder, MemoryStore, Policy};
    #[doc = include_str!("adapter/bare.md")]
    ///
    /// let idem: Bare = Builder::new(MemoryStore::new()).header("X-Event-Id").build()?;
    /// assert_eq!(idem.engine.header(&Policy::new("hooks::paid")), "x-event-id");
    ///
    /// let wrong = Builder::<Bare>::new(MemoryStore::new()).header("X Event Id").build();
    /// let error = wrong.err().expect("no name of a header");
    /// assert_eq!(error.to_string(), "`header` must be the name of a header");
    /// # Ok::<(), idem_core::ConfigError>(())
    /// ```
    pub fn header(mut self, name: &str) -> Self {
        self.settings.defaults.header = self.header_name("header", name);
        self
    }

    /// The form that keys must have; any by default.
    pub fn key_format(mut self, format: KeyFormat) -> Self {
        self.settings.defaults.key_format = format;
        self
    }

    /// What happens to a key whose owner is gone; it is taken over by default.
    pub fn on_lapse(mut self, on_lapse: OnLapse) -> Self {
        self.settings.defaults.on_lapse = on_lapse;
        self
    }

    /// The longest key, in bytes after unquoting; 255 by default.
    pub fn max_key_len(mut self, bytes: usize) -> Self {
        self.settings.max_key_len = bytes;
        self
    }

    /// The longest request body, in bytes. By default as long as the handler accepts without a
    /// key, or 16 MiB where the application took that limit away; it can only be lowered. Zero
    /// refuses every body but an empty one.
    pub fn max_request_body(mut self, bytes: u64) -> Self {
        self.settings.max_request_body = Some(bytes);
        self
    }

    /// The longest response body that is stored, in bytes; 256 KiB by default. A longer one is
    /// sent and not stored: a retry is told that the operation is done. Zero stores no body but an
    /// empty one.
    pub fn max_stored_body(mut self, bytes: usize) -> Self {
        self.settings.max_stored_body = bytes;
        self
    }

    /// The most bytes of response headers that are stored; 16 KiB by default. Beyond that only
    /// `Location` is kept, and no body.
    pub fn max_stored_headers(mut self, bytes: usize) -> Self {
        self.settings.max_stored_headers = bytes;
        self
    }

    /// How many requests may wait for one key, and for all keys; 16 and 1 024 by default. Beyond
    /// that a request is refused at once; with zero each is.
    pub fn max_waiters(mut self, per_key: usize, total: usize) -> Self {
        self.settings.waiters = WaiterLimits { per_key, total };
        self
    }

    /// Stores and replays a response header that is not kept by default, such as `Set-Cookie`.
    ///
    /// Kept are all headers of a response but these:
    ///
    /// * those that frame a message or belong to one connection, which can never be kept:
    ///   `Connection` and what it lists, `Content-Length`, `Date`, `Keep-Alive`,
    ///   `Proxy-Authenticate`, `Proxy-Authorization`, `Proxy-Connection`, `TE`, `Trailer`,
    ///   `Transfer-Encoding`, `Upgrade`. `Content-Length` and `Date` are made anew;
    /// * those that speak of the first exchange, which can be asked for: `Access-Control-*`, `Age`,
    ///   `Alt-Svc`, `Authentication-Info`, `NEL`, `RateLimit*`, `Report-To`, `Request-Id`, `Server`,
    ///   `Server-Timing`, `Set-Cookie`, `Strict-Transport-Security`, `traceparent`, `tracestate`,
    ///   `Via`, `WWW-Authenticate`, `X-RateLimit-*`, `X-Request-Id`.
    ///
    /// # Examples
    /// ```
    /// use idem_core::{Builder, MemoryStore, RecordBody};
    #[doc = include_str!("adapter/bare.md")]
    ///
    /// let idem: Bare = Builder::new(MemoryStore::new())
    ///     .keep_header("Set-Cookie")
    ///     .drop_header("Link")
    ///     .build()?;
    /// let lines = [
    ///     ("location", &b"/payments/7"[..]),
    ///     ("link", b"</terms>"),
    ///     ("set-cookie", b"seen=1"),
    ///     ("server", b"shop"),
    /// ];
    /// let record = idem.engine.record(201, lines.into_iter(), RecordBody::NotKept);
    /// let kept: Vec<_> = record.headers.iter().map(|(name, _)| name.as_ref()).collect();
    /// assert_eq!(kept, [&b"location"[..], b"set-cookie"]);
    ///
    /// // What frames a message cannot be kept.
    /// assert!(Builder::<Bare>::new(MemoryStore::new()).keep_header("Date").build().is_err());
    /// # Ok::<(), idem_core::ConfigError>(())
    /// ```
    pub fn keep_header(mut self, name: &str) -> Self {
        let name = self.header_name("keep_header", name);
        if !may_be_kept(&name) {
            self.error.get_or_insert(ConfigError::Invalid {
                setting: "keep_header",
                expected: "a header that does not belong to one connection or message",
            });
        }
        self.settings.headers.kept.push(name);
        self
    }

    /// Does not store or replay a response header that is kept by default. It wins over
    /// [`keep_header`](Self::keep_header), whose example shows both.
    pub fn drop_header(mut self, name: &str) -> Self {
        let name = self.header_name("drop_header", name);
        self.settings.headers.dropped.push(name);
        self
    }

    /// The header that marks a replay; `Idempotent-Replayed` by default. Its value is `true`.
    pub fn replay_marker(mut self, name: &str) -> Self {
        let name = self.header_name("replay_marker", name);
        if !may_be_kept(&name) || name.starts_with("content-") || *name == *"location" {
            self.error.get_or_insert(ConfigError::Invalid {
                setting: "replay_marker",
                expected: "a header that says nothing of the answer itself",
            });
        }
        self.settings.marker = name;
        self
    }

    /// What the `type` of a problem document starts with; the code follows it. It may be a path, a
    /// URN, or end in a `#`. The documentation of [`refusal`](crate::refusal) by default.
    pub fn problem_base(mut self, base: &str) -> Self {
        if base.is_empty() || !base.bytes().all(may_be_in_a_uri) {
            self.error.get_or_insert(ConfigError::Invalid {
                setting: "problem_base",
                expected: "a URI",
            });
        }
        self.settings.problem_base = base.into();
        self
    }

    /// Answers refusals in the application's own words instead of with a problem document.
    ///
    /// What it returns is the body. Its status and its `Retry-After` are those of the refusal unless
    /// it sets others (a status of 200 is none): by them clients tell what to repeat.
    /// It may be whatever a handler of the framework may return.
    ///
    /// # Examples
    /// ```
    /// use idem_core::{Builder, MemoryStore, Record, Rejection};
    #[doc = include_str!("adapter/bare.md")]
    ///
    /// // With axum, any `impl IntoResponse` in place of a `Record`.
    /// let idem: Bare = Builder::new(MemoryStore::new())
    ///     .reject_with(|rejection: &Rejection, _parts: &http::request::Parts| {
    ///         Record::new(200, format!("no: {}", rejection.code()))
    ///     })
    ///     .build()?;
    ///
    /// let render = idem.renderer.expect("it was set");
    /// let (parts, ()) = http::Request::new(()).into_parts();
    /// let answer = render(&Rejection::InProgress { retry_after: 2 }, &parts);
    /// assert_eq!(answer, Record::new(200, "no: in-progress"));
    /// # Ok::<(), idem_core::ConfigError>(())
    /// ```
    pub fn reject_with<R>(
        mut self,
        render: impl Fn(&Rejection, &A::Parts) -> R + Send + Sync + 'static,
    ) -> Self
    where
        A: Render<R>,
    {
        self.renderer = Some(Arc::new(move |rejection, parts| {
            A::render(render(rejection, parts), parts)
        }));
        self
    }

    /// Hears every event, beside the log and the counts. There may be any number of observers.
    ///
    /// # Examples
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// use idem_core::{
    ///     Builder, MemoryStore, Policy,
    ///     observe::{Event, EventKind, Observer},
    /// };
    #[doc = include_str!("adapter/bare.md")]
    ///
    /// static UNPROTECTED: AtomicU64 = AtomicU64::new(0);
    ///
    /// #[derive(Debug)]
    /// struct Metrics;
    ///
    /// impl Observer for Metrics {
    ///     fn observe(&self, event: &Event<'_>) {
    ///         if let EventKind::Unprotected = event.kind {
    ///             UNPROTECTED.fetch_add(1, Ordering::Relaxed);
    ///         }
    ///     }
    /// }
    ///
    /// let idem: Bare = Builder::new(MemoryStore::new()).observer(Metrics).build()?;
    /// static POLICY: Policy = Policy::new("shop::create_payment");
    /// let _ = idem.engine.admit(&POLICY, "POST", || Some("/payments"), []);
    /// assert_eq!(UNPROTECTED.load(Ordering::Relaxed), 1);
    /// assert_eq!(idem.engine.counts().unprotected, 1);
    /// # Ok::<(), idem_core::ConfigError>(())
    /// ```
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observers.push(Arc::new(observer));
        self
    }

    /// The longest wait for one answer of the store; 1 s by default. A claim is tried three times
    /// within it.
    pub fn store_timeout(mut self, limit: Duration) -> Self {
        self.settings.store_timeout = limit;
        self.keeper.store_timeout = limit;
        self
    }

    /// What happens to keyed requests while the store is down or full; they are refused by default.
    ///
    /// # Examples
    /// ```
    /// use idem_core::{
    ///     Builder, Caller, Fingerprint, MemoryStore, MemoryStoreOptions, Policy, RequestHead,
    ///     Selection, StoreDown,
    ///     engine::{Admission, Begun, Keyed},
    /// };
    #[doc = include_str!("adapter/bare.md")]
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), idem_core::ConfigError> {
    /// let full = MemoryStore::with_options(MemoryStoreOptions::default().with_max_records(0));
    /// let idem: Bare = Builder::new(full).on_store_down(StoreDown::Execute).build()?;
    ///
    /// static POLICY: Policy = Policy::new("shop::create_payment");
    /// # let admission = idem.engine.admit(&POLICY, "POST", || Some("/payments"), [&b"order-17"[..]]);
    /// # let Admission::Keyed(admitted) = admission else { panic!("there is a key") };
    /// # let request = Keyed {
    /// #     admitted,
    /// #     caller: Caller::User("ada".to_owned()),
    /// #     fingerprint: Fingerprint::of(&RequestHead::new("POST", "/payments"), b"{}"),
    /// #     attempt: None,
    /// #     selection: Selection::new(),
    /// # };
    /// // The handler of this keyed request is to run, and nothing protects it.
    /// assert!(matches!(idem.engine.begin(request).await, Begun::Bypassed));
    /// assert_eq!(idem.engine.counts().bypassed, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_store_down(mut self, store_down: StoreDown) -> Self {
        self.settings.store_down = store_down;
        self
    }

    /// How long a handler's lease is renewed; 10 min by default. After that it lapses, and an equal
    /// request may run while the handler still does.
    pub fn max_execution(mut self, limit: Duration) -> Self {
        self.keeper.max_execution = limit;
        self
    }

    /// How often expired records are dropped from the store, from the first keyed request on; 60 s by
    /// default, and once an hour when none of this engine's can be left.
    pub fn purge_every(mut self, interval: Duration) -> Self {
        self.keeper.purge_every = Some(interval);
        self
    }

    /// Leaves the dropping of expired records to others, such as a job of the database. A store that
    /// nobody purges grows for ever, unless it drops them itself.
    ///
    /// # Examples
    /// ```
    /// use idem_core::{Builder, MemoryStore};
    #[doc = include_str!("adapter/bare.md")]
    ///
    /// # fn main() -> Result<(), idem_core::ConfigError> {
    /// let idem: Bare = Builder::new(MemoryStore::new()).without_purge().build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn without_purge(mut self) -> Self {
        self.keeper.purge_every = None;
        self
    }

    /// Renews leases on this runtime instead of on a thread of its own.
    ///
    /// For tests that pause tokio's clock, which is a clock for each runtime. In production a
    /// handler that blocks this runtime would lose its lease.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// use idem_core::{Builder, MemoryStore};
    /// use tokio::runtime::Handle;
    #[doc = include_str!("adapter/bare.md")]
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), idem_core::ConfigError> {
    /// // In a `#[tokio::test(start_paused = true)]`:
    /// let idem: Bare = Builder::new(MemoryStore::new()).renew_on(Handle::current()).build()?;
    /// tokio::time::advance(Duration::from_hours(1)).await;
    /// assert_eq!(idem.engine.counts().renewals_late, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn renew_on(mut self, runtime: Handle) -> Self {
        self.keeper.runtime = Some(runtime);
        self
    }

    /// Builds the engine.
    ///
    /// # Errors
    /// [`ConfigError`] names the first setting that is wrong, and says what would be right.
    ///
    /// # Examples
    /// ```
    /// use idem_core::{Builder, MemoryStore};
    #[doc = include_str!("adapter/bare.md")]
    ///
    /// assert!(Builder::<Bare>::new(MemoryStore::new()).build().is_ok());
    /// let wrong = Builder::<Bare>::new(MemoryStore::new()).replay_marker("").build();
    /// let error = wrong.err().expect("no name of a header");
    /// assert_eq!(error.to_string(), "`replay_marker` must be the name of a header");
    /// ```
    pub fn build(self) -> Result<A, ConfigError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let defaults = &self.settings.defaults;
        let durations = [
            ("ttl", defaults.ttl),
            ("lease", defaults.lease),
            ("wait", defaults.wait.unwrap_or(LONGEST)),
            ("store_timeout", self.settings.store_timeout),
            ("max_execution", self.keeper.max_execution),
            ("purge_every", self.keeper.purge_every.unwrap_or(LONGEST)),
        ];
        if let Some((setting, _)) = durations.iter().find(|(_, value)| value.is_zero()) {
            return Err(ConfigError::Zero { setting });
        }
        if let Some((setting, _)) = durations.iter().find(|(_, value)| *value > LONGEST) {
            let expected = "at most 36500 days";
            return Err(ConfigError::Invalid { setting, expected });
        }
        if self.settings.max_key_len == 0 {
            return Err(ConfigError::Zero {
                setting: "max_key_len",
            });
        }
        let observers = Arc::new(Observers::new(self.observers));
        let keeper = Keeper::new(Arc::clone(&self.store), Arc::clone(&observers), self.keeper);
        let engine = Engine::new(self.store, self.settings, keeper, observers);
        Ok(A::install(engine, self.callers, self.renderer))
    }

    /// Checks a header name and puts it into lower case, in which headers are compared.
    fn header_name(&mut self, setting: &'static str, name: &str) -> Box<str> {
        if let Ok(name) = http::HeaderName::try_from(name) {
            name.as_str().into()
        } else {
            self.error.get_or_insert(ConfigError::Invalid {
                setting,
                expected: "the name of a header",
            });
            name.into()
        }
    }
}

/// As the attribute takes it, which reads `endpoint` as no resolver at all.
fn is_scope_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    !name.is_empty() && name != "endpoint" && name.bytes().all(allowed)
}

impl<A: Adapter> fmt::Debug for Builder<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("store", &self.store)
            .field("settings", &self.settings)
            .field("callers", &self.callers)
            .finish_non_exhaustive()
    }
}

/// Whether a URI may have this octet.
///
/// Source: RFC 3986, section 2 "Characters".
fn may_be_in_a_uri(octet: u8) -> bool {
    octet.is_ascii_alphanumeric() || b"%-._~:/?#[]@!$&'()*+,;=".contains(&octet)
}

#[cfg(all(test, feature = "memory"))]
mod tests {
    use super::*;
    use crate::{MemoryStore, Principal};

    /// A framework that has nothing.
    #[derive(Debug)]
    struct Bare;

    impl Adapter for Bare {
        type Parts = ();
        type Response = ();

        fn principal((): &()) -> Option<Principal> {
            None
        }

        fn install(_: Engine, _: Callers<Self>, _: Option<Renderer<Self>>) -> Self {
            Self
        }
    }

    fn refusal(set: impl FnOnce(Builder<Bare>) -> Builder<Bare>) -> String {
        let built = set(Builder::new(MemoryStore::new())).build();
        built.expect_err("a wrong setting").to_string()
    }

    #[test]
    fn a_duration_is_neither_zero_nor_for_ever() {
        type Set = fn(Builder<Bare>, Duration) -> Builder<Bare>;
        let settings: [(&str, Set); 6] = [
            ("ttl", Builder::ttl),
            ("lease", Builder::lease),
            ("wait", Builder::wait),
            ("store_timeout", Builder::store_timeout),
            ("max_execution", Builder::max_execution),
            ("purge_every", Builder::purge_every),
        ];
        for (name, set) in settings {
            let said = |duration| refusal(|builder| set(builder, duration));
            assert_eq!(said(Duration::ZERO), format!("`{name}` must not be zero"));
            assert_eq!(
                said(Duration::MAX),
                format!("`{name}` must be at most 36500 days")
            );
        }
    }

    #[test]
    fn a_scope_has_the_name_that_an_attribute_can_give_it() {
        for name in ["", "endpoint", "tenant+user", "a b"] {
            let said = refusal(|builder| builder.scope(name, |()| None::<String>));
            assert!(said.starts_with("`scope` must be a name"), "{name}: {said}");
        }
    }

    #[test]
    fn a_marker_does_not_take_the_place_of_what_it_marks() {
        for name in ["content-type", "Location", "connection"] {
            let said = refusal(|builder| builder.replay_marker(name));
            assert!(
                said.starts_with("`replay_marker` must be"),
                "{name}: {said}"
            );
        }
    }

    #[test]
    fn the_name_of_a_header_is_checked_at_start() {
        let rule = "must be the name of a header";
        for name in ["", "no token", "key:", "schlüssel", "a\r\nb"] {
            assert_eq!(refusal(|b| b.header(name)), format!("`header` {rule}"));
            assert_eq!(
                refusal(|b| b.keep_header(name)),
                format!("`keep_header` {rule}")
            );
            assert_eq!(
                refusal(|b| b.drop_header(name)),
                format!("`drop_header` {rule}")
            );
            assert_eq!(
                refusal(|b| b.replay_marker(name)),
                format!("`replay_marker` {rule}")
            );
        }
    }

    #[test]
    fn a_header_that_frames_a_message_cannot_be_kept() {
        for name in ["Content-Length", "date", "transfer-encoding", "Connection"] {
            assert_eq!(
                refusal(|b| b.keep_header(name)),
                "`keep_header` must be a header that does not belong to one connection or message"
            );
        }
    }

    #[test]
    fn zero_is_no_duration_and_no_length() {
        let zero = Duration::ZERO;
        for (setting, refusal) in [
            ("ttl", refusal(|b| b.ttl(zero))),
            ("lease", refusal(|b| b.lease(zero))),
            ("wait", refusal(|b| b.wait(zero))),
            ("store_timeout", refusal(|b| b.store_timeout(zero))),
            ("max_execution", refusal(|b| b.max_execution(zero))),
            ("purge_every", refusal(|b| b.purge_every(zero))),
            ("max_key_len", refusal(|b| b.max_key_len(0))),
        ] {
            assert_eq!(refusal, format!("`{setting}` must not be zero"));
        }
    }

    #[test]
    fn a_scope_has_one_resolver() {
        let resolver = |(): &()| None::<String>;
        assert_eq!(
            refusal(|b| b.scope("tenant", resolver).scope("tenant", resolver)),
            "the scope `tenant` has two resolvers"
        );
    }

    #[test]
    fn the_base_of_problem_types_is_a_uri() {
        for base in [
            "https://example.com/errors#",
            "https://example.com/errors?code=",
            "urn:example:errors:",
            "tag:example.com,2026:",
            "/errors/",
        ] {
            let built = Builder::<Bare>::new(MemoryStore::new())
                .problem_base(base)
                .build();
            assert!(built.is_ok(), "{base}");
        }
        for base in [
            "",
            "no uri",
            "https://example.com/\"",
            "https://exämple.com/",
        ] {
            assert_eq!(
                refusal(|b| b.problem_base(base)),
                "`problem_base` must be a URI"
            );
        }
    }

    #[test]
    fn the_first_wrong_setting_is_named() {
        assert_eq!(
            refusal(|b| b.drop_header("").header("").ttl(Duration::ZERO)),
            "`drop_header` must be the name of a header"
        );
    }
}
