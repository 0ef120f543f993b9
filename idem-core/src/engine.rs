//! The one async flow: admit, claim, decide; then run the handler and settle.
//!
//! It carries out what [`decide`](crate::decide) says and decides nothing about the protocol. Each
//! stage has a file: `admission`, `claim`, `queue`, and, under a claim, `claimed` and `settling`. What
//! support staff do is in `desk`.

mod admission;
mod claim;
mod claimed;
mod desk;
mod queue;
mod settling;
mod unsettled;

use std::{error::Error, fmt, sync::Arc, time::Duration};

use tokio::{sync::Semaphore, time::Instant};

pub use self::{
    admission::{Admission, Admitted},
    claimed::{Claimed, Panic, Ran, Reply},
};
use self::{
    claim::{UNDONE_AT_ONCE, UNDONE_LATER},
    queue::Queue,
    unsettled::Unsettled,
};
use crate::{
    attempt::Attempt,
    decide::{Action, decide},
    error::StoreError,
    fingerprint::Fingerprint,
    headers::HeaderRules,
    lease::{Keeper, Lease, Ticket},
    live::{Drained, Live, WaiterLimits},
    observe::{Counts, EventKind, Observers},
    policy::Defaults,
    record::{Record, RecordBody},
    rejection::Rejection,
    scope::Caller,
    selection::Selection,
    store::{Claim, Fence, Grant, Owner, Store},
};

/// How often a claim may be answered too late before the request is refused.
const LATE_CLAIMS: u32 = 3;

/// Whether a lease that was asked for at `sent` may be over by the store's clock. A tenth of it is
/// left for what the clocks and the way differ.
fn is_over(sent: Instant, lease: Duration) -> bool {
    sent.elapsed() >= lease.saturating_sub(lease / 10)
}

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
///
/// # Examples
/// ```
/// use idem_core::StoreDown;
///
/// // In a builder: `.on_store_down(StoreDown::Execute)`, said on purpose.
/// assert_eq!(StoreDown::default(), StoreDown::Reject);
/// ```
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
    /// The places of those who take claims back, and of those who wait for one.
    undoing: Semaphore,
    undone_later: Arc<Semaphore>,
    unsettled: Arc<Unsettled>,
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
            undoing: Semaphore::new(UNDONE_AT_ONCE),
            undone_later: Arc::new(Semaphore::new(UNDONE_LATER)),
            unsettled: Arc::default(),
        }))
    }

    /// The name of the header that marks a replay.
    pub fn marker(&self) -> &str {
        &self.0.settings.marker
    }

    /// How many bytes of a response body to read before it is sent, so that they can be stored;
    /// `None` if it is to be sent as it comes, and not kept.
    ///
    /// Kept is what has a known `length` within the limit, unless it is a stream of events or no
    /// final response.
    pub fn keeps(&self, status: u16, media_type: &[u8], length: Option<u64>) -> Option<usize> {
        let events = b"text/event-stream";
        let is_stream = media_type.len() >= events.len()
            && media_type[..events.len()].eq_ignore_ascii_case(events);
        let length = usize::try_from(length?).ok()?;
        let fits = length <= self.0.settings.max_stored_body;
        (fits && !is_stream && status >= 200).then_some(length)
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
            id: self.storage_key(&caller, operation.exact(), &key),
            owner: Owner::random(),
            fingerprint,
            namespace: Arc::clone(&settings.namespace),
            operation,
            caller,
            key,
            policy: policy.effective(&settings.defaults),
        });
        let mut queue = Queue::new(ticket.policy.wait);
        let mut late = 0;
        loop {
            let Some(attendance) = self.0.live.enter() else {
                return self.refuse(&ticket, Rejection::ShuttingDown, None);
            };
            let sent = Instant::now();
            let claim = match self.0.unsettled.claim(&ticket) {
                Some(claim) => claim,
                None => match self.claim(&ticket).await {
                    Ok(claim) => claim,
                    Err(error) => return self.store_failed(&ticket, &error, attempt),
                },
            };
            let patience = queue.patience(&self.0.live, &ticket, &claim, settings.waiters);
            let unreadable = match &claim {
                Claim::Unreadable(cause) => Some(*cause),
                _ => None,
            };
            match decide(claim, patience) {
                // An answer that came so late may stand for nothing any more: another one may have
                // the record by now. The same owner asks again.
                Action::Execute(grant) if is_over(sent, ticket.policy.lease) => {
                    late += 1;
                    if late == LATE_CLAIMS {
                        let limit = ticket.policy.lease;
                        self.take_back(Arc::clone(&ticket), Some(grant));
                        return self.store_failed(
                            &ticket,
                            &StoreError::TimedOut { limit },
                            attempt,
                        );
                    }
                }
                Action::Execute(grant) => {
                    if let Some(attempt) = &attempt {
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
                    let lease = self.hold(ticket, grant, sent);
                    let claimed = Claimed::new(self.clone(), lease, attempt, attendance);
                    return Begun::Claimed(claimed);
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

    /// Has a claim renewed that was sent at `sent`.
    fn hold(&self, ticket: Arc<Ticket>, grant: Grant, sent: Instant) -> Lease {
        Lease::hold(Arc::clone(&self.0.keeper), ticket, grant, sent)
    }

    fn store_failed(&self, ticket: &Ticket, error: &StoreError, attempt: Option<Attempt>) -> Begun {
        match self.0.settings.store_down {
            StoreDown::Reject => self.refuse(ticket, Rejection::StoreUnavailable, Some(error)),
            StoreDown::Execute => {
                self.tell(ticket, EventKind::Bypassed { error });
                if let Some(attempt) = attempt {
                    // Without a claim, but still the same operation to the next service.
                    let grant = Grant {
                        fence: Fence::new(0),
                        attempt: 1,
                    };
                    attempt.fill(grant, &ticket.id, &ticket.fingerprint);
                }
                Begun::Bypassed
            }
        }
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
