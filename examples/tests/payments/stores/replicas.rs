//! Two replicas that run.

use futures_util::future::join_all;

use super::{Answer, PAYMENTS, Place, Row, new_key, pay, rows};

rows![
    of_fifty_equal_requests_over_two_replicas_one_pays,
    a_payment_through_one_replica_is_replayed_by_the_other,
    a_payment_through_one_framework_is_replayed_by_the_other,
];

const ROUNDS: usize = 20;
const REQUESTS: usize = 50;

/// B01-01
async fn of_fifty_equal_requests_over_two_replicas_one_pays(row: Row) {
    let place = Place::new(row).await;
    let replicas = place.replicas(&[]);
    let (mut in_progress, mut replays) = (0, 0);
    for round in 0..ROUNDS {
        let key = new_key();
        let sending = (0..REQUESTS).map(|request| {
            let replica = &replicas[(request + round) % replicas.len()];
            pay(replica, "/v1/payments?slow=50ms", &key)
        });
        let answers = join_all(sending).await;
        let (paid, others): (Vec<_>, Vec<_>) = answers.into_iter().partition(Answer::is_paid);
        assert_eq!(paid.len(), 1, "{paid:?} {others:?}");
        for other in others {
            if other.is_in_progress() {
                in_progress += 1;
            } else {
                assert!(other.is_replay_of(&paid[0]), "{other:?}");
                replays += 1;
            }
        }
        let booked = place.booked();
        assert_eq!(booked.len(), round + 1);
        assert_eq!(paid[0].json()["id"], booked[round].id.to_string());
    }
    eprintln!("{row:?}: {ROUNDS} paid, {in_progress} in progress, {replays} replayed");
}

/// P-21, B10-01
async fn a_payment_through_one_replica_is_replayed_by_the_other(row: Row) {
    let place = Place::new(row).await;
    let [one, two] = place.replicas(&[]);
    for (payer, other) in [(&one, &two), (&two, &one)] {
        let key = new_key();
        let paid = pay(payer, PAYMENTS, &key).await;
        assert!(paid.is_paid(), "{paid:?}");
        let again = pay(other, PAYMENTS, &key).await;
        assert!(again.is_replay_of(&paid), "{paid:?} {again:?}");
    }
    assert_eq!(place.booked().len(), 2);
}

async fn a_payment_through_one_framework_is_replayed_by_the_other(row: Row) {
    let place = Place::new(row).await;
    let payer = place.start(&[]);
    let other = row.framework.other().start(&place.with(&[]));
    let key = new_key();
    let paid = pay(&payer, PAYMENTS, &key).await;
    assert!(paid.is_paid(), "{paid:?}");
    let again = pay(&other, PAYMENTS, &key).await;
    assert!(again.is_replay_of(&paid), "{paid:?} {again:?}");
    assert_eq!(place.booked().len(), 1);
}
