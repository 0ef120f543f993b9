//! Outcomes that could not be stored yet.
//!
//! Invariant: while this process holds the outcome of a key, no other request of this process runs under
//! that key, also when the store is back before the outcome is in it and the lease has lapsed meanwhile.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::{
    fingerprint::Fingerprint,
    key::StorageKey,
    lease::Ticket,
    store::{Claim, Grant, State},
};

/// How long a client is told to wait: an outcome is tried to be stored again and again.
const TRY_AGAIN_IN: Duration = Duration::from_secs(1);

/// The outcomes of one engine that are on their way.
#[derive(Debug, Default)]
pub(super) struct Unsettled {
    waiting: Mutex<HashMap<StorageKey, Vec<Waiting>>>,
    /// How many there are, to be looked at without the lock: mostly there is none.
    count: AtomicUsize,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    fingerprint: Fingerprint,
    grant: Grant,
}

impl Unsettled {
    /// Notes that the outcome of this attempt could not be stored, until the answer is dropped.
    pub(super) fn hold(self: &Arc<Self>, ticket: &Ticket, grant: Grant) -> Held {
        self.hold_as(ticket.id, ticket.fingerprint, grant)
    }

    fn hold_as(self: &Arc<Self>, id: StorageKey, fingerprint: Fingerprint, grant: Grant) -> Held {
        let waiting = Waiting { fingerprint, grant };
        self.lock().entry(id).or_default().push(waiting);
        self.count.fetch_add(1, Ordering::Release);
        Held {
            unsettled: Arc::clone(self),
            id,
            grant,
        }
    }

    /// What a claim would find, if an outcome of its key is on its way.
    pub(super) fn claim(&self, ticket: &Ticket) -> Option<Claim> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let waiting = *self.lock().get(&ticket.id)?.last()?;
        Some(if waiting.fingerprint == ticket.fingerprint {
            Claim::InProgress {
                grant: waiting.grant,
                left: TRY_AGAIN_IN,
            }
        } else {
            Claim::Mismatch {
                state: State::InProgress,
            }
        })
    }

    /// The lock guards a map that every critical section leaves whole.
    fn lock(&self) -> MutexGuard<'_, HashMap<StorageKey, Vec<Waiting>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An outcome on its way.
#[derive(Debug)]
pub(super) struct Held {
    unsettled: Arc<Unsettled>,
    id: StorageKey,
    grant: Grant,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut waiting = self.unsettled.lock();
        if let Some(of_key) = waiting.get_mut(&self.id) {
            of_key.retain(|waiting| waiting.grant != self.grant);
            if of_key.is_empty() {
                waiting.remove(&self.id);
            }
        }
        drop(waiting);
        self.unsettled.count.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Fence;

    const KEY: StorageKey = StorageKey::from_bytes([7; 32]);

    fn held(unsettled: &Arc<Unsettled>, number: u32) -> Held {
        let grant = Grant {
            fence: Fence::new(number.into()),
            attempt: number,
        };
        let head = crate::RequestHead::new("POST", "/");
        unsettled.hold_as(KEY, Fingerprint::of(&head, b""), grant)
    }

    #[test]
    fn what_is_settled_leaves_nothing_behind() {
        let unsettled = Arc::<Unsettled>::default();
        let (first, second) = (held(&unsettled, 1), held(&unsettled, 2));
        drop(first);
        assert_eq!(unsettled.lock()[&KEY].len(), 1);
        drop(second);
        assert!(unsettled.lock().is_empty());
        assert_eq!(unsettled.count.load(Ordering::Acquire), 0);
    }
}
