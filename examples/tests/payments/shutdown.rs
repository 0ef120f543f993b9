//! Ctrl-C and SIGTERM: what runs comes to its end, and the process ends cleanly.

use futures_util::future::{Either, select};

use super::Service;

const PAY: &str = r#"{"amount": 1200, "currency": "EUR", "card": "ok"}"#;

#[tokio::test]
async fn a_request_that_runs_is_answered_before_the_process_ends() {
    for signal in ["INT", "TERM"] {
        let mut service = Service::start(&[]);
        let send = || Box::pin(service.post("/v1/payments?slow=1s", "k", PAY).send());
        // Of two equal requests one runs, which the other is told at once.
        let (first, running) = match select(send(), send()).await {
            Either::Left((answer, other)) | Either::Right((answer, other)) => (answer, other),
        };
        assert_eq!(first.expect("an answer").status(), 409, "{signal}");
        service.signal(signal);
        let answer = running.await.expect("an answer");
        assert_eq!(answer.status(), 201, "{signal}");
        assert!(service.wait().success(), "{signal}");
    }
}

#[test]
fn a_setting_that_is_wrong_is_named() {
    for (name, value) in [("ADDR", "nowhere"), ("LEASE", "2 parsecs"), ("TTL", "0s")] {
        let output = std::process::Command::new(super::example("payments-axum"))
            .env("ADDR", "127.0.0.1:0")
            .env(name, value)
            .output()
            .expect("the example is built with the tests of its package");
        let said = String::from_utf8_lossy(&output.stderr).to_lowercase();
        assert!(
            !output.status.success() && said.contains(&name.to_lowercase()),
            "{name}: {said}"
        );
    }
}
