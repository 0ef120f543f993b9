//! The properties that every store must have, for those who write one.
//!
//! Implement [`Subject`] for the store, and [`conformance!`](crate::conformance) makes one test of
//! each property. The list is here and nowhere else: a property that is added reaches every store.
//! [`Sequence`] compares a store with a model of the protocol, over any sequence of calls.
//!
//! Each property uses keys of its own, so that all may run at once against one store. It panics
//! when it does not hold.
#![expect(
    clippy::missing_panics_doc,
    reason = "a property panics when it does not hold; that is its answer"
)]

pub(super) mod attempt;
mod claim;
mod complete;
mod expiry;
mod lease;
mod model;
mod race;
mod release;
mod replay;
mod resolve;
mod sequence;
mod wait;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::time::Instant;

pub use self::sequence::{Operation, Sequence};
use crate::{key::StorageKey, store::Store};

/// A store under test, and the means to let its time pass.
///
/// # Examples
/// The embedded store, on a clock that is paused:
/// ```
/// use std::{sync::Arc, time::Duration};
///
/// use async_trait::async_trait;
/// use bytes::Bytes;
/// use idem_core::{MemoryStore, StorageKey, Store, store::conformance::Subject};
///
/// struct Memory(MemoryStore);
///
/// #[async_trait]
/// impl Subject for Memory {
///     async fn store(&self) -> Arc<dyn Store> {
///         Arc::new(self.0.clone())
///     }
///
///     fn unit(&self) -> Duration {
///         Duration::from_millis(30)
///     }
///
///     async fn advance(&self, by: Duration) {
///         tokio::time::advance(by).await;
///     }
///
///     fn tolerance(&self) -> Duration {
///         Duration::ZERO
///     }
///
///     async fn swap_response(&self, _: &StorageKey, _: Bytes) -> Option<Bytes> {
///         None
///     }
/// }
///
/// idem_core::conformance!(#[tokio::test(start_paused = true)] Memory(MemoryStore::new()));
/// ```
#[async_trait]
pub trait Subject: Send + Sync {
    /// A handle on the store. It need not be empty.
    async fn store(&self) -> Arc<dyn Store>;

    /// The unit in which the properties measure leases and lives. A few calls must take much less;
    /// where time is real, 50 ms is a good choice for a store on the same machine.
    fn unit(&self) -> Duration;

    /// Lets time pass for the store: waits, unless its time can be moved.
    async fn advance(&self, by: Duration) {
        tokio::time::sleep(by).await;
    }

    /// The time on a clock that [`advance`](Self::advance) moves by as much as it moves that of the
    /// store. Only a [`Sequence`] asks for it.
    fn now(&self) -> Instant {
        Instant::now()
    }

    /// How far the store's time and that of the test may be apart: the time of a call, or zero
    /// where time is paused.
    fn tolerance(&self) -> Duration {
        self.unit() / 2
    }

    /// Puts other bytes in the place of a stored response and answers with those that were there;
    /// `None` if there is no way to do so, in which case the store needs a test of its own for
    /// records that it cannot read.
    async fn swap_response(&self, key: &StorageKey, bytes: Bytes) -> Option<Bytes>;
}

/// Makes [`conformance!`](crate::conformance) and the re-exports of one list. `$d` is a dollar
/// sign, for the macro within.
macro_rules! properties {
    ($d:tt $($module:ident { $($name:ident,)+ })+) => {
        $(pub use self::$module::{$($name),+};)+

        /// Makes a test of each [property](crate::store::conformance) of a store: the attribute
        /// that each test gets, and the [`Subject`](crate::store::conformance::Subject).
        ///
        /// The subject is an expression that is evaluated in each test; it may `.await`.
        #[macro_export]
        macro_rules! conformance {
            (#[$d($d attribute:tt)+] $d subject:expr) => {
                $($(
                    #[$d($d attribute)+]
                    async fn $name() {
                        $crate::store::conformance::$name(&$d subject).await;
                    }
                )+)+
            };
        }
    };
}

