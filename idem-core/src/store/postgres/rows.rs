//! Between rows and facts: the format of a row, and what each answer means.
//!
//! Format 1: `headers` is as in [`Record::encode_headers`], `flags` has bit 0 for a body that was not
//! kept, and the rest is a column each. A row of any other format is never interpreted.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use sqlx::{
    Encode, Postgres, Row, Type,
    encode::IsNull,
    error::BoxDynError,
    postgres::{PgArgumentBuffer, PgHasArrayType, PgRow, PgTypeInfo, types::Oid},
};

use super::{call::Read, failure::Failure};
use crate::{
    record::{HeaderLine, Record, RecordBody, Unreadable, Unwritable},
    store::{Claim, Completion, Fence, Grant, Owner, Released, Renewal, Resolved, State, Summary},
};

/// The format that this build writes and reads.
pub(super) const FORMAT: i16 = 1;
/// The bit of `flags` for a body that was not kept.
const BODY_NOT_KEPT: u8 = 1;
/// The longest reference that a record has room for in any store.
const MAX_REFERENCE_LEN: usize = u16::MAX as usize;

/// What a record is in columns.
#[derive(Debug)]
pub(super) struct Columns {
    pub(super) status: i16,
    pub(super) flags: i16,
    pub(super) headers: Bytes,
    pub(super) body: Bytes,
    pub(super) reference: Option<String>,
}

impl Columns {
    /// The record, or what is left of one that cannot be stored whole.
    pub(super) fn of(record: &Record) -> Result<Self, Unwritable> {
        Self::whole(record).or_else(|_| Self::whole(&record.remnant()))
    }

    fn whole(record: &Record) -> Result<Self, Unwritable> {
        if !Record::is_status(record.status) {
            return Err(Unwritable::Status(record.status));
        }
        let reference = record.reference.as_deref().filter(|text| !text.is_empty());
        if reference.is_some_and(|text| text.len() > MAX_REFERENCE_LEN) {
            return Err(Unwritable::TooLarge);
        }
        let (flags, body) = match &record.body {
            RecordBody::Kept(body) => (0, body.clone()),
            RecordBody::NotKept => (BODY_NOT_KEPT, Bytes::new()),
        };
        Ok(Self {
            status: record.status.cast_signed(),
            flags: i16::from(flags),
            headers: record.encode_headers()?,
            body,
            reference: reference.map(text),
        })
    }
}

/// An owner as the table has it: a `uuid`, which sqlx knows only with more of its features.
pub(super) struct OwnerId(pub(super) Owner);

impl Type<Postgres> for OwnerId {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(2950))
    }
}

impl PgHasArrayType for OwnerId {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(2951))
    }
}

impl Encode<'_, Postgres> for OwnerId {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        buffer.extend_from_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }
}

