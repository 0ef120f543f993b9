//! The server is down, the server is killed, the client is killed: it is paid once.

use std::{net::Ipv4Addr, ops::Deref};

use idem_examples::journal::State;
use tokio::net::TcpSocket;
use uuid::Uuid;

use super::{BODY, NAME, PAY, Payer};
use crate::{Framework, Service, frameworks, routes::payments};

frameworks![
    a_server_that_comes_up_later_is_paid_once,
    a_server_that_is_killed_in_the_middle_answers_when_it_is_back,
    a_client_that_is_killed_goes_on_with_its_key,
    a_payment_that_runs_is_waited_for_as_told,
    a_key_that_was_used_for_another_request_ends_it_at_once,
    a_name_that_is_done_is_not_paid_again,
    a_declined_card_is_refused_with_what_the_server_said,
];

/// An address where nobody listens, for a service that comes later or comes back. The port is given to
/// nobody else as long as this value lives, since a socket is bound to it.
pub(crate) struct Reserved {
    addr: String,
    _socket: TcpSocket,
}

impl Reserved {
    pub(crate) fn new() -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        // With it, and since this one does not listen, the service may bind to it too.
        socket.set_reuseaddr(true).expect("an option of sockets");
        let bound = socket.bind((Ipv4Addr::LOCALHOST, 0).into());
        bound.expect("a free port");
        Self {
            addr: socket.local_addr().expect("it is bound").to_string(),
            _socket: socket,
        }
    }
}

impl Deref for Reserved {
    type Target = str;

    fn deref(&self) -> &str {
        &self.addr
    }
}

pub(crate) fn payer(addr: &str, query: &str) -> Payer {
    Payer::at(format!("http://{addr}/v1/payments{query}"))
}

async fn a_server_that_comes_up_later_is_paid_once(framework: Framework) {
    let addr = Reserved::new();
    let payer = payer(&addr, "");
    let client = payer.start(&PAY, &[]);
    client.log("not reached");
    let service = framework.start(&[("ADDR", &addr)]);
    client.end().expect(0, "invoice-17: done, 201\n{");
    assert_eq!(payments(&service, "ada").await, 1);
}

/// Kills the service while a handler runs, and starts it anew. Returns it after the client's end, with
/// the key of the payment.
pub(crate) fn killed_in_the_middle(
    framework: Framework,
    environment: &[(&str, &str)],
) -> (Service, Uuid) {
    let addr = Reserved::new();
    let environment = [&[("ADDR", &*addr)], environment].concat();
    let payer = payer(&addr, "?slow=2s");
    let service = framework.start(&environment);
    let client = payer.start(&PAY, &[("TIMEOUT", "500ms")]);
    client.log("409 in-progress");
    let key = payer.key();
    drop(service);
    client.log("not reached");
    let service = framework.start(&environment);
    client.end().expect(0, "invoice-17: done, 201");
    assert_eq!(payer.key(), key);
    (service, key)
}

async fn a_server_that_is_killed_in_the_middle_answers_when_it_is_back(framework: Framework) {
    // The embedded store and the ledger have both ended with the first process.
    let (service, _) = killed_in_the_middle(framework, &[]);
    assert_eq!(payments(&service, "ada").await, 1);
}

async fn a_client_that_is_killed_goes_on_with_its_key(framework: Framework) {
    for arguments in [&PAY[..], &[]] {
        let service = framework.start(&[]);
        let payer = payer(&service.addr, "?slow=2s");
        let client = payer.start(&PAY, &[("TIMEOUT", "500ms")]);
        client.log("no answer");
        // The handler goes on without it.
        client.log("409 in-progress");
        drop(client);
        let key = payer.remembered().key;

        let ended = payer.run(arguments, &[]);
        ended.expect(0, "invoice-17: done, 201, a replay\n{");
        assert_eq!(payer.remembered().key, key);
        assert_eq!(payments(&service, "ada").await, 1);
    }
}

async fn a_payment_that_runs_is_waited_for_as_told(framework: Framework) {
    let service = framework.start(&[]);
    let payer = payer(&service.addr, "?slow=1s");
    let key = payer.started().key.to_string();
    let running = service.running("/v1/payments?slow=1s", &key, BODY).await;
    // Its client may leave.
    drop(running);

    let client = payer.start(&PAY, &[]);
    let waits = client.log("again in");
    assert_eq!(waits, "invoice-17: 409 in-progress; again in 1.0s");
    client.end().expect(0, "invoice-17: done, 201, a replay\n{");
    assert_eq!(payments(&service, "ada").await, 1);
}

async fn a_key_that_was_used_for_another_request_ends_it_at_once(framework: Framework) {
    let service = framework.start(&[]);
    let payer = payer(&service.addr, "");
    let key = payer.started().key.to_string();
    let other = r#"{"amount": 9900, "currency": "EUR", "card": "ok"}"#;
    let paid = service.post("/v1/payments", &key, other).send().await;
    assert_eq!(paid.expect("an answer").status(), 201);

    let ended = payer.run(&[], &[]);
    // The key was used by whoever wrote the journal, so that something may have been paid.
    ended.expect(2, "invoice-17: unknown, 409 key-reused\n");
    assert_eq!(ended.log, [""; 0]);
    let answer = "409 key-reused".to_owned();
    assert_eq!(payer.remembered().state, State::Unknown { answer });
}

async fn a_name_that_is_done_is_not_paid_again(framework: Framework) {
    let service = framework.start(&[]);
    let payer = payer(&service.addr, "");
    let first = payer.run(&PAY, &[]);
    let second = payer.run(&PAY, &[]);
    second.expect(0, &first.said);
    let other = payer.run(&[NAME, "9900", "EUR"], &[]);
    other.expect(1, "");
    let refused = format!("`invoice-17` is another request: {BODY} to {}", payer.url);
    assert_eq!(other.log, [refused]);
    assert_eq!(payments(&service, "ada").await, 1);
}

async fn a_declined_card_is_refused_with_what_the_server_said(framework: Framework) {
    let service = framework.start(&[]);
    let payer = payer(&service.addr, "");
    let ended = payer.run(&[NAME, "1200", "EUR", "declined"], &[]);
    ended.expect(
        1,
        "invoice-17: refused, 402\n{\"error\":\"card declined\"}\n",
    );
    assert_eq!(payments(&service, "ada").await, 0);
}