properties! {
    $
    claim {
        a_fresh_key_is_acquired,
        second_claimer_sees_in_progress,
        a_completed_key_answers_with_its_record,
        two_keys_are_two_records,
        a_claim_sent_again_is_acquired_again,
        a_claim_sent_again_has_a_whole_lease,
        a_lapsed_claim_sent_again_is_acquired_again,
        a_released_key_is_acquired_by_an_equal_request,
        an_unknown_key_is_not_acquired,
        fences_grow_with_each_attempt,
        another_request_is_a_mismatch_while_the_first_runs,
        another_request_is_a_mismatch_after_a_lapse,
        another_request_is_a_mismatch_once_the_first_is_done,
        another_request_is_a_mismatch_after_a_release,
        another_request_is_a_mismatch_when_the_outcome_is_unknown,
        a_mismatch_changes_nothing,
        a_reopened_store_has_the_same_records,
    }
    race {
        one_of_fifty_claims_of_a_fresh_key_is_acquired,
        one_of_fifty_claims_of_a_released_key_is_acquired,
        one_of_fifty_claims_of_a_lapsed_key_is_acquired,
        one_of_fifty_claims_of_an_expired_key_is_acquired,
        either_a_late_completion_or_a_takeover_wins,
        either_a_late_renewal_or_a_takeover_wins,
        a_purge_never_drops_what_was_just_claimed,
    }
    lease {
        a_lease_lasts_as_long_as_it_says,
        a_lapsed_key_is_not_taken_over_unless_the_claim_allows_it,
        a_renewed_lease_outlives_its_first_end,
        renewing_never_shortens_a_lease,
        a_renewed_record_outlives_its_ttl,
        a_lapsed_owner_whom_nobody_replaced_renews,
        a_replaced_owner_changes_nothing,
        renewals_are_answered_in_order,
    }
    complete {
        a_completion_sent_again_changes_nothing,
        a_late_completion_is_stored_if_nobody_took_over,
        a_late_completion_does_not_disturb_a_running_successor,
        a_late_completion_does_not_replace_the_answer_of_a_successor,
        a_released_claim_is_not_completed,
        an_unknown_outcome_is_completed_by_its_owner,
        a_vanished_record_is_restored,
        a_vanished_record_is_restored_without_a_grant,
        a_vanished_record_is_not_restored_over_another,
    }
    replay {
        every_byte_of_a_body_survives,
        an_empty_body_survives,
        a_large_body_survives,
        a_body_that_was_not_kept_stays_so,
        header_lines_survive,
        every_status_survives,
        an_unreadable_record_is_never_new,
    }
    release {
        a_forgotten_key_is_free_for_any_request,
        an_undone_first_attempt_is_forgotten,
        an_undone_later_attempt_stays_bound,
        a_claim_is_undone_without_its_grant,
        a_lapsed_owner_whom_nobody_replaced_releases,
        a_completed_key_is_not_released,
        a_release_sent_again_changes_nothing,
        releasing_a_key_without_a_record_says_so,
    }
    expiry {
        an_expired_key_is_new,
        the_ttl_counts_from_completion,
        a_completed_record_does_not_outlive_its_ttl,
        a_replay_does_not_extend_the_ttl,
        a_short_ttl_does_not_cut_a_lease,
        a_lapsed_record_lives_for_its_ttl,
        a_takeover_starts_the_ttl_anew,
        a_released_record_keeps_its_life,
        an_unknown_record_is_kept_as_long_as_it_says,
        a_resolved_record_lives_for_its_ttl,
        a_purge_drops_nothing_that_lives,
        a_summary_tells_how_long_a_record_lives,
    }
    resolve {
        a_summary_tells_of_each_state,
        a_fresh_key_has_no_summary,
        a_resolved_key_replays_the_operators_record,
        a_key_released_by_an_operator_stays_bound,
        a_key_forgotten_by_an_operator_is_free,
        a_completed_key_can_be_resolved,
        a_stale_decision_changes_nothing,
        a_decision_fences_a_live_owner,
        a_second_decision_on_the_same_view_is_stale,
        a_decision_about_no_record_says_so,
    }
    wait {
        a_completion_ends_a_wait,
        a_release_ends_a_wait,
        a_decision_ends_a_wait,
        every_waiter_is_told,
        a_wait_for_what_ended_ends_at_once,
        a_wait_ends_when_the_caller_said,
        a_dropped_wait_disturbs_nobody,
    }
}
