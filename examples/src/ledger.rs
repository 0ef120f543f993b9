//! Payments as they were really made: the truth that a repeated request must not change.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The body of a request for a payment. Money is whole minor units (cents), never a float.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct NewPayment {
    /// How much, in minor units of the currency.
    pub amount: u64,
    /// ISO 4217 code of the currency.
    pub currency: String,
    /// How the card behaves.
    pub card: Card,
}

/// How a card behaves, so that each outcome can be tried.
#[derive(Debug, Clone, Copy, Deserialize, Serialize)]
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
#[derive(Debug, Clone, Serialize, Deserialize)]
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
    /// Charges the card, now.
    ///
    /// # Errors
    /// [`Declined`], which is an answer like any other.
    ///
    /// # Panics
    /// With a card that makes it so.
    pub fn charge(new: NewPayment) -> Result<Self, Declined> {
        match new.card {
            Card::Ok => Ok(Self {
                id: Uuid::new_v4(),
                created: Timestamp::now(),
                amount: new.amount,
                currency: new.currency,
            }),
            Card::Declined => Err(Declined {
                error: "card declined",
            }),
            Card::Crash => panic!("the card reader is on fire"),
        }
    }
}

/// The card was not charged; the body of the answer.
#[derive(Debug, Clone, Serialize)]
pub struct Declined {
    error: &'static str,
}

/// Every payment with who made it: in memory, or in a file that outlives the process and that
/// replicas share.
#[derive(Debug, Clone)]
pub struct Ledger(Arc<Lines>);

#[derive(Debug)]
enum Lines {
    InMemory(Mutex<Vec<Line>>),
    InFile(File, PathBuf),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Line {
    caller: String,
    payment: Payment,
}

impl Ledger {
    /// A ledger that ends with the process.
    pub fn in_memory() -> Self {
        Self(Arc::new(Lines::InMemory(Mutex::default())))
    }

    /// A ledger in a file, a line of JSON for each payment. The file is made if there is none.
    ///
    /// # Errors
    /// The file cannot be made or written to.
    pub fn in_file(path: PathBuf) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).open(&path)?;
        Ok(Self(Arc::new(Lines::InFile(file, path))))
    }

    /// Books a payment.
    ///
    /// # Errors
    /// That of the file. The payment is not booked then.
    pub fn book(&self, caller: &str, payment: Payment) -> io::Result<()> {
        let line = Line {
            caller: caller.to_owned(),
            payment,
        };
        match &*self.0 {
            Lines::InMemory(lines) => lock(lines).push(line),
            Lines::InFile(file, _) => {
                let mut text = serde_json::to_string(&line)?;
                text.push('\n');
                // In one write, so that lines of two replicas do not mix.
                (&*file).write_all(text.as_bytes())?;
            }
        }
        Ok(())
    }

    /// The payments of one caller.
    ///
    /// # Errors
    /// That of the file.
    pub fn of(&self, caller: &str) -> io::Result<Vec<Payment>> {
        let lines = match &*self.0 {
            Lines::InMemory(lines) => lock(lines).clone(),
            Lines::InFile(_, path) => read(path)?,
        };
        let own = lines.into_iter().filter(|line| line.caller == caller);
        Ok(own.map(|line| line.payment).collect())
    }
}

fn read(path: &Path) -> io::Result<Vec<Line>> {
    let text = fs::read_to_string(path)?;
    // What has no end yet is being written.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines = whole.lines().map(serde_json::from_str);
    Ok(lines.collect::<Result<_, _>>()?)
}

fn lock(lines: &Mutex<Vec<Line>>) -> MutexGuard<'_, Vec<Line>> {
    lines.lock().unwrap_or_else(PoisonError::into_inner)
}
