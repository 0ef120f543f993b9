//! A handler that makes requests of its own: each is an operation of its own.
#![forbid(unsafe_code)]

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::Request,
    routing::post,
};
use idem_axum::{Attempt, Idempotency, MemoryStore, Principal, idempotent};
use tower::ServiceExt;

#[idempotent]
async fn pay(attempt: Attempt) -> String {
    attempt.downstream_key("charge")
}

/// Pays twice, with the extensions of its own request: they name the engine and the caller.
#[idempotent]
async fn batch(_: Attempt, request: Request) -> String {
    let mut keys = Vec::new();
    for key in ["first", "second"] {
        let mut payment = keyed("/pay", key);
        *payment.extensions_mut() = request.extensions().clone();
        keys.push(text(Router::new().route("/pay", post(pay)), payment).await);
    }
    keys.join(" ")
}

fn keyed(path: &str, key: &str) -> Request {
    let request = Request::post(path).header("idempotency-key", key);
    request.body(Body::empty()).expect("a request")
}

async fn text(router: Router, request: Request) -> String {
    let response = router.oneshot(request).await.expect("it cannot fail");
    assert_eq!(response.status(), 200);
    let body = to_bytes(response.into_body(), 1_024).await.expect("a body");
    String::from_utf8(body.to_vec()).expect("text")
}

#[tokio::test]
async fn two_payments_of_one_batch_have_keys_of_their_own() {
    let idem = Idempotency::new(MemoryStore::new());
    let router = Router::new().route("/batch", post(batch)).layer(idem);
    let mut request = keyed("/batch", "batch");
    request.extensions_mut().insert(Principal::new("ada"));
    let keys = text(router, request).await;
    let (first, second) = keys.split_once(' ').expect("two keys");
    assert_eq!((first.len(), second.len()), (64, 64));
    assert_ne!(first, second);
}
