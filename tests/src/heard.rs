//! An observer that remembers.

use std::sync::{Mutex, PoisonError};

use idem_core::observe::{Event, Observer};

/// Every event of an engine, in order.
#[derive(Debug, Default)]
pub struct Heard(Mutex<Vec<Told>>);

/// An event, as far as texts go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The operation.
    pub operation: String,
    /// What a log calls the record.
    pub record: Option<String>,
    /// All of it.
    pub debug: String,
}

impl Heard {
    /// What was heard so far.
    pub fn all(&self) -> Vec<Told> {
        let told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.clone()
    }
}

impl Observer for Heard {
    fn observe(&self, event: &Event<'_>) {
        let told = Told {
            operation: event.operation.to_string(),
            record: event.record.map(|record| record.to_string()),
            debug: format!("{event:?}"),
        };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(told);
    }
}
