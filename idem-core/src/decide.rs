//! Deciding what to do with a request once the store has answered, and with an attempt once it
//! has ended.
//!
//! Pure: no clock, no I/O, no framework types. Every protocol rule is a row of [`decide`] or of
//! [`settle`], and nowhere else.
//!
//! Invariant: a fingerprint that differs is reported before everything else, so that a client's
//! mistake is never taken for a race. The order is ours; the statuses are those of [`Rejection`].

use std::time::Duration;

use crate::{
    policy::Outcome,
    record::{Record, RecordBody},
    rejection::Rejection,
    store::{Claim, Grant},
};

/// What to do with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Action {
    /// Run the handler: the record is ours.
    Execute(Grant),
    /// Answer from the record.
    Replay(Box<Record>),
    /// Refuse.
    Reject(Rejection),
    /// Wait for the attempt that runs, whose lease lasts for `left`; then claim again.
    Wait {
        /// From now.
        left: Duration,
    },
}

/// Whether the request may wait for an attempt that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// It waits.
    Waits,
    /// It was not asked to, its time is up, or too many wait already.
    Exhausted,
}

/// Decides what to do with a request, given what its claim found.
///
/// # Examples
/// ```
/// use idem_core::decide::{Action, Patience, decide};
/// use idem_core::{Rejection, store::{Claim, State}};
///
/// let action = decide(Claim::Mismatch { state: State::InProgress }, Patience::Waits);
/// assert_eq!(action, Action::Reject(Rejection::KeyReused { original: State::InProgress }));
/// ```
pub fn decide(claim: Claim, patience: Patience) -> Action {
    match (claim, patience) {
        (Claim::Mismatch { state }, _) => Action::Reject(Rejection::KeyReused { original: state }),
        (Claim::Acquired { grant }, _) => Action::Execute(grant),
        (Claim::Completed { record }, _) => match record.body {
            RecordBody::Kept(_) => Action::Replay(record),
            RecordBody::NotKept => Action::Reject(unavailable(&record)),
        },
        (Claim::InProgress { left, .. }, Patience::Waits) => Action::Wait { left },
        (Claim::InProgress { grant, left }, Patience::Exhausted) => {
            Action::Reject(Rejection::in_progress(grant, left))
        }
        (Claim::Lapsed { .. } | Claim::Unknown { .. }, _) => {
            Action::Reject(Rejection::OutcomeUnknown)
        }
        (Claim::Unreadable(_), _) => Action::Reject(Rejection::RecordUnreadable),
    }
}

fn unavailable(record: &Record) -> Rejection {
    let location = record.header("location");
    Rejection::ResponseUnavailable {
        status: record.status,
        location: location
            .and_then(|value| str::from_utf8(value).ok())
            .map(str::to_owned),
    }
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The handler answered.
    Answered {
        /// The status of its answer.
        status: u16,
        /// What it said about its own answer.
        outcome: Option<Outcome>,
    },
    /// The handler panicked.
    Panicked,
}

/// What becomes of the record of an attempt that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Settlement {
    /// The answer is stored and replayed.
    Complete,
    /// Nothing is stored and the key stays bound: the next equal request runs.
    Release,
    /// Nothing is stored and the key is free.
    Forget,
    /// Nothing runs until somebody decides.
    Unknown,
}

