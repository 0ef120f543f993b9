//! What a script answers: a word, and what goes with it.

use redis::Value;

use super::{failure::Failure, layout::Head};
use crate::{
    record::Unreadable,
    store::{Fence, Grant},
};

/// The parts of an answer.
pub(super) struct Answer(Vec<Value>);

impl Answer {
    pub(super) fn read(answer: Value) -> Result<Self, Failure> {
        match answer {
            Value::Array(parts) => Ok(Self(parts)),
            _ => Err(Failure::Answer),
        }
    }

    pub(super) fn status(&self) -> Result<&str, Failure> {
        str::from_utf8(self.bytes(0)?).map_err(|_| Failure::Answer)
    }

    pub(super) fn bytes(&self, at: usize) -> Result<&[u8], Failure> {
        match self.0.get(at) {
            Some(Value::BulkString(bytes)) => Ok(bytes),
            _ => Err(Failure::Answer),
        }
    }

    pub(super) fn number(&self, at: usize) -> Result<u64, Failure> {
        match self.0.get(at) {
            Some(Value::Int(number)) => u64::try_from(*number).map_err(|_| Failure::Answer),
            _ => Err(Failure::Answer),
        }
    }

    /// A fence goes as text: a script would cut it to what its numbers can hold.
    pub(super) fn fence(&self, at: usize) -> Result<Fence, Failure> {
        number(self.bytes(at)?).map(Fence::new)
    }

    pub(super) fn grant(&self) -> Result<Grant, Failure> {
        Ok(Grant {
            fence: self.fence(1)?,
            attempt: u32::try_from(self.number(2)?).map_err(|_| Failure::Answer)?,
        })
    }

    /// What is wrong with a record that a script cannot read, from its first bytes.
    pub(super) fn failure(&self) -> Failure {
        match (self.status(), self.bytes(1)) {
            (Ok("unreadable"), Ok(bytes)) => match Head::read(bytes) {
                Err(unreadable) => Failure::Unreadable(unreadable),
                Ok(_) => Failure::Unreadable(Unreadable::Truncated),
            },
            _ => Failure::Answer,
        }
    }
}

/// A number in text.
pub(super) fn number(digits: &[u8]) -> Result<u64, Failure> {
    let digits = str::from_utf8(digits).map_err(|_| Failure::Answer)?;
    digits.parse().map_err(|_| Failure::Answer)
}
