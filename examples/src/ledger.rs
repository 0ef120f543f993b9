//! Payments as they were really made: the truth that a repeated request must not change.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The body of a request for a payment. Money is whole minor units (cents), never a float.
#[derive(Debug, Clone, Deserialize)]
pub struct NewPayment {
    /// How much, in minor units of the currency.
    pub amount: u64,
    /// ISO 4217 code of the currency.
    pub currency: String,
    /// How the card behaves.
    pub card: Card,
}

/// How a card behaves, so that each outcome can be tried.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Card {
    /// It is charged.
    Ok,
    /// Its bank says no: a business failure, which is an answer like any other.
    Declined,
    /// The handler panics half-way.
    Crash,
}

/// A payment or a refund that was made.
#[derive(Debug, Clone, Serialize)]
pub struct Payment {
    /// Drawn anew each time the handler runs: two equal ids are one run.
    pub id: Uuid,
    /// When it was made.
    pub created: Timestamp,
    /// How much, in minor units of the currency.
    pub amount: u64,
    /// ISO 4217 code of the currency.
    pub currency: String,
}

impl Payment {
    /// Makes a payment, now.
    pub fn make(new: NewPayment) -> Self {
        Self {
            id: Uuid::new_v4(),
            created: Timestamp::now(),
            amount: new.amount,
            currency: new.currency,
        }
    }
}

/// Every payment of this process, with who made it.
#[derive(Debug, Clone, Default)]
pub struct Ledger(Arc<Mutex<Vec<(String, Payment)>>>);

impl Ledger {
    /// Books a payment.
    pub fn book(&self, caller: &str, payment: Payment) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push((caller.to_owned(), payment));
    }

    /// The payments of one caller.
    pub fn of(&self, caller: &str) -> Vec<Payment> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = lines.iter().filter(|(owner, _)| owner == caller);
        own.map(|(_, payment)| payment.clone()).collect()
    }
}