/// Decides what becomes of an attempt's record.
///
/// The handler's own word wins. Otherwise an answer is stored unless its status says that the
/// operation is not done: a server error, or 401, 408, 425 and 429, which describe the moment and
/// not the operation.
///
/// # Examples
/// ```
/// use idem_core::decide::{Ending, Settlement, settle};
///
/// let declined = Ending::Answered { status: 402, outcome: None };
/// assert_eq!(settle(declined), Settlement::Complete);
/// let failed = Ending::Answered { status: 500, outcome: None };
/// assert_eq!(settle(failed), Settlement::Release);
/// ```
pub fn settle(ending: Ending) -> Settlement {
    match ending {
        Ending::Panicked => Settlement::Release,
        Ending::Answered {
            outcome: Some(outcome),
            ..
        } => match outcome {
            Outcome::Keep => Settlement::Complete,
            Outcome::Release => Settlement::Release,
            Outcome::Forget => Settlement::Forget,
            Outcome::Unknown => Settlement::Unknown,
        },
        Ending::Answered {
            status,
            outcome: None,
        } => match status {
            401 | 408 | 425 | 429 | 500.. => Settlement::Release,
            _ => Settlement::Complete,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        record::Unreadable,
        store::{Fence, State},
    };

    const GRANT: Grant = Grant {
        fence: Fence::new(7),
        attempt: 3,
    };
    const LEFT: Duration = Duration::from_secs(20);
    const EITHER: [Patience; 2] = [Patience::Waits, Patience::Exhausted];

    fn rejects(claim: &Claim, expected: &Rejection) {
        for patience in EITHER {
            assert_eq!(
                decide(claim.clone(), patience),
                Action::Reject(expected.clone()),
                "{claim:?}"
            );
        }
    }

    #[test]
    fn an_acquired_key_runs_the_handler() {
        for patience in EITHER {
            assert_eq!(
                decide(Claim::Acquired { grant: GRANT }, patience),
                Action::Execute(GRANT)
            );
        }
    }

    #[test]
    fn a_completed_key_replays() {
        let record = Box::new(Record::new(402, "declined"));
        for patience in EITHER {
            let claim = Claim::Completed {
                record: record.clone(),
            };
            assert_eq!(decide(claim, patience), Action::Replay(record.clone()));
        }
    }

    #[test]
    fn a_completed_key_without_body_says_what_was_answered_and_where_to_look() {
        let record = Record::new(201, "")
            .with_header("location", "/payments/7")
            .without_body();
        rejects(
            &Claim::Completed {
                record: Box::new(record),
            },
            &Rejection::ResponseUnavailable {
                status: 201,
                location: Some("/payments/7".into()),
            },
        );
        let elsewhere = Record::new(200, "")
            .with_header("location", &b"/caf\xe9"[..])
            .without_body();
        rejects(
            &Claim::Completed {
                record: Box::new(elsewhere),
            },
            &Rejection::ResponseUnavailable {
                status: 200,
                location: None,
            },
        );
    }

    #[test]
    fn a_running_key_is_waited_for_or_refused_with_a_time() {
        let claim = Claim::InProgress {
            grant: GRANT,
            left: LEFT,
        };
        assert_eq!(
            decide(claim.clone(), Patience::Waits),
            Action::Wait { left: LEFT }
        );
        assert_eq!(
            decide(claim, Patience::Exhausted),
            Action::Reject(Rejection::InProgress { retry_after: 4 })
        );
    }

    #[test]
    fn a_mismatch_is_refused_in_every_state_and_never_waited_for() {
        for state in [
            State::InProgress,
            State::Completed,
            State::Released,
            State::Unknown,
        ] {
            rejects(
                &Claim::Mismatch { state },
                &Rejection::KeyReused { original: state },
            );
        }
    }

    #[test]
    fn an_outcome_that_nobody_knows_is_never_run_again() {
        rejects(&Claim::Lapsed { grant: GRANT }, &Rejection::OutcomeUnknown);
        rejects(&Claim::Unknown { grant: GRANT }, &Rejection::OutcomeUnknown);
    }

    #[test]
    fn an_unreadable_record_is_never_new() {
        rejects(
            &Claim::Unreadable(Unreadable::Version(9)),
            &Rejection::RecordUnreadable,
        );
    }

    #[test]
    fn every_status_has_its_settlement() {
        let settled = |status| {
            settle(Ending::Answered {
                status,
                outcome: None,
            })
        };
        let released: Vec<u16> = (100..=599)
            .filter(|status| settled(*status) == Settlement::Release)
            .collect();
        let expected: Vec<u16> = [401, 408, 425, 429].into_iter().chain(500..=599).collect();
        assert_eq!(released, expected);
        for status in (100..=599).filter(|status| !expected.contains(status)) {
            assert_eq!(settled(status), Settlement::Complete, "{status}");
        }
    }

    #[test]
    fn the_handlers_word_wins_over_the_status() {
        for status in [200, 402, 500] {
            for (outcome, settlement) in [
                (Outcome::Keep, Settlement::Complete),
                (Outcome::Release, Settlement::Release),
                (Outcome::Forget, Settlement::Forget),
                (Outcome::Unknown, Settlement::Unknown),
            ] {
                let ending = Ending::Answered {
                    status,
                    outcome: Some(outcome),
                };
                assert_eq!(settle(ending), settlement, "{status} {outcome:?}");
            }
        }
    }

    #[test]
    fn a_panic_is_released_and_stays_bound() {
        assert_eq!(settle(Ending::Panicked), Settlement::Release);
    }
}
