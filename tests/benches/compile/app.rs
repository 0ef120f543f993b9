//! What the handlers do.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

/// The state of the application.
#[derive(Clone, Default)]
pub struct App {
    balances: Arc<Mutex<HashMap<(String, u64), u64>>>,
}

impl App {
    /// Books an amount on an account of a user; gives its balance.
    pub async fn book(&self, user: &str, id: u64, amount: u64) -> Result<u64, Failure> {
        let mut balances = self.balances.lock().map_err(|_| Failure::Unavailable)?;
        let balance = balances.entry((user.to_owned(), id)).or_default();
        *balance = balance
            .checked_add(amount)
            .ok_or(Failure::Invalid("amount"))?;
        Ok(*balance)
    }
}

/// Why there is no success.
#[derive(Debug)]
pub enum Failure {
    /// Nobody knows who asks.
    Unauthorized,
    /// This field cannot be.
    Invalid(&'static str),
    /// Another time, perhaps.
    Unavailable,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unauthorized => f.write_str("say who you are"),
            Self::Invalid(field) => write!(f, "`{field}` is invalid"),
            Self::Unavailable => f.write_str("try again later"),
        }
    }
}
