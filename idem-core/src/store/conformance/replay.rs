//! What is stored is what is replayed, byte for byte.

use bytes::Bytes;

use crate::{
    record::{Record, Unreadable},
    store::{
        Claim, Completion,
        conformance::{
            Subject,
            attempt::{Attempt, completed, record},
        },
    },
};

/// A body of any bytes survives, and so does one that a parser would rewrite.
pub async fn every_byte_of_a_body_survives(subject: &dyn Subject) {
    let every_byte: Vec<u8> = (0..=255).collect();
    let odd_json = &b"{\"b\":1,\"a\":1.0, \"c\":\"\\u0000\"}\r\n"[..];
    for body in [
        every_byte.into(),
        odd_json.into(),
        Bytes::from_static(b"\0"),
    ] {
        survives(subject, Record::new(200, body)).await;
    }
}

/// An empty body is an empty body, and not one that was not kept.
pub async fn an_empty_body_survives(subject: &dyn Subject) {
    survives(subject, Record::new(204, "")).await;
}

/// A body of a mebibyte survives.
pub async fn a_large_body_survives(subject: &dyn Subject) {
    let body: Vec<u8> = (0..=250).cycle().take(1024 * 1024).collect();
    survives(subject, Record::new(200, body)).await;
}

/// That a body was not kept is kept, with all the rest.
pub async fn a_body_that_was_not_kept_stays_so(subject: &dyn Subject) {
    survives(subject, record(1).without_body()).await;
}

/// Header lines survive in their order, repeated ones and values that are no text included.
pub async fn header_lines_survive(subject: &dyn Subject) {
    let record = Record::new(200, "")
        .with_header("link", "</a>; rel=next")
        .with_header("x-latin", &b"caf\xe9 \xff\x80"[..])
        .with_header("link", "</b>; rel=prev, </c>; rel=last")
        .with_header("x-empty", "")
        .with_header("link", "</a>; rel=next")
        .with_header("content-type", "text/plain; charset=\"utf-8\"");
    survives(subject, record).await;
}

/// Every status survives, a refusal of the business included.
pub async fn every_status_survives(subject: &dyn Subject) {
    for status in [200, 201, 204, 303, 402, 418, 422, 500, 599, 999] {
        survives(subject, Record::new(status, "declined")).await;
    }
}

async fn survives(subject: &dyn Subject, record: Record) {
    let store = subject.store().await;
    let mut first = Attempt::fresh();
    first.acquire(&store).await;
    assert_eq!(first.complete(&store, &record).await, Completion::Stored);

    let replayed = completed(first.rival().claim(&store).await);
    // `Debug` shows sizes only: the bytes tell which one changed.
    let bytes = |record: &Record| {
        record
            .encode()
            .expect("the record fits")
            .escape_ascii()
            .to_string()
    };
    assert_eq!(bytes(&replayed), bytes(&record));
}

/// A response that cannot be read is reported as such and left alone: it is never a key that
/// nobody had.
pub async fn an_unreadable_record_is_never_new(subject: &dyn Subject) {
    let store = subject.store().await;
    let whole = record(1).encode().expect("the record fits");
    let changed = |at: usize, byte: u8| {
        let mut bytes = whole.to_vec();
        bytes[at] = byte;
        Bytes::from(bytes)
    };
    let damages = [
        (changed(0, 0), Unreadable::Version(0)),
        (changed(0, 9), Unreadable::Version(9)),
        (changed(1, 0x80), Unreadable::Flags(0x80)),
        (changed(2, 0xff), Unreadable::Status(0xffc9)),
        (changed(4, 0xff), Unreadable::Truncated),
        (whole.slice(..12), Unreadable::Truncated),
        (Bytes::new(), Unreadable::Truncated),
    ];
    for (damaged, unreadable) in damages {
        let mut first = Attempt::fresh();
        first.acquire(&store).await;
        let _ = first.complete(&store, &record(1)).await;
        let Some(stored) = subject.swap_response(first.key(), damaged.clone()).await else {
            return;
        };
        for attempt in [first.rival(), first.rival().without_takeover()] {
            let claim = attempt.claim(&store).await;
            assert_eq!(claim, Claim::Unreadable(unreadable));
        }
        let found = subject.swap_response(first.key(), stored).await;
        assert_eq!(found, Some(damaged), "the record was touched");
        assert_eq!(completed(first.rival().claim(&store).await), record(1));
    }
}
