//! The one async flow: admit, claim, decide; then run the handler and settle.
//!
//! It carries out what [`decide`](crate::decide) says and decides nothing about the protocol. What
//! happens under a claim is in `claimed`.

mod claimed;

use std::{error::Error, fmt, future::Future, sync::Arc, time::Duration};

use backon::{BackoffBuilder, ExponentialBuilder};
use tokio::{
    runtime::Handle,
    time::{Instant, sleep, timeout},
};

pub use self::claimed::{Claimed, Panic, Ran, Reply};
use crate::{
    attempt::Attempt,
    decide::{Action, Patience, decide},
    error::{NotConfigured, StoreError},
    fingerprint::Fingerprint,
    headers::HeaderRules,
    key::{IdempotencyKey, KeyRules, StorageKey},
    lease::{Detach, Detached, Keeper, Lease, Ticket},
    live::{Drained, Live, Phase, Waiter, WaiterLimits},
    observe::{Counts, EventKind, Observers, Operation},
    policy::{Defaults, Policy},
    record::{Record, RecordBody},
    rejection::Rejection,
    request::is_safe,
    scope::Caller,
    selection::Selection,
    store::{Claim, Grant, Owner, Release, Store},
};

/// How often a claim is sent before the request is refused.
const CLAIM_TRIES: u32 = 3;

/// What is set once for all handlers of an engine.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) namespace: Arc<str>,
    pub(crate) defaults: Defaults,
    pub(crate) max_key_len: usize,
    pub(crate) max_request_body: Option<u64>,
    pub(crate) max_stored_body: usize,
    pub(crate) max_stored_headers: usize,
    pub(crate) waiters: WaiterLimits,
    pub(crate) headers: HeaderRules,
    pub(crate) marker: Box<str>,
    pub(crate) problem_base: Box<str>,
    pub(crate) store_timeout: Duration,
    pub(crate) store_down: StoreDown,
}

/// What happens to a keyed request while the store does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StoreDown {
    /// It is refused with 503 `store-unavailable`, and its handler does not run.
    #[default]
    Reject,
    /// Its handler runs unprotected, and twice if the request is repeated.
    Execute,
}

/// Runs handlers at most once per key. Cheap to clone; all clones are one engine.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Arc<dyn Store>,
    settings: Settings,
    keeper: Arc<Keeper>,
    observers: Arc<Observers>,
    live: Arc<Live>,
}

/// What to do with a request, as far as its head tells.
#[derive(Debug)]
#[must_use]
pub enum Admission {
    /// Its method is safe, or it has no key and needs none: the handler runs as it is.
    Unprotected,
    /// It has a valid key.
    Keyed(Admitted),
    /// It is refused.
    Rejected(Rejection),
}

/// A request with a valid key.
#[derive(Debug)]
pub struct Admitted {
    policy: &'static Policy,
    key: IdempotencyKey,
    operation: Box<str>,
}

impl Admitted {
    /// The operation, for events.
    pub fn operation(&self) -> Operation<'_> {
        Operation::Named(&self.operation)
    }
}

/// A request that is ready to be claimed.
#[derive(Debug)]
pub struct Keyed {
    /// Its key and operation.
    pub admitted: Admitted,
    /// Whose key it is.
    pub caller: Caller,
    /// What the key stands for.
    pub fingerprint: Fingerprint,
    /// Where the handler looks for its attempt.
    pub attempt: Option<Attempt>,
    /// What the attribute's typed expressions gave.
    pub selection: Selection,
}

/// What came of a claim.
#[derive(Debug)]
#[must_use]
pub enum Begun {
    /// The handler is to run under the claim.
    Claimed(Claimed),
    /// The handler is to run unprotected: the store is down and the engine was told to go on.
    Bypassed,
    /// There is an answer; the handler is not to run.
    Answered(Answer),
}

/// An answer that is not the handler's.
#[derive(Debug)]
#[must_use]
pub enum Answer {
    /// The stored one.
    Replay(Box<Record>),
    /// A refusal.
    Rejection(Rejection),
}

