//! What the attribute costs a request without a key: nothing.
#![forbid(unsafe_code)]

use actix_web::{
    App, Handler, Responder,
    rt::System,
    test::{TestRequest, call_service, init_service},
    web,
};
use idem_actix::{Idempotency, MemoryStore, idempotent};

async fn plain(body: String) -> String {
    body
}

#[idempotent]
async fn protected(body: String) -> String {
    body
}

#[idempotent]
async fn three(_: web::Path<String>, body: String, _: web::Query<Vec<(u8, u8)>>) -> String {
    body
}

async fn three_plain(_: web::Path<String>, body: String, _: web::Query<Vec<(u8, u8)>>) -> String {
    body
}

/// How many allocations one request makes, after some that warm up what is made once.
fn allocations<F, A>(handler: F) -> u64
where
    F: Handler<A, Output: Responder>,
    A: actix_web::FromRequest + 'static,
{
    let system = System::new();
    let idem = Idempotency::new(MemoryStore::new());
    let app = App::new()
        .app_data(idem)
        .route("/{id}", web::post().to(handler));
    let app = system.block_on(init_service(app));
    let requests = |number: usize| {
        // Made before, so that only the service is counted.
        let requests = (0..number).map(|_| TestRequest::post().uri("/7").set_payload("a body"));
        requests.map(TestRequest::to_request).collect::<Vec<_>>()
    };
    let call = |requests: Vec<_>| {
        for request in requests {
            let response = system.block_on(call_service(&app, request));
            assert_eq!(response.status(), 200);
        }
    };
    call(requests(10));
    let requests = requests(100);
    let counted = allocation_counter::measure(|| call(requests));
    assert_eq!(
        counted.count_total % 100,
        0,
        "not the same for each request"
    );
    counted.count_total / 100
}

#[test]
fn a_request_without_a_key_allocates_what_it_does_without_the_attribute() {
    assert_eq!(allocations(protected), allocations(plain));
    assert_eq!(allocations(three), allocations(three_plain));
}
