//! Ctrl-C and SIGTERM: what runs comes to its end within a limit, and the process ends.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
};

use reqwest::Client;

use super::{Framework, PATIENCE, Service, frameworks, http2};

frameworks![
    a_request_that_runs_is_answered_before_the_process_ends,
    a_payment_whose_client_is_gone_is_still_made,
    the_process_ends_at_its_limit_with_a_client_attached,
    a_second_signal_ends_the_process_at_once,
    new_keyed_requests_are_refused_by_both_engines_during_the_drain,
    ;
    blocking:
    a_request_without_a_key_is_answered_before_the_process_ends,
    a_client_that_stalls_does_not_keep_the_process,
    a_setting_that_is_wrong_is_named,
];

const PAY: &str = r#"{"amount": 1200, "currency": "EUR", "card": "ok"}"#;
const TRANSFER: &str = r#"{"amount": "100.00", "currency": "USD"}"#;

/// A request on a connection that has served another, and whose handler waits for the body.
struct Halfway {
    connection: BufReader<TcpStream>,
    body: &'static str,
}

impl Halfway {
    fn send(service: &Service, path: &str, headers: &str, body: &'static str) -> Self {
        let connection = TcpStream::connect(&service.addr).expect("it listens");
        connection
            .set_read_timeout(Some(PATIENCE))
            .expect("it is longer than zero");
        let mut connection = BufReader::new(connection);
        let to = format!("host: {}\r\nauthorization: Bearer ada", service.addr);
        let list = format!("GET /v1/payments HTTP/1.1\r\n{to}\r\n\r\n");
        write(&mut connection, &list);
        let mut answer = head(&mut connection);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        connection
            .read_exact(&mut [0; 2])
            .expect("an empty list of payments");

        let post = format!(
            "POST {path} HTTP/1.1\r\n{to}\r\n{headers}content-type: application/json\r\n\
             content-length: {}\r\nexpect: 100-continue\r\n\r\n",
            body.len()
        );
        write(&mut connection, &post);
        // Said when somebody reads the body.
        answer = head(&mut connection);
        assert!(answer.starts_with("HTTP/1.1 100 "), "{answer}");
        Self { connection, body }
    }

    /// Sends the body; the answer is the last one on this connection.
    fn finish(mut self) -> String {
        write(&mut self.connection, self.body);
        let mut answer = String::new();
        self.connection
            .read_to_string(&mut answer)
            .expect("an answer and the end of the connection");
        answer
    }
}

fn write(connection: &mut BufReader<TcpStream>, text: &str) {
    let sent = connection.get_mut().write_all(text.as_bytes());
    sent.expect("an open connection");
}

fn head(connection: &mut BufReader<TcpStream>) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        let read = connection.read_line(&mut head).expect("an answer");
        assert_ne!(read, 0, "closed after {head:?}");
    }
    head
}

async fn a_request_that_runs_is_answered_before_the_process_ends(framework: Framework) {
    for signal in ["INT", "TERM"] {
        let mut service = framework.start(&[]);
        let running = service.running("/v1/payments?slow=1s", "k", PAY).await;
        service.signal(signal);
        let answer = running.await.expect("an answer");
        assert_eq!(answer.status(), 201, "{signal}");
        assert_eq!(service.end().code(), Some(0), "{signal}");
    }
}

async fn a_payment_whose_client_is_gone_is_still_made(framework: Framework) {
    for client in [Client::new(), http2()] {
        let mut service = framework.start(&[]);
        let running = service.running_by(&client, "/v1/payments?slow=2s", "k", PAY);
        drop((running.await, client));
        service.signal("TERM");
        let drained = service.log("engine=\"payments\"");
        assert!(drained.contains("finished=1 left=0"), "{drained}");
        assert_eq!(service.end().code(), Some(0));
    }
}

async fn the_process_ends_at_its_limit_with_a_client_attached(framework: Framework) {
    for signal in ["INT", "TERM"] {
        let mut service = framework.start(&[("DRAIN", "200ms")]);
        let _running = service.running("/v1/payments?slow=60s", "k", PAY).await;
        service.signal(signal);
        let left = service.log("attempts are left");
        assert!(left.contains("left=1"), "{signal}: {left}");
        assert_eq!(service.end().code(), Some(2), "{signal}");
    }
}

async fn a_second_signal_ends_the_process_at_once(framework: Framework) {
    for (first, second) in [("TERM", "INT"), ("INT", "TERM"), ("TERM", "TERM")] {
        let mut service = framework.start(&[("DRAIN", "10m")]);
        let _running = service.running("/v1/payments?slow=10m", "k", PAY).await;
        service.signal(first);
        service.log("shutting down");
        service.signal(second);
        assert_eq!(service.end().code(), Some(2), "{first} {second}");
    }
}

async fn new_keyed_requests_are_refused_by_both_engines_during_the_drain(framework: Framework) {
    let service = framework.start(&[("DRAIN", "10m")]);
    let _running = service.running("/v1/payments?slow=10m", "k", PAY).await;
    let key = "idempotency-key: new\r\n";
    let payment = Halfway::send(&service, "/v1/payments", key, PAY);
    let transfer = Halfway::send(&service, "/api/v1/transfer/command/create", key, TRANSFER);
    service.signal("TERM");
    service.log("shutting down");

    let answer = payment.finish();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains(r#""code":"shutting-down""#), "{answer}");
    let answer = transfer.finish();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains(r#""code":"T1503""#), "{answer}");
}

fn a_request_without_a_key_is_answered_before_the_process_ends(framework: Framework) {
    let mut service = framework.start(&[]);
    let payment = Halfway::send(&service, "/v1/payments?slow=2s", "", PAY);
    service.signal("TERM");
    service.log("shutting down");
    let answer = payment.finish();
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    assert_eq!(service.end().code(), Some(0));
}

fn a_client_that_stalls_does_not_keep_the_process(framework: Framework) {
    let mut service = framework.start(&[("DRAIN", "200ms")]);
    let _stalled = Halfway::send(&service, "/v1/payments", "", PAY);
    service.signal("TERM");
    // No attempt was left.
    assert_eq!(service.end().code(), Some(0));
}

fn a_setting_that_is_wrong_is_named(framework: Framework) {
    for (name, value) in [
        ("ADDR", "nowhere"),
        ("DRAIN", "soon"),
        ("LEASE", "2 parsecs"),
        ("LEDGER", "/nowhere/ledger"),
        ("STORE", "mysql://127.0.0.1/"),
        ("STORE", "rediss://127.0.0.1/"),
        ("STORE", "redis://127.0.0.1:1/"),
        ("TTL", "0s"),
    ] {
        let mut process = framework
            .command(&[(name, value)])
            .spawn()
            .expect("the example is built with the tests of its package");
        let mut listening = String::new();
        let stdout = process.stdout.take().expect("it is piped");
        BufReader::new(stdout)
            .read_line(&mut listening)
            .expect("text");
        if !listening.is_empty() {
            let _ = process.kill();
        }
        let output = process.wait_with_output().expect("it was started");
        let said = String::from_utf8_lossy(&output.stderr).to_lowercase();
        assert!(
            !output.status.success() && said.contains(&name.to_lowercase()),
            "{name}: {said}"
        );
    }
}
