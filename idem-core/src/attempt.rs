//! What a handler can know of its own attempt.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use sha2::{Digest, Sha256};

use crate::{
    fingerprint::Fingerprint,
    key::{StorageKey, prefixed},
    store::{Fence, Grant},
};

/// One attempt at an operation, seen from inside its handler.
///
/// A takeover may overlap with a predecessor that was paused. What makes that safe for foreign
/// effects is not the lease but the key that both give to the next service.
///
/// On a request that is not protected it is attempt 1 with fence 0 and a random downstream key. So
/// it is before the claim: ask in the handler, not in an extractor.
///
/// # Examples
/// ```
/// use idem_core::Attempt;
///
/// let attempt = Attempt::unprotected();
/// assert_eq!((attempt.number(), attempt.fence()), (1, 0));
/// let key = attempt.downstream_key("charge");
/// assert_eq!(key, attempt.downstream_key("charge"));
/// assert_ne!(key, attempt.downstream_key("receipt"));
/// ```
#[derive(Clone)]
pub struct Attempt(Arc<Slot>);

#[derive(Default)]
struct Slot {
    granted: OnceLock<Facts>,
    unprotected: OnceLock<Facts>,
    reference: Mutex<Option<String>>,
}

/// The longest reference, in bytes.
const MAX_REFERENCE: usize = 255;

#[derive(Clone, Copy)]
struct Facts {
    grant: Grant,
    /// Equal for all attempts at one operation, and only for them.
    seed: ([u8; 32], [u8; Fingerprint::LEN]),
}

impl Attempt {
    /// An attempt that nothing protects, until the engine fills it.
    pub fn unprotected() -> Self {
        Self(Arc::default())
    }

    /// Tells the handler what its claim was granted. Only the first call counts.
    pub(crate) fn fill(&self, grant: Grant, key: &StorageKey, fingerprint: &Fingerprint) {
        let mut digest = [0; Fingerprint::LEN];
        digest.copy_from_slice(fingerprint.as_bytes());
        let seed = (*key.as_bytes(), digest);
        if self.0.unprotected.get().is_some() {
            tracing::error!(
                "an extractor asked for the attempt before the claim, and was told a random key"
            );
        }
        // One request has one claim.
        let _ = self.0.granted.set(Facts { grant, seed });
    }

    fn facts(&self) -> &Facts {
        self.0.granted.get().unwrap_or_else(|| {
            self.0.unprotected.get_or_init(|| Facts {
                grant: Grant {
                    fence: Fence::new(0),
                    attempt: 1,
                },
                seed: (rand::random(), [0; Fingerprint::LEN]),
            })
        })
    }

    /// 1 for the first attempt; more after a release or a takeover.
    pub fn number(&self) -> u32 {
        self.facts().grant.attempt
    }

    /// A number larger than that of every earlier attempt. A downstream that remembers the
    /// largest it saw can refuse an attempt that was replaced.
    pub fn fence(&self) -> u64 {
        self.facts().grant.fence.get()
    }

