//! What support staff find of a payment whose process has gone.

use std::time::Instant;

use jiff::Timestamp;

use super::{INTERVAL, PAY, PAYMENTS, Place, Row, look_up, look_up_as, new_key, pay, rows};
use crate::PATIENCE;

rows![
    a_payment_is_found_after_its_process_has_gone,
    an_attempt_whose_process_was_killed_is_shown_as_lapsed,
    nobody_but_support_may_look_a_payment_up,
];

async fn a_payment_is_found_after_its_process_has_gone(row: Row) {
    let place = Place::new(row).await;
    let [payer, other] = place.replicas(&[]);
    let key = new_key();
    let paid = pay(&payer, PAYMENTS, &key).await;
    drop(payer);

    let found = look_up(&other, &key).await;
    assert_eq!(found.status, 200, "{found:?}");
    let found = found.json();
    let payment = paid.json();
    assert_eq!(payment["id"], place.booked()[0].id.to_string());
    assert_eq!(found["reference"], payment["id"]);
    assert_eq!(found["state"], "completed");
    assert_eq!(found["status"], 201);
    assert_eq!(found["attempts"], 1);
    for time in ["created", "completed"] {
        let time: Option<Timestamp> = found[time].as_str().and_then(|time| time.parse().ok());
        assert!(time.is_some(), "{found}");
    }

    let unknown = look_up(&other, &new_key()).await;
    assert_eq!(unknown.status, 404, "{unknown:?}");
}

async fn an_attempt_whose_process_was_killed_is_shown_as_lapsed(row: Row) {
    let place = Place::new(row).await;
    let [owner, other] = place.replicas(&[("LEASE", "1s")]);
    let key = new_key();
    let running = owner.running("/v1/payments?slow=10m", &key, PAY).await;
    drop((owner, running));
    let until = Instant::now() + PATIENCE;
    let lapsed = loop {
        let found = look_up(&other, &key).await.json();
        if found["state"] != "in_progress" {
            break found;
        }
        assert!(Instant::now() < until, "{found}");
        tokio::time::sleep(INTERVAL).await;
    };
    assert_eq!(lapsed["state"], "lapsed");
    assert_eq!(lapsed["attempts"], 1);
    assert!(lapsed["reference"].is_null(), "{lapsed}");
    assert_eq!(place.booked().len(), 0);
}

async fn nobody_but_support_may_look_a_payment_up(row: Row) {
    let place = Place::new(row).await;
    let service = place.start(&[]);
    let key = new_key();
    pay(&service, PAYMENTS, &key).await;
    for who in ["ada", "bob"] {
        // The same for a key that there is and one that there is not.
        for key in [&key, &new_key()] {
            let refused = look_up_as(who, &service, key).await;
            assert_eq!(refused.status, 403, "{refused:?}");
        }
    }
    assert_eq!(look_up(&service, &key).await.status, 200);
}
