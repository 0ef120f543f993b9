//! The stored outcome of a request, and the bytes that stand for it.
//!
//! Layout, big-endian: `version u8 = 1 · flags u8 (bit 0: body not kept) · status u16 · n u16 ·
//! n × (name length u16, value length u32, name, value) · reference length u16, reference · body`.
//!
//! Invariant: a reader checks the version first and every length before it is used, and refuses
//! what it does not know. An undecodable record is never "new": it would run the handler again.

use std::{error::Error, fmt};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{HeaderName, HeaderValue};

/// The version of the layout that this build writes.
const VERSION: u8 = 1;
/// The flag of a record whose body was not kept.
const BODY_NOT_KEPT: u8 = 0b0000_0001;

/// One header line: the name in lower case, and the value byte for byte.
pub type HeaderLine = (Bytes, Bytes);

/// The answer that a completed key replays.
#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    /// The status code.
    pub status: u16,
    /// The kept header lines in the order in which the handler set them, repeated ones included.
    pub headers: Vec<HeaderLine>,
    /// The body, if it was kept.
    pub body: RecordBody,
    /// What the handler called the thing that it made, for look-ups.
    pub reference: Option<String>,
}

/// The body of a [`Record`].
#[derive(Clone, PartialEq, Eq)]
pub enum RecordBody {
    /// Kept whole; empty if the answer had none.
    Kept(Bytes),
    /// Not kept: too large, endless, or broken off. A retry is told so, and nothing runs again.
    NotKept,
}

impl Record {
    /// A record with a status and a body, and no header.
    ///
    /// # Examples
    /// ```
    /// use idem_core::Record;
    ///
    /// let record = Record::new(201, "{\"id\":7}").with_header("location", "/payments/7");
    /// assert_eq!(Record::decode(record.encode()?)?, record);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(status: u16, body: impl Into<Bytes>) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: RecordBody::Kept(body.into()),
            reference: None,
        }
    }

    /// Adds a header line. `name` is in lower case.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Drops the body.
    #[must_use]
    pub fn without_body(self) -> Self {
        Self {
            body: RecordBody::NotKept,
            ..self
        }
    }

    /// Whether a number can be the status of an answer.
    pub(crate) fn is_status(status: u16) -> bool {
        (100..=999).contains(&status)
    }

    /// Its header lines in bytes, for a store that keeps a record in columns.
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    #[cfg(feature = "postgres")]
    pub(crate) fn encode_headers(&self) -> Result<Bytes, Unwritable> {
        let mut out = BytesMut::with_capacity(lines_len(&self.headers));
        put_lines(&mut out, &self.headers)?;
        Ok(out.freeze())
    }

    /// Reads header lines back.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    #[cfg(feature = "postgres")]
    pub(crate) fn decode_headers(mut bytes: Bytes) -> Result<Vec<HeaderLine>, Unreadable> {
        let lines = take_lines(&mut bytes)?;
        if bytes.is_empty() {
            Ok(lines)
        } else {
            Err(Unreadable::Header)
        }
    }

    /// The value of the first header line with this lower-case name.
    pub fn header(&self, name: &str) -> Option<&Bytes> {
        self.headers
            .iter()
            .find_map(|(known, value)| (known == name.as_bytes()).then_some(value))
    }

    /// What is left of a record that cannot be stored whole: that its key is completed, with what
    /// status, and where its thing is.
    #[cfg(any(feature = "memory", feature = "redis", feature = "postgres"))]
    pub(crate) fn remnant(&self) -> Self {
        let mut remnant = Self::new(self.status, Bytes::new()).without_body();
        remnant.reference = self
            .reference
            .clone()
            .filter(|reference| u16::try_from(reference.len()).is_ok());
        match self.header("location") {
            Some(location) => remnant.with_header("location", location.clone()),
            None => remnant,
        }
    }

    /// Writes the record in the current layout.
    ///
    /// # Errors
    /// [`Unwritable`] if it is not an answer, so that it could not be read again.
    pub fn encode(&self) -> Result<Bytes, Unwritable> {
        if !Self::is_status(self.status) {
            return Err(Unwritable::Status(self.status));
        }
        let reference = self.reference.as_deref().unwrap_or_default();
        let (flags, body) = match &self.body {
            RecordBody::Kept(body) => (0, body.as_ref()),
            RecordBody::NotKept => (BODY_NOT_KEPT, &[][..]),
        };
        let lines = lines_len(&self.headers);
        let mut out = BytesMut::with_capacity(6 + lines + reference.len() + body.len());
        out.put_u8(VERSION);
        out.put_u8(flags);
        out.put_u16(self.status);
        put_lines(&mut out, &self.headers)?;
        out.put_u16(fit(reference.len())?);
        out.put_slice(reference.as_bytes());
        out.put_slice(body);
        Ok(out.freeze())
    }

    /// Reads a record; header values and body share `bytes`.
    ///
    /// # Errors
    /// [`Unreadable`] if the layout is of another version or the bytes do not fit it.
    pub fn decode(mut bytes: Bytes) -> Result<Self, Unreadable> {
        let version = bytes.try_get_u8().map_err(|_| Unreadable::Truncated)?;
        if version != VERSION {
            return Err(Unreadable::Version(version));
        }
        let flags = bytes.try_get_u8().map_err(|_| Unreadable::Truncated)?;
        if flags & !BODY_NOT_KEPT != 0 {
            return Err(Unreadable::Flags(flags));
        }
        let status = u16_from(&mut bytes)?;
        if !Self::is_status(status) {
            return Err(Unreadable::Status(status));
        }
        let headers = take_lines(&mut bytes)?;
        let length = usize::from(u16_from(&mut bytes)?);
        let reference = take(&mut bytes, length)?;
        let reference = match str::from_utf8(&reference).map_err(|_| Unreadable::Reference)? {
            "" => None,
            text => Some(text.to_owned()),
        };
        let body = if flags & BODY_NOT_KEPT == 0 {
            RecordBody::Kept(bytes)
        } else if bytes.is_empty() {
            RecordBody::NotKept
        } else {
            return Err(Unreadable::Flags(flags));
        };
        Ok(Self {
            status,
            headers,
            body,
            reference,
        })
    }
}

