//! The value of a record: one string.
//!
//! Layout, big-endian: `version u8 = 1 · state u8 · owner 16 bytes · fence u64 · attempts u32 ·
//! lease_ms u32 · life_ms u64 · lease_until_ms u64 · fingerprint length u8 · meta length u16 ·
//! fingerprint · meta · response`.
//!
//! `lease_until` is zero as long as the lease counts from the claim, which then is `life_ms` before
//! the key expires; of a completed record it says when it was completed. The key's own expiry is
//! that of the record. The scripts write it the same way: see `record.lua`.
//!
//! Invariant: a reader checks the version first and every length before it is used.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{Buf, BufMut, Bytes};
use sha2::{Digest, Sha256};

use crate::{
    record::Unreadable,
    store::{Audit, ClaimRequest, Fence, Grant, LeaseRef, Owner, State},
};

/// The version of the layout that this build writes.
const VERSION: u8 = 1;
/// How many bytes are before the fingerprint.
pub(super) const HEAD_LEN: usize = 53;
/// The longest meta.
const MAX_META_LEN: usize = 512;
/// The longest namespace in it.
const MAX_NAMESPACE_LEN: usize = 200;
/// The largest number that a script can tell from the next one.
const LARGEST: u64 = (1 << 53) - 1;
/// The longest life, about 35 000 years: a script can add it to the time.
const LONGEST: u64 = 1 << 50;

/// What is before the fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) state: State,
    pub(super) owner: Owner,
    pub(super) grant: Grant,
    lease_ms: u32,
    pub(super) life_ms: u64,
    pub(super) lease_until_ms: u64,
    fingerprint_len: u8,
    meta_len: u16,
}

impl Head {
    /// Reads the head of a value, and checks that what it speaks of is there.
    pub(super) fn read(mut bytes: &[u8]) -> Result<Self, Unreadable> {
        let version = bytes.try_get_u8().map_err(|_| Unreadable::Truncated)?;
        if version != VERSION {
            return Err(Unreadable::Version(version));
        }
        if bytes.len() < HEAD_LEN - 1 {
            return Err(Unreadable::Truncated);
        }
        let state = bytes.get_u8();
        let mut owner = [0; 16];
        bytes.copy_to_slice(&mut owner);
        let grant = Grant {
            fence: Fence::new(bytes.get_u64()),
            attempt: bytes.get_u32(),
        };
        let head = Self {
            state: state_of(state)?,
            owner: Owner::from_bytes(owner),
            grant,
            lease_ms: bytes.get_u32(),
            life_ms: bytes.get_u64(),
            lease_until_ms: bytes.get_u64(),
            fingerprint_len: bytes.get_u8(),
            meta_len: bytes.get_u16(),
        };
        let largest = head.life_ms.max(head.lease_until_ms).max(grant.fence.get());
        if largest > LARGEST || usize::from(head.meta_len) > MAX_META_LEN {
            return Err(Unreadable::Number);
        }
        if bytes.len() < head.response_at() - HEAD_LEN {
            return Err(Unreadable::Truncated);
        }
        Ok(head)
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.put_u8(VERSION);
        out.put_u8(byte_of(self.state));
        out.put_slice(self.owner.as_bytes());
        out.put_u64(self.grant.fence.get());
        out.put_u32(self.grant.attempt);
        out.put_u32(self.lease_ms);
        out.put_u64(self.life_ms);
        out.put_u64(self.lease_until_ms);
        out.put_u8(self.fingerprint_len);
        out.put_u16(self.meta_len);
    }

    fn meta_at(&self) -> usize {
        HEAD_LEN + usize::from(self.fingerprint_len)
    }

    fn response_at(&self) -> usize {
        self.meta_at() + usize::from(self.meta_len)
    }