/// A text as Postgres can store it: it has no place for a NUL.
pub(super) fn text(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// Whole milliseconds, rounded up, and at most two centuries.
pub(super) fn millis(duration: Duration) -> i64 {
    const LONGEST: i64 = 200 * 366 * 24 * 60 * 60 * 1_000;
    let millis = duration.as_nanos().div_ceil(1_000_000);
    i64::try_from(millis).unwrap_or(LONGEST).min(LONGEST)
}

/// A fence as the table has it. One that no row can have is none.
pub(super) fn fence(fence: Fence) -> i64 {
    i64::try_from(fence.get()).unwrap_or(-1)
}

/// The answer of `server.sql`.
pub(super) struct Server {
    pub(super) number: i32,
    pub(super) version: String,
    /// Whether it has a copy of the records only.
    pub(super) copies: bool,
    pub(super) encoding: String,
}

pub(super) fn server(rows: &[PgRow]) -> Read<Server> {
    let row = only(rows)?;
    Ok(Some(Server {
        number: row.try_get("number")?,
        version: row.try_get("version")?,
        copies: row.try_get("copies")?,
        encoding: row.try_get("encoding")?,
    }))
}

/// The answer of `exists.sql`.
pub(super) fn there(rows: &[PgRow]) -> Read<bool> {
    Ok(Some(only(rows)?.try_get("there")?))
}

/// The answer of `claim_first.sql` or `claim.sql`.
pub(super) fn claim(rows: &[PgRow]) -> Read<Claim> {
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    match known(row) {
        Err(Failure::Unreadable(unreadable)) => {
            return Ok(Some(Claim::Unreadable(unreadable)));
        }
        known => known?,
    }
    let (state, grant) = (state(row)?, grant(row)?);
    if !row.try_get::<bool, _>("same")? {
        return Ok(Some(Claim::Mismatch { state }));
    }
    let own: bool = row.try_get("own")?;
    Ok(match state {
        State::InProgress if own => Some(Claim::Acquired { grant }),
        State::InProgress => Some(match micros(row, "lease_left")? {
            Duration::ZERO => Claim::Lapsed { grant },
            left => Claim::InProgress { grant, left },
        }),
        State::Completed => Some(match record(row)? {
            Ok(record) => Claim::Completed {
                record: Box::new(record),
            },
            Err(unreadable) => Claim::Unreadable(unreadable),
        }),
        State::Unknown => Some(Claim::Unknown { grant }),
        // A released record is claimed, so that this is no answer.
        State::Released => None,
    })
}

/// The answer of `complete_first.sql` or `complete.sql`.
pub(super) fn completion(rows: &[PgRow]) -> Read<Completion> {
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    if row.try_get("stored")? {
        return Ok(Some(Completion::Stored));
    }
    if row.try_get("restored")? {
        return Ok(Some(Completion::Restored));
    }
    let Some(found) = found(row)? else {
        return Ok(None);
    };
    Ok(match found {
        Found { own: false, .. } => Some(Completion::Superseded),
        Found { state, .. } => match state {
            State::Completed => Some(Completion::Already),
            State::Released => Some(Completion::Released),
            State::InProgress | State::Unknown => None,
        },
    })
}

/// The answer of `release.sql`.
pub(super) fn released(rows: &[PgRow]) -> Read<Released> {
    let row = only(rows)?;
    if row.try_get("released")? {
        return Ok(Some(Released::Done));
    }
    Ok(match found(row)? {
        None => Some(Released::Gone),
        Some(Found { own: false, .. }) => Some(Released::Superseded),
        Some(Found { state, .. }) => match state {
            State::Completed | State::Released | State::Unknown => Some(Released::Ended),
            State::InProgress => None,
        },
    })
}

/// The answer of `renew.sql`.
pub(super) fn renewals(rows: &[PgRow]) -> Read<Vec<Renewal>> {
    let mut renewals = Vec::with_capacity(rows.len());
    for row in rows {
        let renewal = if row.try_get::<Option<i64>, _>("lease_left")?.is_some() {
            Renewal::Renewed {
                left: micros(row, "lease_left")?,
            }
        } else if row.try_get::<Option<bool>, _>("own")? == Some(false) {
            // Whatever its format: a row that a later version took over fails no other renewal.
            Renewal::Superseded
        } else {
            match found(row)? {
                None => Renewal::Gone,
                Some(Found { own: false, .. }) => Renewal::Superseded,
                Some(Found { state, .. }) => match state {
                    State::Completed | State::Released | State::Unknown => Renewal::Ended,
                    // It was locked.
                    State::InProgress => Renewal::Unanswered,
                },
            }
        };
        renewals.push(renewal);
    }
    Ok(Some(renewals))
}

/// The answer of `resolve.sql` or `forget.sql`.
pub(super) fn resolved(rows: &[PgRow]) -> Read<Resolved> {
    let row = only(rows)?;
    if row.try_get("resolved")? {
        return Ok(Some(Resolved::Done));
    }
    if row.try_get::<Option<i16>, _>("format")?.is_none() {
        return Ok(Some(Resolved::Gone));
    }
    known(row)?;
    Ok(if row.try_get("expected")? {
        None
    } else {
        Some(Resolved::Stale {
            fence: fence_of(row)?,
        })
    })
}

/// The answer of `inspect.sql`.
pub(super) fn summary(rows: &[PgRow]) -> Read<Option<Summary>> {
    let Some(row) = rows.first() else {
        return Ok(Some(None));
    };
    known(row)?;
    let state = state(row)?;
    // The rest of a record that cannot be read is still worth knowing.
    let readable = match state {
        State::Completed => parts(row)?.ok(),
        State::InProgress | State::Released | State::Unknown => None,
    };
    let (status, reference) = match readable {
        Some((status, ..)) => (Some(status), row.try_get("reference")?),
        None => (None, None),
    };
    let completed: Option<i64> = row.try_get("completed")?;
    Ok(Some(Some(Summary {
        state,
        grant: grant(row)?,
        namespace: row.try_get("namespace")?,
        operation: row.try_get("operation")?,
        key_hint: row.try_get("key_hint")?,
        created: time(row.try_get("created")?),
        completed: completed.map(time),
        lease_left: match state {
            State::InProgress => Some(micros(row, "lease_left")?),
            State::Completed | State::Released | State::Unknown => None,
        },
        expires_in: micros(row, "expires_in")?,
        status,
        reference,
    })))
}

/// The answer of `runs.sql`.
pub(super) fn runs(rows: &[PgRow]) -> Read<bool> {
    Ok(Some(only(rows)?.try_get("runs")?))
}

/// The answer of `purge.sql`.
pub(super) fn purged(rows: &[PgRow]) -> Read<u64> {
    let purged: i64 = only(rows)?.try_get("purged")?;
    Ok(Some(u64::try_from(purged).unwrap_or_default()))
}

/// What a statement saw of a row that it did not change.
struct Found {
    state: State,
    own: bool,
}

fn found(row: &PgRow) -> Result<Option<Found>, Failure> {
    if row.try_get::<Option<i16>, _>("format")?.is_none() {
        return Ok(None);
    }
    known(row)?;
    Ok(Some(Found {
        state: state(row)?,
        own: row.try_get("own")?,
    }))
}

fn only(rows: &[PgRow]) -> Result<&PgRow, Failure> {
    rows.first()
        .ok_or(Failure::Driver(sqlx::Error::RowNotFound))
}

/// Every reader asks for the format first.
fn known(row: &PgRow) -> Result<(), Failure> {
    let format: i16 = row.try_get("format")?;
    if format == FORMAT {
        return Ok(());
    }
    let version = u8::try_from(format).unwrap_or(u8::MAX);
    Err(Failure::Unreadable(Unreadable::Version(version)))
}

fn state(row: &PgRow) -> Result<State, Failure> {
    match row.try_get("state")? {
        0 => Ok(State::Released),
        1 => Ok(State::InProgress),
        2 => Ok(State::Completed),
        3 => Ok(State::Unknown),
        other => Err(Failure::State(other)),
    }
}

fn grant(row: &PgRow) -> Result<Grant, Failure> {
    let attempts: i32 = row.try_get("attempts")?;
    Ok(Grant {
        fence: fence_of(row)?,
        attempt: u32::try_from(attempts).unwrap_or(1),
    })
}

fn fence_of(row: &PgRow) -> Result<Fence, Failure> {
    let fence: i64 = row.try_get("fence")?;
    Ok(Fence::new(u64::try_from(fence).unwrap_or_default()))
}

/// A record, if the row has a whole one.
fn record(row: &PgRow) -> Result<Result<Record, Unreadable>, Failure> {
    let (status, not_kept, headers) = match parts(row)? {
        Ok(parts) => parts,
        Err(unreadable) => return Ok(Err(unreadable)),
    };
    let Some(body) = row.try_get::<Option<Vec<u8>>, _>("body")? else {
        return Ok(Err(Unreadable::Truncated));
    };
    let body = match (not_kept, body.is_empty()) {
        (false, _) => RecordBody::Kept(body.into()),
        (true, true) => RecordBody::NotKept,
        (true, false) => return Ok(Err(Unreadable::Flags(BODY_NOT_KEPT))),
    };
    Ok(Ok(Record {
        status,
        headers,
        body,
        reference: row.try_get("reference")?,
    }))
}

/// Status, whether the body was not kept, and header lines; in the order in which they are read in
/// every store.
type Parts = (u16, bool, Vec<HeaderLine>);

fn parts(row: &PgRow) -> Result<Result<Parts, Unreadable>, Failure> {
    let flags: i16 = row.try_get("flags")?;
    let status: Option<i16> = row.try_get("status")?;
    let headers: Option<Vec<u8>> = row.try_get("headers")?;
    if flags & !i16::from(BODY_NOT_KEPT) != 0 {
        let flags = u8::try_from(flags).unwrap_or(u8::MAX);
        return Ok(Err(Unreadable::Flags(flags)));
    }
    let (Some(status), Some(headers)) = (status, headers) else {
        return Ok(Err(Unreadable::Truncated));
    };
    let status = status.cast_unsigned();
    if !Record::is_status(status) {
        return Ok(Err(Unreadable::Status(status)));
    }
    Ok(Record::decode_headers(headers.into()).map(|headers| (status, flags != 0, headers)))
}

/// A span of time, which is over if it is negative.
fn micros(row: &PgRow, column: &str) -> Result<Duration, Failure> {
    let micros: i64 = row.try_get(column)?;
    Ok(Duration::from_micros(
        u64::try_from(micros).unwrap_or_default(),
    ))
}

/// A time on the server's clock.
fn time(micros: i64) -> SystemTime {
    let since = Duration::from_micros(micros.unsigned_abs());
    if micros < 0 {
        SystemTime::UNIX_EPOCH - since
    } else {
        SystemTime::UNIX_EPOCH + since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_rounded_up_to_milliseconds() {
        let of = |micros| millis(Duration::from_micros(micros));
        assert_eq!((of(1), of(999), of(1_000), of(1_001)), (1, 1, 1, 2));
        assert_eq!(millis(Duration::MAX), 6_324_480_000_000);
    }

    #[test]
    fn what_other_stores_cannot_hold_is_cut_here_too() {
        let whole = |record: &Record| Columns::of(record).expect("something is left");
        let record = Record::new(201, "paid").with_header("location", "/payments/7");
        assert_eq!(whole(&record).flags, 0);

        let long = Record {
            reference: Some("r".repeat(MAX_REFERENCE_LEN + 1)),
            ..record.clone()
        };
        let left = whole(&long);
        assert_eq!((left.flags, left.body.len()), (1, 0));
        assert_eq!(left.reference, None);
        let broken = whole(&record.clone().with_header("x-a", "b\nc"));
        assert_eq!((broken.flags, broken.body.len()), (1, 0));

        let none = Columns::of(&Record::new(42, "")).map(drop);
        assert_eq!(none, Err(Unwritable::Status(42)));
    }

    #[test]
    fn a_text_has_no_nul() {
        assert_eq!(text("a\0b"), "a\u{fffd}b");
    }
}
