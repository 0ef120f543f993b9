//! One running service and its client: a framework, a store, and the settings of a scenario.

use std::{
    collections::BTreeMap,
    fmt,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use idem_core::{
    Adapter, Builder, Caller, Counts, Drained, IdempotencyKey, KeyRules, Required, StorageKey,
    Store, StoreError,
    observe::Observer,
    store::{Fence, Resolve, Resolved, Summary},
};
use tokio::{
    runtime::{Handle as RuntimeHandle, Runtime},
    task::JoinHandle,
};

use crate::{
    actix_app,
    app::App,
    axum_app,
    client::{Answer, Call, Protocol},
    connection::Connection,
    logs,
    store::{Backend, TestStore},
};

/// A framework that scenarios run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framework {
    /// axum.
    Axum,
    /// actix-web.
    Actix,
}

/// A store that scenarios run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreKind {
    /// The embedded one.
    Memory,
    /// Redis.
    Redis,
    /// Postgres.
    Postgres,
}

/// A framework, a store and a protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The framework.
    pub framework: Framework,
    /// The store.
    pub store: StoreKind,
    /// What requests are sent over, unless they say so themselves.
    pub protocol: Protocol,
}

/// What time a store goes by. The renewal of leases always goes by the real one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Time {
    /// That of a clock which stands still until the scenario turns it.
    #[default]
    Turned,
    /// The real one.
    Real,
}

/// Where a service runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Workers {
    /// On the runtime of the scenario.
    #[default]
    Shared,
    /// On a runtime of its own, with one worker.
    One,
}

/// What a scenario sets on the engine; what it leaves open is as an application would have it.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// The life of a completed record.
    pub ttl: Option<Duration>,
    /// How long a claim lives unrenewed.
    pub lease: Option<Duration>,
    /// How long a request waits for another.
    pub wait: Option<Duration>,
    /// Who must send a key.
    pub required: Option<Required>,
    /// The longest key.
    pub max_key_len: Option<usize>,
    /// The longest request body.
    pub max_request_body: Option<u64>,
    /// The longest stored body.
    pub max_stored_body: Option<usize>,
    /// The longest stored headers.
    pub max_stored_headers: Option<usize>,
    /// How many may wait, for a key and in all.
    pub max_waiters: Option<(usize, usize)>,
    /// How long renewal goes on.
    pub max_execution: Option<Duration>,
    /// How many records the embedded store takes.
    pub max_records: Option<usize>,
    /// How many bytes it takes.
    pub max_bytes: Option<usize>,
    /// How often expired records are dropped.
    pub purge_every: Option<Duration>,
    /// Whether refusals have the application's own envelope.
    pub envelope: bool,
    /// Whether the engine is left out.
    pub no_engine: bool,
    /// Whether a panic becomes a 500, instead of a closed connection.
    pub catch_panic: bool,
    /// Another header for the key.
    pub header: Option<&'static str>,
    /// Headers that are kept although they are not by default.
    pub keep_headers: Vec<&'static str>,
    /// Headers that are not kept although they are by default.
    pub drop_headers: Vec<&'static str>,
    /// Another name for the header that marks a replay.
    pub replay_marker: Option<&'static str>,
    /// What the types of refusals start with.
    pub problem_base: Option<&'static str>,
    /// What keeps the records of this service apart from those of others in its store.
    pub namespace: Option<&'static str>,
    /// The longest wait for one answer of the store.
    pub store_timeout: Option<Duration>,
    /// What time the store goes by.
    pub time: Time,
    /// Where the service runs.
    pub workers: Workers,
    /// Who hears the events.
    pub observer: Option<Arc<dyn Observer>>,
}

