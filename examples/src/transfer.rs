//! Transfers of a gateway with an envelope of its own around every answer, refusals included.
//!
//! Its clients sign each attempt with a fresh `X-Nonce` and `X-Timestamp`. These are no part of
//! what a key stands for, so a retry is a retry.

use idem_core::Rejection;
use jiff::Timestamp;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The longest key that the gateway publishes, in bytes.
pub const MAX_KEY_LEN: usize = 128;

/// The body of a request for a transfer. The amount is a decimal in a string, never a float.
#[derive(Debug, Deserialize)]
pub struct NewTransfer {
    /// How much, such as `"100.00"`.
    pub amount: Decimal,
    /// ISO 4217 code of the currency.
    pub currency: String,
}

/// A transfer that was made.
#[derive(Debug, Serialize)]
pub struct Transfer {
    /// Drawn anew each time the handler runs.
    pub id: Uuid,
    /// How much.
    pub amount: Decimal,
    /// ISO 4217 code of the currency.
    pub currency: String,
}

impl Transfer {
    /// Makes a transfer.
    pub fn make(new: NewTransfer) -> Self {
        Self {
            id: Uuid::new_v4(),
            amount: new.amount,
            currency: new.currency,
        }
    }
}

/// The envelope around every answer.
#[derive(Debug, Serialize)]
pub struct Envelope<T> {
    version: &'static str,
    timestamp: Timestamp,
    success: bool,
    code: &'static str,
    message: &'static str,
    data: Option<T>,
}

impl<T> Envelope<T> {
    /// A success.
    pub fn success(data: T) -> Self {
        Self::new(true, "T0000", "SUCCESS", Some(data))
    }

    fn new(success: bool, code: &'static str, message: &'static str, data: Option<T>) -> Self {
        Self {
            version: "1.0",
            timestamp: Timestamp::now(),
            success,
            code,
            message,
            data,
        }
    }
}

impl Envelope<()> {
    /// A refusal, in the gateway's own codes.
    pub fn refusal(rejection: &Rejection) -> Self {
        let (code, message) = match rejection.code() {
            "key-missing" => ("T1020", "IDEMPOTENCY_KEY_MISSING"),
            "key-invalid" => ("T1021", "IDEMPOTENCY_KEY_INVALID"),
            "key-reused" => ("T1022", "IDEMPOTENCY_KEY_REUSED"),
            "in-progress" => ("T1023", "DUPLICATE_REQUEST"),
            "outcome-unknown" => ("T1024", "OUTCOME_UNKNOWN"),
            "response-unavailable" => ("T1025", "RESPONSE_UNAVAILABLE"),
            "store-unavailable" | "shutting-down" => ("T1503", "TRY_AGAIN_LATER"),
            "request-too-large" | "body-incomplete" => ("T1413", "BODY_NOT_ACCEPTED"),
            "caller-missing" => ("T1403", "CALLER_MISSING"),
            _ => ("T1500", "INTERNAL_ERROR"),
        };
        Self::new(false, code, message, None)
    }
}