    /// The fingerprint in the value of this head.
    pub(super) fn fingerprint<'a>(&self, value: &'a [u8]) -> &'a [u8] {
        &value[HEAD_LEN..self.meta_at()]
    }

    /// The meta in the value of this head.
    pub(super) fn meta<'a>(&self, value: &'a [u8]) -> &'a [u8] {
        &value[self.meta_at()..self.response_at()]
    }

    /// The response in the value of this head.
    pub(super) fn response(&self, value: &Bytes) -> Bytes {
        value.slice(self.response_at()..)
    }

    /// When its outcome was stored.
    pub(super) fn completed(&self) -> Option<SystemTime> {
        let at = (self.state == State::Completed).then_some(self.lease_until_ms)?;
        moment(at)
    }

    /// Whether a completed record should have expired by now, so that somebody took its expiry away.
    /// The two clocks may differ by a minute: the server's decides.
    pub(super) fn is_overdue(&self, now: SystemTime) -> bool {
        const SKEW: Duration = Duration::from_mins(1);
        let expires = self.lease_until_ms.saturating_add(self.life_ms);
        self.state == State::Completed
            && moment(expires)
                .and_then(|expires| expires.checked_add(SKEW))
                .is_some_and(|late| late < now)
    }

    /// How long the lease of an attempt in progress lasts, at this time of the server and with so
    /// much left of the record.
    pub(super) fn lease_left(&self, now_ms: u64, left_ms: u64) -> Option<Duration> {
        if self.state != State::InProgress {
            return None;
        }
        let left = match self.lease_until_ms {
            0 => {
                (left_ms.min(self.life_ms) + u64::from(self.lease_ms)).saturating_sub(self.life_ms)
            }
            until => until.saturating_sub(now_ms),
        };
        Some(Duration::from_millis(left))
    }
}

/// Whether the first bytes of a value say that an attempt is in progress.
pub(super) fn is_in_progress(start: &[u8]) -> bool {
    start.starts_with(&[VERSION, byte_of(State::InProgress)])
}

fn state_of(byte: u8) -> Result<State, Unreadable> {
    match byte {
        0 => Ok(State::Released),
        1 => Ok(State::InProgress),
        2 => Ok(State::Completed),
        3 => Ok(State::Unknown),
        other => Err(Unreadable::State(other)),
    }
}

const fn byte_of(state: State) -> u8 {
    match state {
        State::Released => 0,
        State::InProgress => 1,
        State::Completed => 2,
        State::Unknown => 3,
    }
}

/// The state in an answer of a script.
pub(super) fn state_from(number: u64) -> Option<State> {
    state_of(u8::try_from(number).ok()?).ok()
}

/// A claim in bytes.
#[derive(Debug)]
pub(super) struct Claimed {
    /// When it was made, on our clock.
    pub(super) sent: SystemTime,
    /// What it is granted if it finds no record. Its fence is of our clock, the ones that follow
    /// are of the server's, and larger.
    pub(super) grant: Grant,
    pub(super) lease_ms: u64,
    pub(super) life_ms: u64,
    /// The record that it writes if it finds none.
    pub(super) value: Vec<u8>,
}

impl Claimed {
    pub(super) fn new(claim: &ClaimRequest<'_>, sent: SystemTime) -> Self {
        let micros = micros(sent);
        let meta = Meta::of(&claim.audit, sent);
        let lease_ms = lease_millis(claim.lease);
        let head = Head {
            state: State::InProgress,
            owner: claim.owner,
            grant: Grant {
                fence: Fence::new(micros),
                attempt: 1,
            },
            lease_ms,
            life_ms: millis(claim.ttl).max(lease_ms.into()),
            lease_until_ms: 0,
            fingerprint_len: FINGERPRINT_LEN,
            meta_len: meta.len(),
        };
        let mut value = Vec::with_capacity(head.response_at());
        head.write(&mut value);
        value.put_slice(claim.fingerprint.as_bytes());
        value.put_slice(&meta.0);
        Self {
            sent,
            grant: head.grant,
            lease_ms: lease_ms.into(),
            life_ms: head.life_ms,
            value,
        }
    }

    pub(super) fn meta(&self) -> &[u8] {
        &self.value[HEAD_LEN + usize::from(FINGERPRINT_LEN)..]
    }
}

const FINGERPRINT_LEN: u8 = 33;
const _: () = assert!(crate::fingerprint::Fingerprint::LEN == FINGERPRINT_LEN as usize);

/// What a record says of itself to those who look it up: `created_ms u64 · namespace length u8,
/// namespace · key hint length u8, key hint · operation`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Meta(Vec<u8>);

impl Meta {
    fn of(audit: &Audit<'_>, created: SystemTime) -> Self {
        let namespace = fitted(audit.namespace, MAX_NAMESPACE_LEN);
        let hint = audit.key.hint().unwrap_or_default();
        let mut meta = Vec::with_capacity(64);
        meta.put_u64(micros(created) / 1_000);
        for text in [&namespace, &hint] {
            meta.put_u8(u8::try_from(text.len()).expect("namespace and hint are cut"));
            meta.put_slice(text.as_bytes());
        }
        meta.put_slice(fitted(audit.operation, MAX_META_LEN - meta.len()).as_bytes());
        Self(meta)
    }

    /// That of a record which vanished, and is restored.
    pub(super) fn restored(lease: &LeaseRef<'_>, now: SystemTime) -> Self {
        Self::of(&lease.audit, now)
    }