/// How many bytes [`put_lines`] writes.
fn lines_len(lines: &[HeaderLine]) -> usize {
    let line = |(name, value): &HeaderLine| 6 + name.len() + value.len();
    2 + lines.iter().map(line).sum::<usize>()
}

/// Writes header lines: their number, then each with its lengths.
fn put_lines(out: &mut BytesMut, lines: &[HeaderLine]) -> Result<(), Unwritable> {
    if !lines.iter().all(can_be_sent) {
        return Err(Unwritable::Header);
    }
    out.put_u16(fit(lines.len())?);
    for (name, value) in lines {
        out.put_u16(fit(name.len())?);
        out.put_u32(fit(value.len())?);
        out.put_slice(name);
        out.put_slice(value);
    }
    Ok(())
}

/// Reads what [`put_lines`] wrote.
fn take_lines(bytes: &mut Bytes) -> Result<Vec<HeaderLine>, Unreadable> {
    let count = u16_from(bytes)?;
    // Each line has six bytes of lengths: a lying count cannot reserve more than there is.
    let mut lines = Vec::with_capacity(usize::from(count).min(bytes.len() / 6));
    for _ in 0..count {
        let name = usize::from(u16_from(bytes)?);
        let value = bytes.try_get_u32().map_err(|_| Unreadable::Truncated)?;
        let value = usize::try_from(value).map_err(|_| Unreadable::Truncated)?;
        let line = (take(bytes, name)?, take(bytes, value)?);
        if !can_be_sent(&line) {
            return Err(Unreadable::Header);
        }
        lines.push(line);
    }
    Ok(lines)
}

/// Whether a line is one that HTTP allows: one that it does not would be missing from the replay.
fn can_be_sent((name, value): &HeaderLine) -> bool {
    HeaderName::from_bytes(name).is_ok() && HeaderValue::from_maybe_shared(value.clone()).is_ok()
}

fn fit<T: TryFrom<usize>>(length: usize) -> Result<T, Unwritable> {
    T::try_from(length).map_err(|_| Unwritable::TooLarge)
}

fn u16_from(bytes: &mut Bytes) -> Result<u16, Unreadable> {
    bytes.try_get_u16().map_err(|_| Unreadable::Truncated)
}

fn take(bytes: &mut Bytes, length: usize) -> Result<Bytes, Unreadable> {
    if bytes.len() < length {
        return Err(Unreadable::Truncated);
    }
    Ok(bytes.split_to(length))
}

/// Shows sizes, not contents: a stored body is somebody's data.
impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("status", &self.status)
            .field("headers", &self.headers.len())
            .field("body", &self.body)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for RecordBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kept(body) => write!(f, "Kept({} bytes)", body.len()),
            Self::NotKept => f.write_str("NotKept"),
        }
    }
}

/// Why a record cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unwritable {
    /// No HTTP status.
    Status(u16),
    /// A header line that cannot be sent.
    Header,
    /// A part that its layout has no room for: more than 65,535 header lines, or a name or a
    /// reference longer than that many bytes.
    TooLarge,
}

impl fmt::Display for Unwritable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "{status} is no status"),
            Self::Header => f.write_str("the record has an impossible header line"),
            Self::TooLarge => f.write_str("the record has a part that does not fit its layout"),
        }
    }
}

impl Error for Unwritable {}

/// Why stored bytes are not a record that this build can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unreadable {
    /// Written by a version that this build does not know.
    Version(u8),
    /// A flag that this build does not know, or one that contradicts the rest.
    Flags(u8),
    /// No HTTP status.
    Status(u16),
    /// A header line that cannot be sent.
    Header,
    /// The bytes end too early.
    Truncated,
    /// The reference is not UTF-8.
    Reference,
    /// A state that this build does not know.
    State(u8),
    /// A number that is larger than any that is written.
    Number,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(f, "the record has the unknown version {version}"),
            Self::Flags(flags) => write!(f, "the record has the impossible flags {flags:#010b}"),
            Self::Status(status) => write!(f, "the record has the impossible status {status}"),
            Self::Header => f.write_str("the record has an impossible header line"),
            Self::Truncated => f.write_str("the record is truncated"),
            Self::Reference => f.write_str("the reference of the record is not text"),
            Self::State(state) => write!(f, "the record has the impossible state {state}"),
            Self::Number => f.write_str("the record has an impossible number"),
        }
    }
}

