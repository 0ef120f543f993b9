//! One running service and its client: a framework, a store, and the settings of a scenario.

use std::{
    collections::BTreeMap, fmt, future::Future, net::SocketAddr, pin::Pin, sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use idem_core::{
    Adapter, Builder, Caller, Counts, Drained, IdempotencyKey, KeyRules, MemoryStore,
    MemoryStoreOptions, Required, StorageKey, observe::Observer,
};
use tokio::task::JoinHandle;

use crate::{app::App, axum_app, client::Call, clock::Clock, logs};

/// A framework that scenarios run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framework {
    /// axum.
    Axum,
}

/// A store that scenarios run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreKind {
    /// The embedded one.
    Memory,
}

/// A framework and a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The framework.
    pub framework: Framework,
    /// The store.
    pub store: StoreKind,
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
pub trait Handle: Send + Sync {
    /// How often each thing happened.
    fn counts(&self) -> Counts;
    /// Shuts the engine down.
    fn drain(&self, limit: Duration) -> Pin<Box<dyn Future<Output = Drained> + Send + '_>>;
}

/// A store with its clock.
#[derive(Clone)]
pub(crate) enum TestStore {
    /// The embedded one.
    Memory(MemoryStore),
}

/// A running service and its client.
pub struct World {
    /// What the handlers share with the test: the ledger, and the gates.
    pub app: App,
    /// Where the service listens.
    pub addr: SocketAddr,
    row: Row,
    client: reqwest::Client,
    idem: Box<dyn Handle>,
    store: TestStore,
    clock: Clock,
    server: JoinHandle<()>,
}

impl World {
    /// Starts a service on a free port.
    ///
    /// # Panics
    /// If it cannot be started.
    pub async fn start(row: Row, setup: Setup) -> Self {
        logs::listen();
        let (clock, store) = match row.store {
            StoreKind::Memory => {
                let mut options = MemoryStoreOptions::default();
                if let Some(records) = setup.max_records {
                    options = options.with_max_records(records);
                }
                Clock::with(move || TestStore::Memory(MemoryStore::with_options(options)))
            }
        };
        let app = App::default();
        let (addr, idem, server) = match row.framework {
            Framework::Axum => axum_app::start(app.clone(), store.clone(), &setup).await,
        };
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()
            .expect("a client");
        Self {
            app,
            addr,
            row,
            client,
            idem,
            store,
            clock,
            server,
        }
    }

    /// Starts another service of the same row with other settings.
    pub async fn again(&self, setup: Setup) -> Self {
        Self::start(self.row, setup).await
    }

    /// A request by `ada`.
    pub fn call(&self, method: &str, path: &str) -> Call {
        Call::new(self.client.clone(), self.addr, method, path)
    }

    /// A POST by `ada`.
    pub fn post(&self, path: &str) -> Call {
        self.call("POST", path)
    }

    /// Lets the store's time pass. The handlers and their leases' renewal go by the real one.
    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    /// How often each thing happened.
    pub fn counts(&self) -> Counts {
        self.idem.counts()
    }

    /// What was logged while a request of this service was served, at every level.
    pub fn logs(&self) -> Vec<String> {
        logs::lines_with(self.app.name())
    }

    /// Puts bytes that no build can read in the place of the answer stored under this key.
    ///
    /// # Panics
    /// If there is none.
    pub fn spoil(&self, user: &str, operation: &str, key: &str) {
        let key = IdempotencyKey::parse(key.as_bytes(), &KeyRules::default());
        let key = key.expect("a valid key");
        let id = StorageKey::derive("", &Caller::User(user.to_owned()), operation, &key);
        let TestStore::Memory(store) = &self.store;
        let spoilt = store.swap_response(&id, Bytes::from_static(b"\xffspoilt"));
        spoilt.expect("a completed record");
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
}

impl Drop for World {
    fn drop(&mut self) {
        self.server.abort();
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

/// Path parameters, in a form that both frameworks can give.
pub type Params = BTreeMap<String, String>;
