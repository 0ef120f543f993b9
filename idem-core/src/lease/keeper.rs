//! The lease keeper: one thread that renews every live lease of an engine.
//!
//! It has its own runtime and its own store connection, so that a handler which blocks every
//! worker of the application keeps its lease all the same. It sleeps until the next lease is due;
//! an engine whose handlers are faster than a third of their lease never wakes it for one.
//!
//! It also purges expired records, from the first claim on.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    runtime::Handle,
    sync::Notify,
    time::{Instant, sleep_until},
};

use super::{Held, later, renewal_interval};
use crate::{
    error::StoreError,
    observe::{EventKind, Observers},
    store::{LeaseRef, Renewal, Store, ask},
};

/// The longest pause before a renewal that failed is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How often expired records are dropped when none of this engine can be left: a store may keep them
/// for longer, and others may have left some.
const PURGE_IDLE: Duration = Duration::from_hours(1);
/// How many times longer than a batch the pause after it is, while there are more.
const PURGE_REST: u32 = 19;
/// How many expired records are dropped in one call.
const PURGE_BATCH: u32 = 200;

/// The settings of a keeper.
#[derive(Debug, Clone)]
pub(crate) struct KeeperOptions {
    /// After this time a lease is not renewed any more.
    pub(crate) max_execution: Duration,
    /// The longest wait for an answer of the store.
    pub(crate) store_timeout: Duration,
    /// How often expired records are dropped, if at all.
    pub(crate) purge_every: Option<Duration>,
    /// A runtime to run on instead of a thread, for tests that pause its clock.
    pub(crate) runtime: Option<Handle>,
}

/// Renews the leases that it is told to hold.
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    started: AtomicBool,
    runtime: Option<Handle>,
}

struct Shared {
    store: Arc<dyn Store>,
    observers: Arc<Observers>,
    options: KeeperOptions,
    schedule: Mutex<Schedule>,
    wake: Notify,
}

/// What is due when. Behind a lock that is held for a few operations and never across an await.
#[derive(Default)]
struct Schedule {
    live: HashMap<u64, Kept>,
    due: BTreeSet<(Instant, u64)>,
    next_id: u64,
    purge: Option<Purge>,
    sleeps_until: Option<Instant>,
    closed: bool,
}

struct Kept {
    held: Arc<Held>,
    due: Instant,
    since: Instant,
}

/// Expired records are dropped at `due` and again; after `until`, when none of ours can be left, now and
/// then.
struct Purge {
    due: Instant,
    until: Instant,
}

impl Schedule {
    fn next(&self) -> Option<Instant> {
        let lease = self.due.first().map(|(due, _)| *due);
        let purge = self.purge.as_ref().map(|purge| purge.due);
        lease.into_iter().chain(purge).min()
    }

    fn reschedule(&mut self, id: u64, due: Instant) {
        if let Some(kept) = self.live.get_mut(&id) {
            self.due.remove(&(kept.due, id));
            kept.due = due;
            self.due.insert((due, id));
        }
    }

    fn remove(&mut self, id: u64) -> Option<Kept> {
        let kept = self.live.remove(&id)?;
        self.due.remove(&(kept.due, id));
        Some(kept)
    }
}