impl Error for Unreadable {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, option, prelude::*};

    fn full() -> Record {
        let record = Record::new(201, &b"{\"b\":1,\"a\":1.0, \"c\":\"\\u0000\"}\xff"[..])
            .with_header("location", "/payments/7")
            .with_header("link", "</a>; rel=next")
            .with_header("link", "</b>; rel=prev")
            .with_header("x-latin", &b"caf\xe9"[..]);
        Record {
            reference: Some("txn_789".into()),
            ..record
        }
    }

    /// A file that this test cannot reproduce is a record that a deployed reader cannot read:
    /// a change of the layout needs a new version byte, and new files beside the old ones.
    #[test]
    fn the_layout_is_the_one_of_the_golden_files() {
        let golden: [(&[u8], Record); 3] = [
            (include_bytes!("../golden/record-v1-full.bin"), full()),
            (
                include_bytes!("../golden/record-v1-empty.bin"),
                Record::new(204, ""),
            ),
            (
                include_bytes!("../golden/record-v1-not-kept.bin"),
                full().without_body(),
            ),
        ];
        for (bytes, record) in golden {
            assert_eq!(
                record.encode().expect("fits").escape_ascii().to_string(),
                bytes.escape_ascii().to_string()
            );
            assert_eq!(Record::decode(Bytes::from_static(bytes)), Ok(record));
        }
    }

    #[test]
    fn every_truncation_of_the_head_is_refused() {
        let whole = full().without_body().encode().expect("fits");
        for end in 0..whole.len() {
            assert_eq!(
                Record::decode(whole.slice(..end)),
                Err(Unreadable::Truncated),
                "{end}"
            );
        }
    }

    #[test]
    fn what_this_build_does_not_know_is_refused() {
        let changed = |at: usize, byte: u8| {
            let mut bytes = full().encode().expect("fits").to_vec();
            bytes[at] = byte;
            Record::decode(bytes.into())
        };
        assert_eq!(changed(0, 2), Err(Unreadable::Version(2)));
        assert_eq!(changed(0, 0), Err(Unreadable::Version(0)));
        assert_eq!(changed(1, 2), Err(Unreadable::Flags(2)));
        assert_eq!(changed(1, 1), Err(Unreadable::Flags(1)));
        assert_eq!(changed(2, 0xff), Err(Unreadable::Status(0xffc9)));
        // Six bytes of head, and six of lengths; then `location` and its value.
        assert_eq!(changed(12, b' '), Err(Unreadable::Header));
        assert_eq!(changed(12 + 8, b'\n'), Err(Unreadable::Header));
    }

    #[test]
    fn what_could_not_be_read_again_is_not_written() {
        let record = |status, name: &'static str, value: &'static str| {
            Record::new(status, "").with_header(name, value).encode()
        };
        assert_eq!(record(99, "x-a", "b"), Err(Unwritable::Status(99)));
        assert_eq!(record(200, "bad name", "b"), Err(Unwritable::Header));
        assert_eq!(record(200, "x-a", "b\nc"), Err(Unwritable::Header));
        let long = Record {
            reference: Some("r".repeat(65_536)),
            ..Record::new(200, "")
        };
        assert_eq!(long.encode(), Err(Unwritable::TooLarge));
    }

    #[test]
    fn debug_shows_sizes_only() {
        let shown = format!("{:?}", full());
        assert!(
            !shown.contains("payments") && !shown.contains("txn"),
            "{shown}"
        );
    }

    fn records() -> impl Strategy<Value = Record> {
        let visible = any::<u8>().prop_filter("of a header value", |byte| !byte.is_ascii_control());
        let line = ("[a-z-]{1,12}", vec(visible, 0..24));
        let lines = vec(line, 0..5);
        (
            100..=599_u16,
            lines,
            option::of(vec(any::<u8>(), 0..64)),
            option::of("[a-z]{1,9}"),
        )
            .prop_map(|(status, lines, body, reference)| Record {
                status,
                headers: lines
                    .into_iter()
                    .map(|(n, v)| (n.into(), v.into()))
                    .collect(),
                body: body.map_or(RecordBody::NotKept, |body| RecordBody::Kept(body.into())),
                reference,
            })
    }

    proptest! {
        #[test]
        fn every_record_survives_its_bytes(record in records()) {
            prop_assert_eq!(Record::decode(record.encode().expect("fits")), Ok(record));
        }

        #[test]
        fn decoding_never_panics(bytes: Vec<u8>) {
            let _ = Record::decode(bytes.into());
        }

        #[test]
        fn decoding_a_damaged_record_never_panics(record in records(), at: prop::sample::Index, byte: u8) {
            let mut bytes = record.encode().expect("fits").to_vec();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let _ = Record::decode(bytes.into());
        }
    }
}