    fn len(&self) -> u16 {
        u16::try_from(self.0.len()).expect("the operation is cut")
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Meta as it is read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) created: SystemTime,
    pub(super) namespace: String,
    pub(super) key_hint: Option<String>,
    pub(super) operation: String,
}

impl Told {
    pub(super) fn read(mut meta: &[u8]) -> Result<Self, Unreadable> {
        let created = meta.try_get_u64().map_err(|_| Unreadable::Truncated)?;
        let namespace = text(&mut meta)?;
        let key_hint = Some(text(&mut meta)?).filter(|hint| !hint.is_empty());
        Ok(Self {
            created: moment(created).ok_or(Unreadable::Number)?,
            namespace,
            key_hint,
            operation: String::from_utf8_lossy(meta).into_owned(),
        })
    }
}

fn text(bytes: &mut &[u8]) -> Result<String, Unreadable> {
    let length = usize::from(bytes.try_get_u8().map_err(|_| Unreadable::Truncated)?);
    let (text, rest) = bytes
        .split_at_checked(length)
        .ok_or(Unreadable::Truncated)?;
    *bytes = rest;
    Ok(String::from_utf8_lossy(text).into_owned())
}

/// The text, or as much of it as fits with a digest of the whole behind it, so that two long texts
/// stay two.
fn fitted(text: &str, max: usize) -> String {
    const DIGITS: usize = 16;
    if text.len() <= max {
        return text.to_owned();
    }
    let digest = Sha256::digest(text.as_bytes());
    let digits = digest.iter().take(DIGITS / 2);
    let digits = digits.fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    let cut = text.floor_char_boundary(max - DIGITS - "…".len());
    format!("{}…{digits:016x}", &text[..cut])
}

/// Whole milliseconds, rounded up, at least one, as a server takes them.
pub(super) fn millis(time: Duration) -> u64 {
    let millis = time.as_nanos().div_ceil(1_000_000);
    u64::try_from(millis).map_or(LONGEST, |millis| millis.clamp(1, LONGEST))
}

/// The same of a lease, which is at most 49 days.
pub(super) fn lease_millis(lease: Duration) -> u32 {
    u32::try_from(millis(lease)).unwrap_or(u32::MAX)
}

/// A moment as a number that is a fence as well: not zero, and with room for many larger ones.
fn micros(moment: SystemTime) -> u64 {
    let since = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
    let micros = u64::try_from(since.as_micros()).unwrap_or(LARGEST);
    micros.clamp(1, LARGEST / 2)
}