    /// A key for the next service, named `label`: 64 hexadecimal digits, equal for all attempts at
    /// this operation and different for any other operation, also under the same client key.
    pub fn downstream_key(&self, label: &str) -> String {
        use fmt::Write;

        let (id, fingerprint) = &self.facts().seed;
        let mut hash = Sha256::new();
        hash.update(b"idem-down\x00\x01");
        prefixed(&mut hash, id);
        prefixed(&mut hash, fingerprint);
        prefixed(&mut hash, label.as_bytes());
        let mut text = String::with_capacity(64);
        for byte in hash.finalize() {
            // Writing to a `String` cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        text
    }

    /// Says what the operation made: `txn_789`, the number of an order. It is kept with the outcome,
    /// readable in the store, and shown by a look-up; the last one counts. An attempt without a stored
    /// outcome, one that is released or unknown, leaves none.
    ///
    /// At most 255 bytes; a longer one is not kept, and an error is logged. On a request that is not
    /// protected it goes nowhere.
    ///
    /// # Examples
    /// ```
    /// use idem_core::Attempt;
    ///
    /// # let attempt = Attempt::unprotected();
    /// // In the handler, once the bank has answered:
    /// attempt.reference("txn_789");
    /// ```
    pub fn reference(&self, reference: impl Into<String>) {
        let reference = reference.into();
        if reference.len() > MAX_REFERENCE {
            let bytes = reference.len();
            tracing::error!(
                bytes,
                "a reference has at most {MAX_REFERENCE} bytes, this one is not kept"
            );
            return;
        }
        *self.slot() = Some(reference).filter(|reference| !reference.is_empty());
    }

    /// What the handler called the thing that it made.
    pub(crate) fn named(&self) -> Option<String> {
        self.slot().clone()
    }

    fn slot(&self) -> MutexGuard<'_, Option<String>> {
        // A text that is replaced whole.
        let reference = self.0.reference.lock();
        reference.unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.granted.get() {
            Some(facts) => write!(f, "Attempt({})", facts.grant.attempt),
            None => f.write_str("Attempt(unprotected)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Caller, IdempotencyKey, KeyRules, RequestHead};

    fn attempt(number: u32, body: &[u8]) -> Attempt {
        let key = IdempotencyKey::parse(
            b"8e03978e-40d5-43e8-bc93-6894a57f9324",
            &KeyRules::default(),
        );
        let id = StorageKey::derive(
            "payments",
            &Caller::User("user_7".into()),
            "POST /v1/accounts/{id}/payments",
            &key.expect("valid"),
        );
        let head = RequestHead::new("POST", "/v1/accounts/42/payments")
            .with_content_type(b"application/json");
        let attempt = Attempt::unprotected();
        let grant = Grant {
            fence: Fence::new(u64::from(number) * 10),
            attempt: number,
        };
        attempt.fill(grant, &id, &Fingerprint::of(&head, body));
        attempt
    }

    /// A downstream remembers these keys: a change would let a takeover charge a second time.
    #[test]
    fn downstream_keys_match_their_pinned_vector() {
        assert_eq!(
            attempt(1, br#"{"amount":100}"#).downstream_key("charge"),
            "c9c78fb080f70cdcbccb29889dc6a06a0e04bfb5512a54786a40e7d1ccb60b87"
        );
    }

    #[test]
    fn a_takeover_uses_the_key_of_its_predecessor_with_a_larger_fence() {
        let (first, second) = (attempt(1, b"{}"), attempt(2, b"{}"));
        assert_eq!(
            first.downstream_key("charge"),
            second.downstream_key("charge")
        );
        assert!(first.fence() < second.fence());
        assert_eq!((first.number(), second.number()), (1, 2));
    }

    #[test]
    fn another_operation_under_the_same_client_key_has_another_downstream_key() {
        let (first, other) = (attempt(1, b"{}"), attempt(1, b"[]"));
        assert_ne!(
            first.downstream_key("charge"),
            other.downstream_key("charge")
        );
    }

    #[test]
    fn who_asked_before_the_claim_is_told_the_truth_after_it() {
        let early = Attempt::unprotected();
        let random = early.downstream_key("charge");
        let id = StorageKey::from_bytes([7; 32]);
        let head = RequestHead::new("POST", "/");
        let grant = Grant {
            fence: Fence::new(9),
            attempt: 2,
        };
        early.fill(grant, &id, &Fingerprint::of(&head, b""));
        assert_eq!((early.number(), early.fence()), (2, 9));
        assert_ne!(early.downstream_key("charge"), random);
    }

    #[test]
    fn the_last_reference_that_fits_counts() {
        let attempt = attempt(1, b"{}");
        assert_eq!(attempt.named(), None);
        attempt.reference("txn_788");
        attempt.reference("txn_789");
        attempt.reference("t".repeat(256));
        assert_eq!(attempt.named().as_deref(), Some("txn_789"));
        attempt.reference("");
        assert_eq!(attempt.named(), None);
    }

    #[test]
    fn unprotected_attempts_never_share_a_key() {
        let keys = [(); 2].map(|()| Attempt::unprotected().downstream_key("charge"));
        assert_ne!(keys[0], keys[1]);
    }
}
