//! Gates at which handlers wait, so that a test knows where they are without sleeping.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::watch;

use crate::in_time;

/// The gates of an application, by name. A gate is there as soon as somebody names it.
#[derive(Debug, Clone, Default)]
pub struct Gates(Arc<Mutex<HashMap<String, Gate>>>);

impl Gates {
    /// The gate of this name.
    pub fn gate(&self, name: &str) -> Gate {
        let mut gates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        gates.entry(name.to_owned()).or_default().clone()
    }
}

/// A gate, closed until it is opened for good.
#[derive(Debug, Clone)]
pub struct Gate {
    arrivals: Arc<watch::Sender<usize>>,
    open: Arc<watch::Sender<bool>>,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            arrivals: Arc::new(watch::Sender::new(0)),
            open: Arc::new(watch::Sender::new(false)),
        }
    }
}

impl Gate {
    /// Waits until so many handlers have come to the gate.
    ///
    /// # Panics
    /// If they do not.
    pub async fn arrived(&self, handlers: usize) {
        let mut arrivals = self.arrivals.subscribe();
        let arrived = arrivals.wait_for(|count| *count >= handlers);
        // The sender lives in `self`.
        let _ = in_time("handlers at a gate", arrived).await;
    }

    /// How many handlers have come to the gate.
    pub fn arrivals(&self) -> usize {
        *self.arrivals.borrow()
    }

    /// Lets all through, those that come later too.
    pub fn open(&self) {
        self.open.send_replace(true);
    }

    /// Comes to the gate and waits until it is open.
    pub async fn pass(&self) {
        self.arrivals.send_modify(|count| *count += 1);
        let _ = self.open.subscribe().wait_for(|open| *open).await;
    }
}
