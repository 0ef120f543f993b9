//! Looking at a record, without changing it.

use std::time::Duration;

use redis::{Pipeline, Value, cmd};

use super::{
    answer::number,
    failure::Failure,
    layout::{self, Head, Told},
    link::Lane,
};
use crate::{
    record::Record,
    store::{State, Summary},
};

/// Whether an attempt is in progress.
pub(super) async fn runs(lane: &mut Lane<'_>, name: &str) -> Result<bool, Failure> {
    let mut look = cmd("GETRANGE");
    look.arg(name).arg(0).arg(1);
    match lane.send(name, &look).await? {
        Value::BulkString(start) => Ok(layout::is_in_progress(&start)),
        _ => Err(Failure::Answer),
    }
}

/// What there is to know of a record. The three looks are not one step: somebody may change the
/// record in between, and a time is then that of the moment before.
pub(super) async fn summary(lane: &mut Lane<'_>, name: &str) -> Result<Option<Summary>, Failure> {
    let mut look = Pipeline::with_capacity(3);
    look.cmd("PTTL").arg(name);
    look.cmd("GET").arg(name);
    look.cmd("TIME");
    let answers = lane.send_all(name, look).await?;
    let [left, value, time] = <[_; 3]>::try_from(answers).map_err(|_| Failure::Answer)?;
    let (Value::Int(left), Value::Array(time)) = (left?, time?) else {
        return Err(Failure::Answer);
    };
    match value? {
        Value::Nil => Ok(None),
        Value::BulkString(value) => told(value, left, &time).map(Some),
        _ => Err(Failure::Answer),
    }
}

fn told(value: Vec<u8>, left: i64, time: &[Value]) -> Result<Summary, Failure> {
    let head = Head::read(&value)?;
    let told = Told::read(head.meta(&value))?;
    let now = match time {
        [Value::BulkString(seconds), Value::BulkString(micros)] => {
            number(seconds)? * 1_000 + number(micros)? / 1_000
        }
        _ => return Err(Failure::Answer),
    };
    // It was claimed between the two looks, or somebody took its expiry away.
    let left = u64::try_from(left).unwrap_or(head.life_ms);
    let record = (head.state == State::Completed)
        .then(|| Record::decode(head.response(&value.into())))
        // The rest of a record that cannot be read is still worth knowing.
        .and_then(Result::ok);
    let (status, reference) = match record {
        Some(record) => (Some(record.status), record.reference),
        None => (None, None),
    };
    Ok(Summary {
        state: head.state,
        grant: head.grant,
        namespace: told.namespace,
        operation: told.operation,
        key_hint: told.key_hint,
        created: told.created,
        completed: head.completed(),
        lease_left: head.lease_left(now, left),
        expires_in: Duration::from_millis(left),
        status,
        reference,
    })
}
