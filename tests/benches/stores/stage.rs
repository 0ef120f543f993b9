//! The two sides: our store, and the calls that do as much without one.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, header::CONTENT_TYPE},
    response::IntoResponse,
    routing::post,
};
use idem_axum::{Idempotency, Principal, idempotent};
use idem_core::{
    Caller, Fingerprint, IdempotencyKey, KeyRules, Record, RecordBody, RequestHead, StorageKey,
    Store,
    store::{Audit, Claim, ClaimRequest, Completion, LeaseRef, Owner, Takeover},
};

use super::{REQUEST, Side};

/// A key as the floor has it.
pub(crate) type Id = [u8; 32];

/// The answer of the handler: with its status and its header line, about 190 bytes.
pub(crate) const ANSWER: &str = r#"{"id":"pay_0000000000000007","amount":100,"currency":"EUR","status":"captured","created":"2026-01-31T12:00:00Z","customer":"cus_000000000042"}"#;
const JSON: &str = "application/json";
/// How long a claim lives, here as in the attribute.
pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// What an application would send without a store, over a client of the same kind.
pub(crate) trait Bare: Clone + Send + Sync + 'static {
    /// Reads a stored answer.
    fn read(&self, id: &Id) -> impl Future<Output = Bytes> + Send;
    /// Writes that a key is new.
    fn begin(&self, id: &Id) -> impl Future<Output = ()> + Send;
    /// Stores an answer.
    fn end(&self, id: &Id, ttl: Duration) -> impl Future<Output = ()> + Send;
}

/// A store and its floor.
#[derive(Clone)]
pub(crate) struct Stage<B> {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) bare: B,
    request: Arc<Request>,
}

/// What all claims have in common.
struct Request {
    key: IdempotencyKey,
    caller: Caller,
    fingerprint: Fingerprint,
    record: Record,
}

impl<B: Bare> Stage<B> {
    pub(crate) fn new(store: Arc<dyn Store>, bare: B) -> Self {
        let key = IdempotencyKey::parse(
            b"8e03978e-40d5-43e8-bc93-6894a57f9324",
            &KeyRules::default(),
        );
        let head = RequestHead::new("POST", "/ours");
        let request = Request {
            key: key.expect("a key"),
            caller: Caller::User("ada".to_owned()),
            fingerprint: Fingerprint::of(&head, REQUEST.as_bytes()),
            record: Record::new(201, ANSWER).with_header(CONTENT_TYPE.as_str(), JSON),
        };
        Self {
            store,
            bare,
            request: Arc::new(request),
        }
    }

    /// Reads the outcome of a key that is completed.
    pub(crate) async fn replay(&self, side: Side, id: &Id) {
        match side {
            Side::Bare => assert_eq!(self.bare.read(id).await, ANSWER),
            Side::Ours => match self.claim(id, LEASE).await {
                Claim::Completed { record } => {
                    let stored = RecordBody::Kept(ANSWER.into());
                    assert!(record.status == 201 && record.body == stored, "{record:?}");
                }
                other => panic!("{other:?}"),
            },
        }
    }

    /// Claims a new key, and completes it.
    pub(crate) async fn first(&self, side: Side, id: &Id, ttl: Duration) {
        match side {
            Side::Bare => {
                self.bare.begin(id).await;
                self.bare.end(id, ttl).await;
            }
            Side::Ours => self.execute(id, ttl).await,
        }
    }

    async fn execute(&self, id: &Id, ttl: Duration) {
        let key = StorageKey::from_bytes(*id);
        let claim = self.request.claim(&key, ttl);
        let Ok(Claim::Acquired { grant }) = self.store.claim(&claim).await else {
            panic!("the key is new");
        };
        let lease = LeaseRef {
            key: &key,
            owner: claim.owner,
            grant: Some(grant),
            fingerprint: claim.fingerprint,
            lease: claim.lease,
            audit: claim.audit,
        };
        let completion = self.store.complete(&lease, &self.request.record, ttl).await;
        assert_eq!(completion.expect("the store answers"), Completion::Stored);
    }

    /// Claims a key, and leaves it so if it is new.
    pub(crate) async fn claim(&self, id: &Id, ttl: Duration) -> Claim {
        let key = StorageKey::from_bytes(*id);
        let claim = self.store.claim(&self.request.claim(&key, ttl)).await;
        claim.expect("the store answers")
    }

    /// Both sides as handlers.
    pub(crate) fn router(self) -> Router {
        let ours = Router::new()
            .route("/ours/kept", post(kept))
            .route("/ours/brief", post(brief))
            .layer(Idempotency::new(self.store))
            .layer(Extension(Principal::new("ada")));
        Router::new()
            .route("/bare/replay", post(bare_replay::<B>))
            .route("/bare/first", post(bare_first::<B>))
            .with_state(self.bare)
            .merge(ours)
    }
}

impl Request {
    fn claim<'a>(&'a self, key: &'a StorageKey, ttl: Duration) -> ClaimRequest<'a> {
        ClaimRequest {
            key,
            owner: Owner::random(),
            fingerprint: &self.fingerprint,
            lease: LEASE,
            ttl,
            takeover: Takeover::Allowed,
            audit: Audit {
                namespace: "",
                operation: "POST /ours",
                caller: &self.caller,
                key: &self.key,
            },
        }
    }
}

fn answer(body: Bytes) -> impl IntoResponse {
    (StatusCode::CREATED, [(CONTENT_TYPE, JSON)], body)
}

#[idempotent]
async fn kept(_: Bytes) -> impl IntoResponse {
    answer(ANSWER.into())
}

#[idempotent(ttl = "2s")]
async fn brief(_: Bytes) -> impl IntoResponse {
    answer(ANSWER.into())
}

async fn bare_replay<B: Bare>(
    State(bare): State<B>,
    headers: HeaderMap,
    _: Bytes,
) -> impl IntoResponse {
    answer(bare.read(&id(&headers)).await)
}

async fn bare_first<B: Bare>(
    State(bare): State<B>,
    headers: HeaderMap,
    _: Bytes,
) -> impl IntoResponse {
    let id = id(&headers);
    bare.begin(&id).await;
    let answer = answer(ANSWER.into());
    bare.end(&id, super::BRIEF).await;
    answer
}

fn id(headers: &HeaderMap) -> Id {
    let key = headers.get("idempotency-key").expect("the client sends it");
    key.as_bytes().try_into().expect("it has 32 digits")
}
