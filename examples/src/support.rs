//! What support staff are told: was this payment made, when, and which one is it?

use std::time::{Duration, SystemTime};

use idem_core::store::{State, Summary};
use jiff::Timestamp;
use serde::Serialize;

/// The one who may ask. A real service has a role for it.
pub const SUPPORT: &str = "support";

/// What is asked about: method and route of the handler that pays.
pub const OPERATION: &str = "POST /v1/payments";

/// What became of a key.
#[derive(Debug, Serialize)]
pub struct Found {
    state: &'static str,
    attempts: u32,
    /// What a decision about this record must name.
    fence: u64,
    created: Option<Timestamp>,
    completed: Option<Timestamp>,
    expires_in_seconds: u64,
    status: Option<u16>,
    /// The payment.
    reference: Option<String>,
}

impl From<Summary> for Found {
    fn from(summary: Summary) -> Self {
        Self {
            state: match summary.state {
                State::InProgress => match summary.lease_left {
                    Some(Duration::ZERO) => "lapsed",
                    Some(_) | None => "in_progress",
                },
                State::Completed => "completed",
                State::Released => "released",
                State::Unknown => "unknown",
            },
            attempts: summary.grant.attempt,
            fence: summary.grant.fence.get(),
            created: timestamp(summary.created),
            completed: summary.completed.and_then(timestamp),
            expires_in_seconds: summary.expires_in.as_secs(),
            status: summary.status,
            reference: summary.reference,
        }
    }
}

fn timestamp(time: SystemTime) -> Option<Timestamp> {
    Timestamp::try_from(time).ok()
}