impl Engine {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        settings: Settings,
        keeper: Keeper,
        observers: Arc<Observers>,
    ) -> Self {
        Self(Arc::new(Inner {
            store,
            settings,
            keeper: Arc::new(keeper),
            observers,
            live: Arc::new(Live::new()),
        }))
    }

    /// The lower-case name of the header that carries the key of this handler.
    pub fn header<'a>(&'a self, policy: &Policy) -> &'a str {
        policy.header.unwrap_or(&self.0.settings.defaults.header)
    }

    /// The name of the header that marks a replay.
    pub fn marker(&self) -> &str {
        &self.0.settings.marker
    }

    /// The longest response body that is kept, in bytes.
    pub fn max_stored_body(&self) -> usize {
        self.0.settings.max_stored_body
    }

    /// The longest request body to read where the framework reads at most `framework` bytes, or
    /// as many as come.
    pub fn max_request_body(&self, framework: Option<u64>) -> u64 {
        const UNLIMITED: u64 = 16 * 1024 * 1024;
        let limit = framework.unwrap_or(UNLIMITED);
        self.0
            .settings
            .max_request_body
            .map_or(limit, |ours| ours.min(limit))
    }

    /// How often each thing happened since the engine was built.
    pub fn counts(&self) -> Counts {
        self.0.observers.counts()
    }

    /// Looks at the head of a request: is it protected, and is its key valid?
    ///
    /// `route` is the route template, and `lines` are the lines of the key's header. Allocates
    /// nothing unless there is a key.
    pub fn admit<'a>(
        &self,
        policy: &'static Policy,
        method: &str,
        route: Option<&str>,
        lines: impl IntoIterator<Item = &'a [u8]>,
    ) -> Admission {
        if is_safe(method) {
            return Admission::Unprotected;
        }
        let operation = match (policy.operation, route) {
            (Some(name), _) => Operation::Named(name),
            (None, Some(route)) => Operation::Route { method, route },
            (None, None) => Operation::Named(policy.name()),
        };
        let defaults = &self.0.settings.defaults;
        let rules = KeyRules {
            max_len: self.0.settings.max_key_len,
            format: policy.key_format.unwrap_or(defaults.key_format),
        };
        match IdempotencyKey::from_lines(lines, &rules) {
            Err(reason) => {
                Admission::Rejected(self.reject(operation, Rejection::KeyInvalid(reason), None))
            }
            Ok(None) if policy.required.unwrap_or(defaults.required).demands(method) => {
                let header = self.header(policy).into();
                Admission::Rejected(self.reject(operation, Rejection::KeyMissing { header }, None))
            }
            Ok(None) => {
                self.0
                    .observers
                    .tell(operation, None, EventKind::Unprotected);
                Admission::Unprotected
            }
            Ok(Some(_)) if policy.operation.is_none() && route.is_none() => {
                let cause = NotConfigured::NoRoute;
                Admission::Rejected(self.reject(operation, Rejection::NotConfigured, Some(&cause)))
            }
            Ok(Some(key)) => Admission::Keyed(Admitted {
                policy,
                key,
                operation: operation.to_string().into(),
            }),
        }
    }

    /// Tells the observers of a refusal, and passes it on.
    pub fn reject(
        &self,
        operation: Operation<'_>,
        rejection: Rejection,
        cause: Option<&(dyn Error + 'static)>,
    ) -> Rejection {
        let code = rejection.code();
        self.0
            .observers
            .tell(operation, None, EventKind::Rejected { code, cause });
        rejection
    }

    /// The answer to a refusal: a problem document.
    pub fn problem(&self, rejection: &Rejection) -> Record {
        rejection.problem(&self.0.settings.problem_base)
    }

    /// What to store of a response: its status, the headers that a replay may send, its body.
    ///
    /// Header names are in lower case.
    pub fn record<'a>(
        &self,
        status: u16,
        lines: impl Iterator<Item = (&'a str, &'a [u8])>,
        body: RecordBody,
    ) -> Record {
        let settings = &self.0.settings;
        let headers = settings
            .headers
            .keep(lines.filter(|(name, _)| *name != &*settings.marker));
        let record = Record {
            status,
            headers,
            body,
            reference: None,
        };
        let size: usize = record
            .headers
            .iter()
            .map(|(name, value)| name.len() + value.len())
            .sum();
        let fits = match &record.body {
            RecordBody::Kept(body) => body.len() <= settings.max_stored_body,
            RecordBody::NotKept => true,
        };
        if size > settings.max_stored_headers {
            let location = |(name, _): &(bytes::Bytes, bytes::Bytes)| name == &b"location"[..];
            let headers = record
                .headers
                .into_iter()
                .filter(location)
                .take(1)
                .collect();
            return Record {
                headers,
                body: RecordBody::NotKept,
                ..record
            };
        }
        if fits { record } else { record.without_body() }
    }

    /// Refuses keyed requests from now on, waits up to `limit` for the attempts that run, and
    /// then ends those whose client is gone.
    ///
    /// Nothing that ran is released: what is left over lapses.
    ///
    /// # Cancel safety
    /// Cancel safe; the engine stays closed.
    pub async fn drain(&self, limit: Duration) -> Drained {
        self.0.live.drain(limit).await
    }

    /// Claims the key and says what to do.
    ///
    /// # Cancel safety
    /// Cancel safe: a claim on its way ends in a task of its own and is taken back.
    pub async fn begin(&self, request: Keyed) -> Begun {
        let Keyed {
            admitted,
            caller,
            fingerprint,
            attempt,
            selection: _,
        } = request;
        let Admitted {
            policy,
            key,
            operation,
        } = admitted;
        let settings = &self.0.settings;
        let ticket = Arc::new(Ticket {
            id: StorageKey::derive(&settings.namespace, &caller, &operation, &key),
            owner: Owner::random(),
            fingerprint,
            namespace: Arc::clone(&settings.namespace),
            operation,
            caller,
            key,
            policy: policy.effective(&settings.defaults),
        });
        let mut queue = Queue::new(ticket.policy.wait);
        loop {
            let Some(attendance) = self.0.live.enter() else {
                return self.refuse(&ticket, Rejection::ShuttingDown, None);
            };
            let sent = Instant::now();
            let claim = match self.claim(&ticket).await {
                Ok(claim) => claim,
                Err(error) => return self.store_failed(&ticket, &error),
            };
            let patience = queue.patience(&self.0.live, &ticket, &claim, settings.waiters);
            let unreadable = match &claim {
                Claim::Unreadable(cause) => Some(*cause),
                _ => None,
            };
            match decide(claim, patience) {
                Action::Execute(grant) => {
                    if let Some(attempt) = attempt {
                        attempt.fill(grant, &ticket.id, &ticket.fingerprint);
                    }
                    if grant.attempt > 1 {
                        self.tell(
                            &ticket,
                            EventKind::Takeover {
                                attempt: grant.attempt,
                            },
                        );
                    }
                    let keeper = Arc::clone(&self.0.keeper);
                    let lease = Lease::hold(keeper, ticket, grant, sent);
                    return Begun::Claimed(Claimed::new(self.clone(), lease, attendance));
                }
                Action::Replay(record) => {
                    let status = record.status;
                    self.tell(&ticket, EventKind::Replayed { status });
                    return Begun::Answered(Answer::Replay(record));
                }
                Action::Reject(rejection) => {
                    let cause = unreadable.as_ref().map(|cause| cause as &dyn Error);
                    return self.refuse(&ticket, rejection, cause);
                }
                Action::Wait { left } => {
                    // A waiter holds nothing that a shutdown would wait for.
                    drop(attendance);
                    queue.wait(self, &ticket, left).await;
                }
            }
        }
    }

    fn refuse(
        &self,
        ticket: &Ticket,
        rejection: Rejection,
        cause: Option<&(dyn Error + 'static)>,
    ) -> Begun {
        let code = rejection.code();
        self.tell(ticket, EventKind::Rejected { code, cause });
        Begun::Answered(Answer::Rejection(rejection))
    }

    fn store_failed(&self, ticket: &Ticket, error: &StoreError) -> Begun {
        match self.0.settings.store_down {
            StoreDown::Reject => self.refuse(ticket, Rejection::StoreUnavailable, Some(error)),
            StoreDown::Execute => {
                self.tell(ticket, EventKind::Bypassed { error });
                Begun::Bypassed
            }
        }
    }

    /// Sends the claim. If the request is dropped meanwhile, the claim ends in a task of its own
    /// and is taken back.
    async fn claim(&self, ticket: &Arc<Ticket>) -> Result<Claim, StoreError> {
        let claim = Box::pin(self.clone().send_claim(Arc::clone(ticket)));
        let (engine, ticket) = (self.clone(), Arc::clone(ticket));
        Detach::new(claim, move |Detached(claim)| {
            let undo = engine.clone();
            spawn(&Arc::clone(&ticket), async move {
                // A failed claim has sent its own `Undo`.
                if let Ok(Claim::Acquired { grant }) = claim.await {
                    undo.undo(&ticket, Some(grant)).await;
                }
            });
        })
        .await
    }

    /// Sends the claim with one owner token until there is an answer, so that a claim whose reply
    /// was lost is recognised as ours.
    async fn send_claim(self, ticket: Arc<Ticket>) -> Result<Claim, StoreError> {
        let limit = self.0.settings.store_timeout / CLAIM_TRIES;
        let mut pauses = None;
        loop {
            let error = match self.call(limit, self.0.store.claim(&ticket.claim())).await {
                Ok(claim) => return Ok(claim),
                // Nothing was stored and there is nothing to take back.
                Err(error @ StoreError::Full { .. }) => return Err(error),
                Err(error) => error,
            };
            let pauses = pauses.get_or_insert_with(|| backoff(CLAIM_TRIES as usize - 1));
            let Some(pause) = pauses.next() else {
                // It may still land: then it blocks the key for one lease at worst.
                let engine = self.clone();
                let owner = Arc::clone(&ticket);
                spawn(&ticket, async move { engine.undo(&owner, None).await });
                return Err(error);
            };
            sleep(pause).await;
        }
    }

    /// Takes back a claim whose handler has not started.
    async fn undo(&self, ticket: &Ticket, grant: Option<Grant>) {
        let lease = ticket.lease(grant);
        let undo = self.0.store.release(&lease, Release::Undo);
        if let Err(error) = self.call(self.0.settings.store_timeout, undo).await {
            self.tell(ticket, EventKind::ReleaseFailed { error: &error });
        }
    }

    async fn call<T>(
        &self,
        limit: Duration,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        timeout(limit, call)
            .await
            .unwrap_or(Err(StoreError::TimedOut { limit }))
    }

    fn tell(&self, ticket: &Ticket, kind: EventKind<'_>) {
        self.0
            .observers
            .tell(ticket.operation(), Some(ticket.id), kind);
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("store", &self.0.store)
            .field("settings", &self.0.settings)
            .finish_non_exhaustive()
    }
}

