//! What the attribute costs a request without a key: nothing, and the layer one pointer.
#![forbid(unsafe_code)]

use std::sync::Arc;

use axum::{Extension, Router, body::Body, http::Request, routing::post};
use idem_axum::{Idempotency, MemoryStore, idempotent};
use tower::ServiceExt;

async fn plain(body: String) -> String {
    body
}

#[idempotent]
async fn protected(body: String) -> String {
    body
}

/// How many allocations one request makes, after some that warm up what is made once.
fn allocations(app: &Router) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let request = || {
        let request = Request::post("/")
            .body(Body::from("a body"))
            .expect("a request");
        let response = runtime
            .block_on(app.clone().oneshot(request))
            .expect("it cannot fail");
        assert_eq!(response.status(), 200);
    };
    (0..10).for_each(|_| request());
    let counted = allocation_counter::measure(|| (0..100).for_each(|_| request()));
    assert_eq!(
        counted.count_total % 100,
        0,
        "not the same for each request"
    );
    counted.count_total / 100
}

#[test]
fn a_request_without_a_key_allocates_what_a_shared_pointer_in_its_extensions_does() {
    let idem = Idempotency::new(MemoryStore::new());
    let pointer = Extension(Arc::new(()));
    let floor = Router::new().route("/", post(plain)).layer(pointer);
    let layered = Router::new().route("/", post(plain)).layer(idem.clone());
    let protected = Router::new().route("/", post(protected)).layer(idem);

    let floor = allocations(&floor);
    assert_eq!(
        allocations(&layered),
        floor,
        "the layer allocates more than its pointer"
    );
    assert_eq!(allocations(&protected), floor, "the attribute allocates");
}
