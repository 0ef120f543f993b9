//! The golden bytes in a real server: what the scripts make of them is what is read here.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use idem_core::{
    Caller, Fingerprint, IdempotencyKey, KeyRules, Record, RequestHead, StorageKey, Store,
    store::{
        Audit, Claim, ClaimRequest, Completion, LeaseRef, Owner, Release, Released, Renewal,
        Resolve, Resolved, Takeover,
    },
};

use crate::world::World;

const IN_PROGRESS: &[u8] = include_bytes!("../../golden/redis-v1-in-progress.bin");
const COMPLETED: &[u8] = include_bytes!("../../golden/redis-v1-completed.bin");
const OPERATION: &str = "POST /payments";
const DAY: Duration = Duration::from_hours(24);
const LEASE: Duration = Duration::from_secs(30);
const FENCE: u64 = 1_790_000_000_123_456;

/// Where the parts of a record are.
mod at {
    use std::ops::Range;

    pub(super) const STATE: usize = 1;
    pub(super) const OWNER: Range<usize> = 2..18;
    pub(super) const FENCE: Range<usize> = 18..26;
    pub(super) const ATTEMPTS: Range<usize> = 26..30;
    pub(super) const LIFE: Range<usize> = 34..42;
    pub(super) const LEASE_UNTIL: Range<usize> = 42..50;
}

/// The attempt that the golden files are of.
struct Golden {
    world: World,
    client: IdempotencyKey,
    caller: Caller,
    storage: StorageKey,
    fingerprint: Fingerprint,
}

impl Golden {
    /// A value in the place of the record, which was claimed a moment ago.
    async fn of(value: &[u8]) -> Self {
        Self::with_left(value, DAY).await
    }

    async fn with_left(value: &[u8], left: Duration) -> Self {
        let world = World::shared().await;
        let client = b"8e03978e-40d5-43e8-bc93-6894a57f9324";
        let client = IdempotencyKey::parse(client, &KeyRules::default()).expect("a key");
        let caller = Caller::User("ada".into());
        let storage = StorageKey::derive("shop", &caller, OPERATION, &client);
        let left = left.as_millis().to_string();
        let _: () = world
            .ask("SET", &[&world.name(&storage), "", "PX", &left])
            .await;
        world.put(&storage, value).await;
        Self {
            world,
            client,
            caller,
            storage,
            fingerprint: Fingerprint::of(&RequestHead::new("POST", "/payments"), b"{}"),
        }
    }

    fn audit(&self) -> Audit<'_> {
        Audit {
            namespace: "shop",
            operation: OPERATION,
            caller: &self.caller,
            key: &self.client,
        }
    }

    async fn claim(&self, owner: Owner) -> Claim {
        let claim = ClaimRequest {
            key: &self.storage,
            owner,
            fingerprint: &self.fingerprint,
            lease: LEASE,
            ttl: DAY,
            takeover: Takeover::Allowed,
            audit: self.audit(),
        };
        self.world.store.claim(&claim).await.expect("it answers")
    }

    fn lease(&self) -> LeaseRef<'_> {
        LeaseRef {
            key: &self.storage,
            owner: owner(),
            grant: None,
            fingerprint: &self.fingerprint,
            lease: LEASE,
            audit: self.audit(),
        }
    }

    async fn release(&self, how: Release) -> Released {
        let released = self.world.store.release(&self.lease(), how).await;
        released.expect("it answers")
    }

    /// The value is the golden one with these parts of its own.
    #[track_caller]
    fn is(value: &[u8], golden: &[u8], parts: &[(usize, &[u8])]) {
        let mut expected = golden.to_vec();
        for (start, part) in parts {
            expected[*start..start + part.len()].copy_from_slice(part);
        }
        assert_eq!(
            value.escape_ascii().to_string(),
            expected.escape_ascii().to_string()
        );
    }

    async fn value(&self) -> Vec<u8> {
        let value = self.world.value(&self.storage).await;
        value.expect("a record")
    }
}

fn owner() -> Owner {
    Owner::from_bytes(*b"0123456789abcdef")
}

fn record() -> Record {
    Record::new(201, "paid").with_header("location", "/payments/7")
}

fn now_millis() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("later");
    now.as_millis().try_into().expect("a moment")
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().expect("eight bytes"))
}