impl Keeper {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        observers: Arc<Observers>,
        options: KeeperOptions,
    ) -> Self {
        let runtime = options.runtime.clone();
        let shared = Shared {
            store,
            observers,
            options,
            schedule: Mutex::default(),
            wake: Notify::new(),
        };
        Self {
            shared: Arc::new(shared),
            started: AtomicBool::new(false),
            runtime,
        }
    }

    /// Renews the claim, which was sent at `sent`, until [`let_go`](Self::let_go).
    pub(super) fn hold(&self, held: Arc<Held>, sent: Instant) -> u64 {
        let due = later(sent, renewal_interval(held.ticket.policy.lease));
        let mut schedule = self.shared.schedule();
        let id = schedule.next_id;
        schedule.next_id += 1;
        schedule.live.insert(
            id,
            Kept {
                held,
                due,
                since: sent,
            },
        );
        schedule.due.insert((due, id));
        self.wake_for(schedule, due);
        if !self.started.swap(true, Ordering::AcqRel) {
            self.start();
        }
        id
    }

    pub(super) fn let_go(&self, id: u64) {
        let mut schedule = self.shared.schedule();
        let Some(kept) = schedule.remove(id) else {
            return;
        };
        let Some(every) = self.shared.options.purge_every else {
            return;
        };
        let policy = &kept.held.ticket.policy;
        let now = Instant::now();
        let until = later(later(now, policy.unfinished().max(policy.lease)), every);
        let due = later(now, every);
        let purge = schedule.purge.get_or_insert(Purge { due, until });
        purge.until = purge.until.max(until);
        if due <= purge.due {
            purge.due = due;
            self.wake_for(schedule, due);
        }
    }

    /// Wakes the keeper if it would sleep past `due`.
    fn wake_for(&self, schedule: MutexGuard<'_, Schedule>, due: Instant) {
        let wake = schedule.sleeps_until.is_none_or(|until| due < until);
        drop(schedule);
        if wake {
            self.shared.wake.notify_one();
        }
    }

    fn start(&self) {
        let shared = Arc::clone(&self.shared);
        if let Some(runtime) = &self.runtime {
            runtime.spawn(shared.run());
            return;
        }
        let started = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .and_then(|runtime| {
                std::thread::Builder::new()
                    .name("idem-keeper".into())
                    .spawn(move || runtime.block_on(shared.run()))
            });
        if let Err(error) = started {
            // Claims stay correct, they are only not renewed; the next one tries again.
            self.started.store(false, Ordering::Release);
            tracing::error!(%error, "lease keeper did not start, leases are not renewed");
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.shared.schedule().closed = true;
        self.shared.wake.notify_one();
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let live = self.shared.schedule().live.len();
        f.debug_struct("Keeper")
            .field("live", &live)
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// The lock guards plain data that every critical section leaves whole.
    fn schedule(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run(self: Arc<Self>) {
        let mut connection = self.reopen().await;
        loop {
            let next = {
                let mut schedule = self.schedule();
                if schedule.closed {
                    return;
                }
                schedule.sleeps_until = schedule.next();
                schedule.sleeps_until
            };
            match next {
                None => self.wake.notified().await,
                Some(due) => tokio::select! {
                    () = self.wake.notified() => {}
                    () = sleep_until(due) => self.work(&mut connection).await,
                },
            }
        }
    }

    /// Renews first: nothing else may hold a lease up. What is due was scheduled anew before the
    /// store is asked, so that a store which fails in any way is asked again.
    async fn work(&self, connection: &mut Option<Arc<dyn Store>>) {
        let store = connection.as_ref().unwrap_or(&self.store);
        self.renew(&**store).await;
        self.purge(&**store).await;
        if connection.is_none() {
            *connection = self.reopen().await;
        }
    }

    /// A connection of our own. Without one we share the application's.
    async fn reopen(&self) -> Option<Arc<dyn Store>> {
        let reopened = ask(self.options.store_timeout, self.store.reopen()).await;
        reopened
            .inspect_err(|error| {
                tracing::warn!(%error, "lease keeper has no connection of its own");
            })
            .ok()
    }

    async fn renew(&self, store: &dyn Store) {
        let sent = Instant::now();
        let due = self.take_due(sent);
        if due.is_empty() {
            return;
        }
        let leases: Vec<LeaseRef<'_>> = due
            .iter()
            .map(|(_, held)| held.ticket.lease(Some(held.grant)))
            .collect();
        match ask(self.options.store_timeout, store.renew(&leases)).await {
            Ok(answers) => {
                let (lost, unanswered) = self.note(sent, &due, &answers);
                for held in lost {
                    self.tell(held, EventKind::LeaseLost);
                }
                let limit = self.options.store_timeout;
                let error = &StoreError::TimedOut { limit };
                for held in unanswered {
                    self.tell(held, EventKind::RenewalFailed { error });
                }
            }
            Err(error) => {
                for (_, held) in &due {
                    self.tell(held, EventKind::RenewalFailed { error: &error });
                }
            }
        }
    }

    /// Schedules what was renewed, drops what was not, and gives the leases that were lost, and those
    /// that nothing is known of.
    fn note<'a>(
        &self,
        sent: Instant,
        due: &'a [(u64, Arc<Held>)],
        answers: &[Renewal],
    ) -> (Vec<&'a Held>, Vec<&'a Held>) {
        let mut schedule = self.schedule();
        let (mut lost, mut unanswered) = (Vec::new(), Vec::new());
        let mut answers = answers.iter();
        for (id, held) in due {
            match answers.next() {
                // A store that leaves one out is asked again.
                None => break,
                // As it is about one that it knows nothing of.
                Some(Renewal::Unanswered) => unanswered.push(&**held),
                Some(Renewal::Renewed { .. }) => {
                    let due = later(sent, renewal_interval(held.ticket.policy.lease));
                    schedule.reschedule(*id, due);
                }
                // The attempt ended while we asked.
                Some(Renewal::Ended) => drop(schedule.remove(*id)),
                Some(Renewal::Superseded | Renewal::Gone) => {
                    if schedule.remove(*id).is_some() && !held.is_settling() && held.lose() {
                        lost.push(&**held);
                    }
                }
            }
        }
        (lost, unanswered)
    }

    /// The leases to renew now: those that are due, without those that outlived `max_execution`.
    /// Until the store has answered, they are due again soon.
    fn take_due(&self, now: Instant) -> Vec<(u64, Arc<Held>)> {
        let mut renewed = Vec::new();
        let mut told = Vec::new();
        let mut schedule = self.schedule();
        let due = schedule.due.iter().take_while(|(due, _)| *due <= now);
        let ids: Vec<u64> = due.map(|(_, id)| *id).collect();
        for id in ids {
            let Some(kept) = schedule.live.get(&id) else {
                continue;
            };
            let held = Arc::clone(&kept.held);
            let by = now.duration_since(kept.due);
            let outlived = now.duration_since(kept.since) >= self.options.max_execution;
            if outlived && !held.is_settling() {
                schedule.remove(id);
                told.push((held, EventKind::RenewalEnded));
                continue;
            }
            if by >= renewal_interval(held.ticket.policy.lease) {
                told.push((Arc::clone(&held), EventKind::RenewalLate { by }));
            }
            let again = (held.ticket.policy.lease / 10).min(RETRY_AFTER);
            schedule.reschedule(id, later(now, again.max(Duration::from_millis(1))));
            renewed.push((id, held));
        }
        drop(schedule);
        for (held, kind) in told {
            self.tell(&held, kind);
        }
        renewed
    }

    /// Drops one batch of expired records, if it is time to.
    async fn purge(&self, store: &dyn Store) {
        let Some(every) = self.options.purge_every else {
            return;
        };
        let now = Instant::now();
        {
            let mut schedule = self.schedule();
            match &mut schedule.purge {
                Some(purge) if purge.due <= now => purge.due = later(now, every),
                Some(_) | None => return,
            }
        }
        let found = ask(self.options.store_timeout, store.purge(PURGE_BATCH)).await;
        if let Err(error) = &found {
            tracing::warn!(%error, "expired records not purged");
        }
        let mut schedule = self.schedule();
        let Some(purge) = &mut schedule.purge else {
            return;
        };
        if found.is_ok_and(|found| found >= u64::from(PURGE_BATCH)) {
            // There are more, but leases go first, and the store has others to serve.
            purge.due = later(Instant::now(), now.elapsed() * PURGE_REST);
        } else if purge.until <= now {
            purge.due = later(now, every.max(PURGE_IDLE));
        }
    }

    fn tell(&self, held: &Held, kind: EventKind<'_>) {
        self.observers
            .tell(held.ticket.operation(), Some(held.ticket.id), kind);
    }
}
