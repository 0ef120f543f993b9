//! The client goes on until it is paid, once, whatever is killed: the server, the store.

use idem_services::{Postgres, Redis};
use serde_json::Value;
use uuid::Uuid;

use super::{Answer, Kind, Place, Row, look_up, rows};
use crate::{
    Service,
    client::{
        BODY, PAY,
        interrupted::{Reserved, killed_in_the_middle, payer},
    },
};

rows![
    a_server_that_comes_up_later_is_paid_once,
    a_server_that_is_killed_in_the_middle_is_paid_once,
    a_server_that_is_stopped_in_the_middle_is_paid_once,
    a_store_that_is_down_at_first_is_waited_for,
    a_store_that_is_killed_in_the_middle_keeps_the_payment,
];

const LEASE: (&str, &str) = ("LEASE", "2s");
/// The client leaves before the handler has ended, and when it asks again is told that it goes on.
const IMPATIENT: (&str, &str) = ("TIMEOUT", "500ms");

/// Asserts that one payment was made, and that its record is under this key. Returns how many attempts
/// there were.
async fn paid_once(place: &Place, service: &Service, key: Uuid) -> Value {
    let booked = place.booked();
    assert_eq!(booked.len(), 1, "{booked:?}");
    let record = look_up(service, &key.to_string()).await.json();
    assert_eq!(record["reference"], booked[0].id.to_string());
    record["attempts"].clone()
}

async fn a_server_that_comes_up_later_is_paid_once(row: Row) {
    let place = Place::new(row).await;
    let addr = Reserved::new();
    let payer = payer(&addr, "");
    let client = payer.start(&PAY, &[]);
    client.log("not reached");
    let key = payer.key();
    let service = place.start(&[LEASE, ("ADDR", &addr)]);
    client.end().expect(0, "invoice-17: done, 201\n{");
    assert_eq!(payer.key(), key);
    assert_eq!(paid_once(&place, &service, key).await, 1);
}

async fn a_server_that_is_killed_in_the_middle_is_paid_once(row: Row) {
    let place = Place::new(row).await;
    let (service, key) = killed_in_the_middle(row.framework, &place.with(&[LEASE]));
    assert_eq!(paid_once(&place, &service, key).await, 2);
}

async fn a_server_that_is_stopped_in_the_middle_is_paid_once(row: Row) {
    let place = Place::new(row).await;
    let addr = Reserved::new();
    let payer = payer(&addr, "?slow=2s");
    let start = || place.start(&[LEASE, ("ADDR", &addr)]);
    let mut service = start();
    let client = payer.start(&PAY, &[IMPATIENT]);
    client.log("409 in-progress");
    let key = payer.key();
    service.signal("TERM");
    assert_eq!(service.end().code(), Some(0));
    let service = start();
    // The first process has paid before it ended.
    client.end().expect(0, "invoice-17: done, 201, a replay\n{");
    assert_eq!(payer.key(), key);
    assert_eq!(paid_once(&place, &service, key).await, 1);
}

/// A server that a test may kill; what it has said is stored survives that.
enum Own {
    Redis(Redis),
    Postgres(Postgres),
}

impl Own {
    async fn start(store: Kind) -> Self {
        match store {
            Kind::Redis => {
                let always = [("appendonly", "yes"), ("appendfsync", "always")];
                Self::Redis(Redis::start(&always).await)
            }
            Kind::Postgres => Self::Postgres(Postgres::start(&[]).await),
        }
    }

    fn url(&self) -> String {
        match self {
            Self::Redis(redis) => redis.url(),
            Self::Postgres(postgres) => postgres.url(),
        }
    }

    fn kill(&self) {
        match self {
            Self::Redis(redis) => redis.kill(),
            Self::Postgres(postgres) => postgres.kill(),
        }
    }

    async fn restart(&self) {
        match self {
            Self::Redis(redis) => redis.restart().await,
            Self::Postgres(postgres) => postgres.restart().await,
        }
    }
}

async fn a_store_that_is_down_at_first_is_waited_for(row: Row) {
    let server = Own::start(row.store).await;
    let place = Place::at(row.framework, server.url(), None);
    let service = place.start(&[LEASE]);
    server.kill();
    let payer = payer(&service.addr, "");
    let client = payer.start(&PAY, &[]);
    client.log("503 store-unavailable");
    let key = payer.key();
    assert_eq!(place.booked().len(), 0);
    server.restart().await;
    client.end().expect(0, "invoice-17: done, 201\n{");
    assert_eq!(payer.key(), key);
    // A claim that was given up may land when the store is back, and be an attempt that never ran.
    let _ = paid_once(&place, &service, key).await;
}

async fn a_store_that_is_killed_in_the_middle_keeps_the_payment(row: Row) {
    let server = Own::start(row.store).await;
    let place = Place::at(row.framework, server.url(), None);
    // The lease of 30 seconds outlives the outage. A shorter one might lapse before the outcome is
    // stored, and the next attempt would pay again.
    let service = place.start(&[]);
    let payer = payer(&service.addr, "?slow=2s");
    let client = payer.start(&PAY, &[IMPATIENT]);
    client.log("409 in-progress");
    let key = payer.key();
    server.kill();
    service.log("outcome not stored, will retry");
    assert_eq!(place.booked().len(), 1);
    server.restart().await;
    client.end().expect(0, "invoice-17: done, 201, a replay\n{");
    assert_eq!(payer.key(), key);
    assert_eq!(paid_once(&place, &service, key).await, 1);

    // What was stored is still there after another crash.
    server.restart().await;
    let service = place.start(&[]);
    let again = service.post("/v1/payments?slow=2s", &key.to_string(), BODY);
    let again = Answer::read(again.send().await.expect("an answer")).await;
    assert_eq!(
        again.header("idempotent-replayed"),
        Some("true"),
        "{again:?}"
    );
    assert_eq!(paid_once(&place, &service, key).await, 1);
}