#[tokio::test]
async fn a_golden_claim_is_met_and_renewed() {
    let golden = Golden::of(IN_PROGRESS).await;
    let met = golden.claim(Owner::random()).await;
    let Claim::InProgress { grant, left } = met else {
        panic!("it runs: {met:?}");
    };
    assert_eq!((grant.fence.get(), grant.attempt), (FENCE, 1));
    assert!(left <= LEASE && left > LEASE / 2, "{left:?}");
    assert_eq!(golden.claim(owner()).await, Claim::Acquired { grant });

    let longer = LeaseRef {
        lease: LEASE * 2,
        ..golden.lease()
    };
    let renewed = golden
        .world
        .store
        .renew(&[longer])
        .await
        .expect("it answers");
    assert_eq!(renewed, [Renewal::Renewed { left: LEASE * 2 }]);
    let value = golden.value().await;
    let until = number(&value[at::LEASE_UNTIL]);
    let expected = now_millis() + 60_000;
    assert!(until.abs_diff(expected) < 20_000, "{until} {expected}");
    Golden::is(
        &value,
        IN_PROGRESS,
        &[(at::LEASE_UNTIL.start, &until.to_be_bytes())],
    );
}

#[tokio::test]
async fn a_golden_claim_is_completed_as_the_golden_outcome() {
    let golden = Golden::of(IN_PROGRESS).await;
    let store = &golden.world.store;
    let completed = store.complete(&golden.lease(), &record(), DAY).await;
    assert_eq!(completed.expect("it answers"), Completion::Stored);
    let value = golden.value().await;
    let when = number(&value[at::LEASE_UNTIL]);
    assert!(when.abs_diff(now_millis()) < 20_000, "{when}");
    Golden::is(
        &value,
        COMPLETED,
        &[(at::LEASE_UNTIL.start, &when.to_be_bytes())],
    );
}

#[tokio::test]
async fn a_golden_outcome_is_replayed() {
    let mut value = COMPLETED.to_vec();
    // Its own moment is long past.
    value[at::LEASE_UNTIL].copy_from_slice(&now_millis().to_be_bytes());
    let golden = Golden::of(&value).await;
    let Claim::Completed { record: replayed } = golden.claim(Owner::random()).await else {
        panic!("it is completed");
    };
    assert_eq!(*replayed, record());
    assert_eq!(golden.release(Release::Bound).await, Released::Ended);
    assert_eq!(golden.value().await, value);
}

#[tokio::test]
async fn a_golden_claim_is_released_and_claimed_again() {
    let golden = Golden::of(IN_PROGRESS).await;
    assert_eq!(golden.release(Release::Bound).await, Released::Done);
    Golden::is(&golden.value().await, IN_PROGRESS, &[(at::STATE, &[0])]);
    let next = Owner::random();
    let Claim::Acquired { grant } = golden.claim(next).await else {
        panic!("it was released");
    };
    assert_eq!(grant.attempt, 2);
    assert!(grant.fence.get() > FENCE);
    let value = golden.value().await;
    Golden::is(
        &value,
        IN_PROGRESS,
        &[
            (at::OWNER.start, next.as_bytes()),
            (at::FENCE.start, &grant.fence.get().to_be_bytes()),
            (at::ATTEMPTS.start, &2_u32.to_be_bytes()),
            (at::LEASE_UNTIL.start, &value[at::LEASE_UNTIL]),
        ],
    );
}

#[tokio::test]
async fn a_golden_claim_becomes_unknown_and_is_decided() {
    let golden = Golden::of(IN_PROGRESS).await;
    let keep = Release::Unknown { keep: DAY * 2 };
    assert_eq!(golden.release(keep).await, Released::Done);
    let life = (2 * 86_400_000_u64).to_be_bytes();
    let unknown = golden.value().await;
    Golden::is(
        &unknown,
        IN_PROGRESS,
        &[(at::STATE, &[3]), (at::LIFE.start, &life)],
    );

    let store = &golden.world.store;
    let summary = store.inspect(&golden.storage).await.expect("it answers");
    let fence = summary.expect("a record").grant.fence;
    let how = Resolve::Complete {
        record: record(),
        ttl: DAY,
    };
    let resolved = store.resolve(&golden.storage, fence, how).await;
    assert_eq!(resolved.expect("it answers"), Resolved::Done);
    let value = golden.value().await;
    Golden::is(
        &value,
        COMPLETED,
        &[
            (at::OWNER.start, &value[at::OWNER]),
            (at::FENCE.start, &(FENCE + 1).to_be_bytes()),
            (at::LEASE_UNTIL.start, &value[at::LEASE_UNTIL]),
        ],
    );
}

/// The lease of a native claim counts from its expiry.
#[tokio::test]
async fn a_golden_claim_whose_lease_lapsed_is_taken_over() {
    let golden = Golden::with_left(IN_PROGRESS, Duration::from_mins(24 * 60 - 1)).await;
    let Claim::Acquired { grant } = golden.claim(Owner::random()).await else {
        panic!("its lease lapsed");
    };
    assert_eq!(grant.attempt, 2);
}