impl Setup {
    /// Puts the settings on a builder of any framework.
    pub(crate) fn apply<A: Adapter>(&self, mut builder: Builder<A>) -> Builder<A> {
        if let Some(ttl) = self.ttl {
            builder = builder.ttl(ttl);
        }
        if let Some(lease) = self.lease {
            builder = builder.lease(lease);
        }
        if let Some(wait) = self.wait {
            builder = builder.wait(wait);
        }
        if let Some(required) = self.required {
            builder = builder.required(required);
        }
        if let Some(bytes) = self.max_key_len {
            builder = builder.max_key_len(bytes);
        }
        if let Some(bytes) = self.max_request_body {
            builder = builder.max_request_body(bytes);
        }
        if let Some(bytes) = self.max_stored_body {
            builder = builder.max_stored_body(bytes);
        }
        if let Some(bytes) = self.max_stored_headers {
            builder = builder.max_stored_headers(bytes);
        }
        if let Some((per_key, total)) = self.max_waiters {
            builder = builder.max_waiters(per_key, total);
        }
        if let Some(limit) = self.max_execution {
            builder = builder.max_execution(limit);
        }
        if let Some(limit) = self.store_timeout {
            builder = builder.store_timeout(limit);
        }
        if let Some(interval) = self.purge_every {
            builder = builder.purge_every(interval);
        }
        if let Some(name) = self.header {
            builder = builder.header(name);
        }
        for name in &self.keep_headers {
            builder = builder.keep_header(name);
        }
        for name in &self.drop_headers {
            builder = builder.drop_header(name);
        }
        if let Some(name) = self.replay_marker {
            builder = builder.replay_marker(name);
        }
        if let Some(base) = self.problem_base {
            builder = builder.problem_base(base);
        }
        if let Some(name) = self.namespace {
            builder = builder.namespace(name);
        }
        if let Some(observer) = &self.observer {
            builder = builder.observer(Shared(Arc::clone(observer)));
        }
        builder
    }
}

#[derive(Debug)]
struct Shared(Arc<dyn Observer>);

impl Observer for Shared {
    fn observe(&self, event: &idem_core::observe::Event<'_>) {
        self.0.observe(event);
    }
}

/// What a scenario needs of an engine, whichever framework holds it.
#[async_trait]
pub trait Handle: Send + Sync {
    /// How often each thing happened.
    fn counts(&self) -> Counts;
    /// Shuts the engine down.
    async fn drain(&self, limit: Duration) -> Drained;
    /// Looks a key up.
    async fn lookup(
        &self,
        caller: &Caller,
        operation: &str,
        key: &IdempotencyKey,
    ) -> Result<Option<Summary>, StoreError>;
    /// Decides about a key.
    async fn resolve(
        &self,
        caller: &Caller,
        operation: &str,
        key: &IdempotencyKey,
        seen: Fence,
        how: Resolve,
    ) -> Result<Resolved, StoreError>;
}

macro_rules! handle {
    ($($handle:ty),*) => {
        $(
            #[async_trait]
            impl Handle for $handle {
                fn counts(&self) -> Counts {
                    Self::counts(self)
                }

                async fn drain(&self, limit: Duration) -> Drained {
                    Self::drain(self, limit).await
                }

                async fn lookup(
                    &self,
                    caller: &Caller,
                    operation: &str,
                    key: &IdempotencyKey,
                ) -> Result<Option<Summary>, StoreError> {
                    Self::lookup(self, caller, operation, key).await
                }

                async fn resolve(
                    &self,
                    caller: &Caller,
                    operation: &str,
                    key: &IdempotencyKey,
                    seen: Fence,
                    how: Resolve,
                ) -> Result<Resolved, StoreError> {
                    Self::resolve(self, caller, operation, key, seen, how).await
                }
            }
        )*
    };
}

handle!(idem_axum::Idempotency, idem_actix::Idempotency);

/// How many services this process has started.
static WORLDS: AtomicUsize = AtomicUsize::new(0);

/// A running service and its client.
pub struct World {
    /// What the handlers share with the test: the ledger, and the gates.
    pub app: App,
    /// Where the service listens.
    pub addr: SocketAddr,
    /// The store, which the scenario can watch and disturb.
    pub store: TestStore,
    /// What the requests are called in the log.
    name: String,
    row: Row,
    client: reqwest::Client,
    idem: Box<dyn Handle>,
    server: JoinHandle<()>,
    /// Ends with the service.
    _home: Home,
}

impl World {
    /// Starts a service on a free port.
    ///
    /// # Panics
    /// If it cannot be started.
    pub async fn start(row: Row, setup: Setup) -> Self {
        logs::listen();
        let home = Home::new(setup.workers);
        // Opened where the service runs: its connections live there.
        let opening = {
            let setup = setup.clone();
            async move {
                match row.store {
                    StoreKind::Memory => Backend::memory(&setup),
                    StoreKind::Redis => Backend::redis().await,
                    StoreKind::Postgres => Backend::postgres().await,
                }
            }
        };
        let backend = home.run(opening).await;
        Self::serve(row, setup, App::default(), TestStore::new(backend), home).await
    }