/// Runs `task` apart from any request, unless there is no runtime to run it on.
fn spawn(ticket: &Ticket, task: impl Future<Output = ()> + Send + 'static) {
    match Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn(task)),
        Err(error) => {
            let operation = ticket.operation();
            tracing::error!(%operation, record = %ticket.id, %error, "left unfinished, its lease will lapse");
        }
    }
}

/// Pauses between tries, growing and jittered.
fn backoff(times: usize) -> impl Iterator<Item = Duration> {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(25))
        .with_max_delay(Duration::from_secs(5))
        .with_max_times(times)
        .with_jitter()
        .build()
}

/// A request that may wait for another one: until when, and its place.
struct Queue {
    until: Option<Instant>,
    place: Option<Waiter>,
}

impl Queue {
    fn new(wait: Option<Duration>) -> Self {
        Self {
            until: wait.map(|wait| Instant::now() + wait),
            place: None,
        }
    }

    /// Takes a place at the first claim that finds another attempt.
    fn patience(
        &mut self,
        live: &Arc<Live>,
        ticket: &Ticket,
        claim: &Claim,
        limits: WaiterLimits,
    ) -> Patience {
        let in_time = self.until.is_some_and(|until| Instant::now() < until);
        if !in_time || !matches!(claim, Claim::InProgress { .. }) {
            return Patience::Exhausted;
        }
        if self.place.is_none() {
            self.place = live.wait(ticket.id, limits);
        }
        if self.place.is_some() {
            Patience::Waits
        } else {
            Patience::Exhausted
        }
    }

    /// Waits until the record may have changed.
    ///
    /// Dropped here, a waiter leaves nothing behind: it has no claim.
    async fn wait(&self, engine: &Engine, ticket: &Ticket, left: Duration) {
        let lapse = Instant::now() + left;
        let until = self.until.map_or(lapse, |until| until.min(lapse));
        tokio::select! {
            () = engine.0.live.reached(Phase::Draining) => {}
            changed = engine.0.store.changed(&ticket.id, until) => {
                if let Err(error) = changed {
                    tracing::warn!(operation = %ticket.operation(), record = %ticket.id, %error, "cannot watch a record");
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}
