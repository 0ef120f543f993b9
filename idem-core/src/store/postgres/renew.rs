//! Extending leases, as many at once as a statement should have.
//!
//! Invariant: a lease that was answered is not sent again.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};

use super::{
    call::{Database, Statement, pauses},
    rows::{self, OwnerId, millis},
};
use crate::{
    error::StoreError,
    store::{LeaseRef, Renewal},
};

/// The most leases of one statement.
const AT_ONCE: usize = 1_000;
/// How often a lease is asked for whose row is locked.
const TRIES: usize = 8;

/// Extends what can be extended within about half of `limit`, so that what was answered is known
/// before the caller gives up. The rest stays unanswered.
pub(super) async fn renew(
    database: &Database,
    sql: &Arc<str>,
    leases: &[LeaseRef<'_>],
    limit: Duration,
) -> Result<Vec<Renewal>, StoreError> {
    let enough = Instant::now() + limit / 2;
    let mut renewals = vec![Renewal::Unanswered; leases.len()];
    let mut pauses = pauses();
    for tried in 0..TRIES {
        let open: Vec<_> = (0..leases.len())
            .filter(|place| renewals[*place] == Renewal::Unanswered)
            .collect();
        if tried > 0 {
            let pause = pauses.next().unwrap_or_default();
            if open.is_empty() || Instant::now() + pause >= enough {
                break;
            }
            sleep(pause).await;
        }
        for places in open.chunks(AT_ONCE) {
            let asked = places.iter().map(|place| &leases[*place]);
            match database.ask(statement(sql, asked), rows::renewals).await {
                Ok(answers) => {
                    for (place, answer) in places.iter().zip(answers) {
                        renewals[*place] = answer;
                    }
                }
                Err(error) if renewals.iter().all(|r| *r == Renewal::Unanswered) => {
                    return Err(error);
                }
                // Some answers are better than none.
                Err(_) => return Ok(renewals),
            }
            if Instant::now() >= enough {
                return Ok(renewals);
            }
        }
    }
    Ok(renewals)
}

fn statement<'a>(
    sql: &Arc<str>,
    leases: impl Iterator<Item = &'a LeaseRef<'a>> + Clone,
) -> Statement {
    let ids: Vec<_> = leases.clone().map(|l| &l.key.as_bytes()[..]).collect();
    let owners: Vec<_> = leases.clone().map(|l| OwnerId(l.owner)).collect();
    let lasts: Vec<_> = leases.map(|l| millis(l.lease)).collect();
    Statement::new(sql).bind(ids).bind(owners).bind(lasts)
}