    /// Starts a service over a store that the scenario has opened. Its time is the real one.
    pub async fn over(row: Row, setup: Setup, store: Arc<dyn Store>) -> Self {
        logs::listen();
        let store = TestStore::new(Backend::Opened(store));
        let home = Home::new(setup.workers);
        Self::serve(row, setup, App::default(), store, home).await
    }

    async fn serve(row: Row, setup: Setup, app: App, store: TestStore, home: Home) -> Self {
        let start = {
            let (app, store) = (app.clone(), store.clone());
            async move {
                match row.framework {
                    Framework::Axum => axum_app::start(app, store, &setup).await,
                    Framework::Actix => actix_app::start(app, store, &setup).await,
                }
            }
        };
        let (addr, idem, server) = home.run(start).await;
        Self {
            app,
            addr,
            store,
            name: format!("world-{}.", WORLDS.fetch_add(1, Ordering::Relaxed)),
            row,
            client: row.protocol.client(),
            idem,
            server,
            _home: home,
        }
    }

    /// The framework that it runs on.
    pub fn framework(&self) -> Framework {
        self.row.framework
    }

    /// Starts another service of the same row with other settings.
    pub async fn again(&self, setup: Setup) -> Self {
        Self::start(self.row, setup).await
    }

    /// Starts another service of the same application, over the same store: another replica.
    pub async fn beside(&self, setup: Setup) -> Self {
        let (app, store) = (self.app.clone(), self.store.clone());
        let home = Home::new(setup.workers);
        let store = home
            .run(async move { store.again().await.expect("the store opens") })
            .await;
        Self::serve(self.row, setup, app, store, home).await
    }

    /// Opens a bare connection.
    pub async fn connect(&self) -> Connection {
        Connection::open(self.addr).await
    }

    /// Sends bytes on a connection of their own and takes the answer.
    ///
    /// # Panics
    /// If there is none.
    pub async fn raw(&self, request: impl AsRef<[u8]>) -> Answer {
        let mut connection = self.connect().await;
        connection.write(request.as_ref()).await;
        connection.answer().await.expect("an answer")
    }

    /// The name of the record that `ada` has for this key, in the store and in the logs.
    ///
    /// # Panics
    /// If the key is none.
    pub fn record(&self, operation: &str, key: &str) -> StorageKey {
        self.record_of("ada", operation, key)
    }

    /// The name of the record that a user has for this key.
    ///
    /// # Panics
    /// If the key is none.
    pub fn record_of(&self, user: &str, operation: &str, key: &str) -> StorageKey {
        let user = Caller::User(user.to_owned());
        StorageKey::derive("", &user, operation, &parse(key))
    }

    /// What support staff are told of the key of `ada`.
    ///
    /// # Panics
    /// If the store does not answer.
    pub async fn lookup(&self, operation: &str, key: &str) -> Option<Summary> {
        let found = self.idem.lookup(&ada(), operation, &parse(key)).await;
        found.expect("the store answers")
    }

    /// Decides about the key of `ada`, which was seen with this fence.
    ///
    /// # Panics
    /// If the store does not answer.
    pub async fn resolve(&self, operation: &str, key: &str, seen: Fence, how: Resolve) -> Resolved {
        let key = parse(key);
        let resolved = self.idem.resolve(&ada(), operation, &key, seen, how).await;
        resolved.expect("the store answers")
    }

    /// The text with the name of this world: no other world says it.
    pub fn own(&self, text: &str) -> String {
        format!("{text}-{}", self.name)
    }

    /// What was logged while the requests of this world were served, at every level.
    pub fn logs(&self) -> Vec<String> {
        logs::lines_with(&self.name)
    }

    /// A request by `ada`.
    pub fn call(&self, method: &str, path: &str) -> Call {
        Call::new(self.client.clone(), self.addr, method, path).set("x-request-id", &self.name)
    }

    /// A POST by `ada`.
    pub fn post(&self, path: &str) -> Call {
        self.call("POST", path)
    }

    /// Lets the store's time pass. The handlers and their leases' renewal go by the real one.
    ///
    /// # Panics
    /// If the store goes by the real time.
    pub async fn advance(&self, by: Duration) {
        self.store.advance(by).await;
    }