/// A moment of the server's clock.
pub(super) fn moment(millis: u64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::{
        fingerprint::Fingerprint,
        key::{IdempotencyKey, KeyRules, StorageKey},
        record::Record,
        request::RequestHead,
        scope::Caller,
        store::Takeover,
    };

    /// A moment of 2026, in microseconds.
    const NOW: u64 = 1_790_000_000_123_456;

    fn sent() -> SystemTime {
        UNIX_EPOCH + Duration::from_micros(NOW)
    }

    fn with_claim<T>(operation: &str, use_it: impl FnOnce(&ClaimRequest<'_>) -> T) -> T {
        let key = b"8e03978e-40d5-43e8-bc93-6894a57f9324";
        let key = IdempotencyKey::parse(key, &KeyRules::default()).expect("a key");
        let caller = Caller::User("ada".into());
        let storage = StorageKey::derive("shop", &caller, operation, &key);
        let fingerprint = Fingerprint::of(&RequestHead::new("POST", "/payments"), b"{}");
        use_it(&ClaimRequest {
            key: &storage,
            owner: Owner::from_bytes(*b"0123456789abcdef"),
            fingerprint: &fingerprint,
            lease: Duration::from_secs(30),
            ttl: Duration::from_hours(24),
            takeover: Takeover::Allowed,
            audit: Audit {
                namespace: "shop",
                operation,
                caller: &caller,
                key: &key,
            },
        })
    }

    fn claimed() -> Claimed {
        with_claim("POST /payments", |claim| Claimed::new(claim, sent()))
    }

    /// The value that the script makes of a claim that is completed a second later.
    fn completed() -> Vec<u8> {
        let value = claimed().value;
        let head = Head {
            state: State::Completed,
            lease_until_ms: NOW / 1_000 + 1_000,
            ..Head::read(&value).expect("a head")
        };
        let mut done = Vec::new();
        head.write(&mut done);
        done.extend(&value[HEAD_LEN..]);
        let record = Record::new(201, "paid").with_header("location", "/payments/7");
        done.extend(record.encode().expect("it can be written"));
        done
    }

    /// A file that this test cannot reproduce is a record that a deployed reader cannot read: a
    /// change of the layout needs a new version byte, and new files beside the old ones.
    #[test]
    fn the_layout_is_the_one_of_the_golden_files() {
        let golden: [(&[u8], Vec<u8>); 2] = [
            (
                include_bytes!("../../../golden/redis-v1-in-progress.bin"),
                claimed().value,
            ),
            (
                include_bytes!("../../../golden/redis-v1-completed.bin"),
                completed(),
            ),
        ];
        for (bytes, value) in golden {
            assert_eq!(
                value.escape_ascii().to_string(),
                bytes.escape_ascii().to_string()
            );
        }
    }

    #[test]
    fn a_completed_record_is_read_as_it_was_written() {
        let value = completed();
        let head = Head::read(&value).expect("a head");
        assert_eq!(head.state, State::Completed);
        assert_eq!((head.grant.fence.get(), head.grant.attempt), (NOW, 1));
        assert_eq!(head.owner, Owner::from_bytes(*b"0123456789abcdef"));
        let second_later = UNIX_EPOCH + Duration::from_millis(NOW / 1_000 + 1_000);
        assert_eq!(head.completed(), Some(second_later));
        assert_eq!(head.lease_left(NOW / 1_000, 1_000), None);
        let told = Told::read(head.meta(&value)).expect("meta");
        assert_eq!(
            told.created,
            UNIX_EPOCH + Duration::from_millis(NOW / 1_000)
        );
        assert_eq!(
            (told.namespace.as_str(), told.operation.as_str()),
            ("shop", "POST /payments")
        );
        assert_eq!(told.key_hint.as_deref(), Some("8e03…9324"));
        let record = Record::decode(head.response(&value.into())).expect("a record");
        assert_eq!(
            record,
            Record::new(201, "paid").with_header("location", "/payments/7")
        );
    }

    #[test]
    fn a_native_lease_counts_from_the_claim() {
        let value = claimed().value;
        let head = Head::read(&value).expect("a head");
        let day = 24 * 60 * 60 * 1_000;
        let left = |left| head.lease_left(0, left);
        assert_eq!(left(day), Some(Duration::from_secs(30)));
        assert_eq!(left(day - 10_000), Some(Duration::from_secs(20)));
        assert_eq!(left(day - 40_000), Some(Duration::ZERO));
        // Somebody put the expiry off.
        assert_eq!(left(day * 2), Some(Duration::from_secs(30)));
    }

    #[test]
    fn what_should_have_expired_long_ago_is_overdue() {
        let head = Head::read(&completed()).expect("a head");
        let expires = UNIX_EPOCH + Duration::from_millis(NOW / 1_000 + 1_000 + head.life_ms);
        assert!(!head.is_overdue(expires));
        assert!(!head.is_overdue(expires + Duration::from_secs(59)));
        assert!(head.is_overdue(expires + Duration::from_secs(61)));
    }

    #[test]
    fn times_are_whole_milliseconds_that_a_server_can_take() {
        assert_eq!(millis(Duration::ZERO), 1);
        assert_eq!(millis(Duration::from_nanos(1)), 1);
        assert_eq!(millis(Duration::from_micros(1_001)), 2);
        assert_eq!(millis(Duration::MAX), LONGEST);
        assert_eq!(lease_millis(Duration::MAX), u32::MAX);
    }

    #[test]
    fn a_long_operation_is_cut_at_a_character() {
        for length in 400..520 {
            let operation = "ö".repeat(length);
            let meta = with_claim(&operation, |claim| Meta::of(&claim.audit, sent())).0;
            assert!(meta.len() <= MAX_META_LEN, "{} bytes", meta.len());
            let told = Told::read(&meta).expect("meta").operation;
            assert!(!told.contains('\u{fffd}'), "{told}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_reader_panic(bytes in vec(any::<u8>(), 0..200)) {
            if let Ok(head) = Head::read(&bytes) {
                let _ = (head.fingerprint(&bytes), Told::read(head.meta(&bytes)));
                let _ = head.response(&bytes.into());
            }
        }

        /// One byte that is wrong is another record, or none; never one that breaks the reader.
        #[test]
        fn no_changed_byte_makes_a_reader_panic(at in 0..HEAD_LEN, byte in any::<u8>()) {
            let mut value = completed();
            value[at] = byte;
            if let Ok(head) = Head::read(&value) {
                let _ = (head.fingerprint(&value), Told::read(head.meta(&value)));
                let _ = (head.is_overdue(sent()), head.lease_left(u64::MAX, u64::MAX / 2));
                let _ = head.response(&value.into());
            }
        }
    }
}
