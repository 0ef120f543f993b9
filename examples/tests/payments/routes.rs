//! What each route of the example does.

use std::time::Duration;

use reqwest::Version;
use serde_json::Value;

use super::{Framework, Service, frameworks, http2};

frameworks![
    the_ledger_has_what_was_really_paid_by_this_caller,
    a_payment_over_http2_is_replayed_over_http1,
    a_crash_is_answered_and_runs_again,
    nobody_is_told_to_say_who_he_is_on_every_route,
    every_answer_of_the_gateway_has_its_envelope,
    a_record_lives_for_the_time_that_the_environment_says,
];

const PAY: &str = r#"{"amount": 1200, "currency": "EUR", "card": "ok"}"#;
const DECLINED: &str = r#"{"amount": 1200, "currency": "EUR", "card": "declined"}"#;
const CRASH: &str = r#"{"amount": 1200, "currency": "EUR", "card": "crash"}"#;
const TRANSFER: &str = r#"{"amount": "100.00", "currency": "USD"}"#;
const OTHER_TRANSFER: &str = r#"{"amount": "100.01", "currency": "USD"}"#;
const CREATE: &str = "/api/v1/transfer/command/create";

struct Answer {
    status: u16,
    location: Option<String>,
    replayed: bool,
    body: Value,
}

async fn send(request: reqwest::RequestBuilder) -> Answer {
    let response = request.send().await.expect("an answer");
    let header = |name| {
        response
            .headers()
            .get(name)?
            .to_str()
            .ok()
            .map(str::to_owned)
    };
    Answer {
        status: response.status().as_u16(),
        location: header("location"),
        replayed: header("idempotent-replayed").is_some(),
        body: response
            .bytes()
            .await
            .map(|body| serde_json::from_slice(&body).unwrap_or_default())
            .expect("a body"),
    }
}

/// How many payments this caller has really made.
pub(super) async fn payments(service: &Service, caller: &str) -> usize {
    let url = format!("http://{}/v1/payments", service.addr);
    let answer = send(reqwest::Client::new().get(url).bearer_auth(caller)).await;
    assert_eq!(answer.status, 200);
    answer.body.as_array().expect("an array").len()
}

async fn the_ledger_has_what_was_really_paid_by_this_caller(framework: Framework) {
    let service = framework.start(&[]);
    let paid = send(service.post("/v1/payments", "pay", PAY)).await;
    assert_eq!((paid.status, &paid.body["amount"]), (201, &1200.into()));
    let id = paid.body["id"].as_str().expect("an id");
    assert_eq!(paid.location, Some(format!("/v1/payments/{id}")));
    assert!(
        send(service.post("/v1/payments", "pay", PAY))
            .await
            .replayed
    );

    let declined = send(service.post("/v1/payments", "declined", DECLINED)).await;
    assert_eq!((declined.status, declined.replayed), (402, false));
    assert!(
        send(service.post("/v1/payments", "declined", DECLINED))
            .await
            .replayed
    );

    // The key of a payment is free for a refund: it is another operation.
    let refund = send(service.post("/v1/refunds", "pay", PAY)).await;
    assert_eq!((refund.status, refund.replayed), (201, false));

    assert_eq!(payments(&service, "ada").await, 1);
    assert_eq!(payments(&service, "bob").await, 0);
}

async fn a_payment_over_http2_is_replayed_over_http1(framework: Framework) {
    let service = framework.start(&[]);
    let paid = service.post_by(&http2(), "/v1/payments", "k", PAY).send();
    let paid = paid.await.expect("an answer");
    assert_eq!(
        (paid.status().as_u16(), paid.version()),
        (201, Version::HTTP_2)
    );
    let again = send(service.post("/v1/payments", "k", PAY)).await;
    assert_eq!((again.status, again.replayed), (201, true));
}

async fn a_crash_is_answered_and_runs_again(framework: Framework) {
    let service = framework.start(&[]);
    for _ in 0..2 {
        let crashed = send(service.post("/v1/payments", "crash", CRASH)).await;
        assert_eq!((crashed.status, crashed.replayed), (500, false));
    }
    assert_eq!(payments(&service, "ada").await, 0);
}

async fn nobody_is_told_to_say_who_he_is_on_every_route(framework: Framework) {
    let service = framework.start(&[]);
    for path in ["/v1/payments", "/v1/refunds", CREATE] {
        let url = format!("http://{}{path}", service.addr);
        assert_eq!(
            send(reqwest::Client::new().post(url)).await.status,
            401,
            "{path}"
        );
    }
}

async fn every_answer_of_the_gateway_has_its_envelope(framework: Framework) {
    let service = framework.start(&[]);
    let signed = |key: &str, body, nonce: &str| {
        service
            .post(CREATE, key, body)
            .header("x-nonce", nonce)
            .header("x-timestamp", nonce)
    };
    let first = send(signed("t", TRANSFER, "1")).await;
    assert_eq!((first.status, first.replayed), (201, false));
    let retry = send(signed("t", TRANSFER, "2")).await;
    assert_eq!((retry.status, retry.replayed), (201, true));
    assert_eq!(first.body, retry.body);

    let long = "k".repeat(129);
    let refused = [
        (send(signed("t", OTHER_TRANSFER, "3")).await, 409, "T1022"),
        (send(signed(&long, TRANSFER, "4")).await, 400, "T1021"),
        (send(service.post(CREATE, "", TRANSFER)).await, 400, "T1021"),
    ];
    for (answer, status, code) in refused {
        assert_eq!(
            (answer.status, answer.body["code"].as_str()),
            (status, Some(code))
        );
    }
    let url = format!("http://{}{CREATE}", service.addr);
    let request = reqwest::Client::new()
        .post(url)
        .bearer_auth("ada")
        .body(TRANSFER);
    let missing = send(request.header("content-type", "application/json")).await;
    let members: Vec<&String> = missing
        .body
        .as_object()
        .expect("an object")
        .keys()
        .collect();
    assert_eq!(
        members,
        ["code", "data", "message", "success", "timestamp", "version"]
    );
    assert_eq!(
        (missing.status, &missing.body["code"]),
        (400, &"T1020".into())
    );
    assert_eq!(
        send(signed(&"k".repeat(128), TRANSFER, "5")).await.status,
        201
    );
}

async fn a_record_lives_for_the_time_that_the_environment_says(framework: Framework) {
    let service = framework.start(&[("TTL", "1s")]);
    let first = send(service.post("/v1/payments", "k", PAY)).await;
    assert_eq!(first.status, 201);
    // The time of another process can only be waited for: until the key is new again.
    for _ in 0..300 {
        if !send(service.post("/v1/payments", "k", PAY)).await.replayed {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(payments(&service, "ada").await, 2);
}