    /// How long before an end a scenario may look at a record and find it there: as little as can be told
    /// where time stands still, and a while where a server's time goes on meanwhile.
    pub fn moment(&self) -> Duration {
        match self.row.store {
            StoreKind::Memory => Duration::from_millis(1),
            StoreKind::Redis | StoreKind::Postgres => Duration::from_secs(1),
        }
    }

    /// A lease that is soon renewed, and yet does not end while a scenario looks at it.
    pub fn short_lease(&self) -> Duration {
        match self.row.store {
            StoreKind::Memory => Duration::from_millis(300),
            // A server's time goes on, on a busy machine too.
            StoreKind::Redis | StoreKind::Postgres => Duration::from_secs(3),
        }
    }

    /// As much of a lease as may pass before a scenario looks whether it is live.
    pub fn most_of(&self, lease: Duration) -> Duration {
        match self.row.store {
            StoreKind::Memory => lease * 9 / 10,
            StoreKind::Redis | StoreKind::Postgres => lease * 2 / 3,
        }
    }

    /// A time that goes with the embedded store, made longer by as much as a call of a server is.
    pub fn pace(&self, time: Duration) -> Duration {
        match self.row.store {
            StoreKind::Memory => time,
            StoreKind::Redis => time * 4,
            StoreKind::Postgres => time * 10,
        }
    }

    /// How often a scenario repeats what it does `times` times with the embedded store: a tenth of that
    /// where each call goes to a server.
    pub fn rounds(&self, times: usize) -> usize {
        match self.row.store {
            StoreKind::Memory => times,
            StoreKind::Redis | StoreKind::Postgres => times / 10,
        }
    }

    /// How many records the store holds, with those that have expired and were not dropped yet.
    pub async fn records(&self) -> usize {
        self.store.records().await
    }

    /// Waits until the store holds so many records, for at most ten seconds.
    ///
    /// # Panics
    /// If it never does.
    pub async fn until_records(&self, records: usize) {
        for _ in 0..1_000 {
            if self.records().await == records {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("never came to be: {} records", self.records().await);
    }

    /// How often each thing happened.
    pub fn counts(&self) -> Counts {
        self.idem.counts()
    }

    /// Shuts the engine down.
    pub async fn drain(&self, limit: Duration) -> Drained {
        self.idem.drain(limit).await
    }

    /// Waits until the counts are as `wanted`, for at most ten seconds: for what happens after the
    /// last answer, such as the end of a handler whose client is gone.
    ///
    /// # Panics
    /// If they do not become so.
    pub async fn until(&self, wanted: impl Fn(&Counts) -> bool) -> Counts {
        for _ in 0..1_000 {
            let counts = self.counts();
            if wanted(&counts) {
                return counts;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("never came to be: {:?}", self.counts());
    }

    /// Waits until so many handlers go on without their clients, where the framework notices that:
    /// actix-web lets a stream of HTTP/2 run to its end, whether or not its client has cancelled it.
    pub async fn until_left(&self, handlers: u64) {
        if self.row.framework == Framework::Axum || self.row.protocol == Protocol::Http1 {
            self.until(|counts| counts.detached == handlers).await;
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// The runtime that a service runs on: that of the scenario, or one of its own.
struct Home(Option<Runtime>);

impl Home {
    fn new(workers: Workers) -> Self {
        Self(match workers {
            Workers::Shared => None,
            Workers::One => {
                let mut runtime = tokio::runtime::Builder::new_multi_thread();
                let built = runtime.worker_threads(1).enable_all().build();
                Some(built.expect("a runtime"))
            }
        })
    }

    /// Carries something out there.
    async fn run<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> T {
        let runtime = self.0.as_ref();
        let home = runtime.map_or_else(RuntimeHandle::current, |runtime| runtime.handle().clone());
        home.spawn(task)
            .await
            .expect("the settings of a scenario are valid")
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // Waiting for it is not allowed here.
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World")
            .field("row", &self.row)
            .field("addr", &self.addr)
            .finish_non_exhaustive()
    }
}

fn ada() -> Caller {
    Caller::User("ada".to_owned())
}

fn parse(key: &str) -> IdempotencyKey {
    IdempotencyKey::parse(key.as_bytes(), &KeyRules::default()).expect("a key")
}

/// Path parameters, in a form that both frameworks can give.
pub type Params = BTreeMap<String, String>;
