//! Deciding what a client does after an attempt.
//!
//! Pure: no clock, no I/O, no HTTP client. Every rule of the client is a row of [`after`].
//!
//! A 5xx is repeated, also one that nobody can explain: the server releases the key, bound to this
//! request, so that the repeated one either runs for the first time or again after an end without an
//! outcome. Where that is worse than not knowing, the server says so with `on_lapse = "unknown"` and
//! `Outcome::Unknown`, and the client gets a 409 without `Retry-After`.
//!
//! Invariant: an operation that may have run is never called refused.

use std::{fmt, time::Duration};

use http::{HeaderMap, StatusCode, header::RETRY_AFTER};
use jiff::{Timestamp, fmt::rfc2822::DateTimeParser};
use serde::Deserialize;

/// Decides what follows `answer`, where `pause` is the client's own next pause.
///
/// `Retry-After` can make the pause longer, not shorter: a server that says 0 is not asked in a
/// tight loop.
pub fn after(answer: &Answer, earlier: Earlier, pause: Duration) -> Next<'_> {
    let response = match answer {
        Answer::Unreachable(_) | Answer::Lost(_) => return Next::Again { pause },
        Answer::Response(response) => response,
    };
    let again = |told: Option<Duration>| Next::Again {
        pause: told.map_or(pause, |told| told.max(pause)),
    };
    match (response.status.as_u16(), response.retry_after) {
        (200..=299, _) => Next::Done(response),
        (409, told @ Some(_)) | (408 | 425 | 429 | 500..=599, told) => again(told),
        // The first attempt may have paid before the token of the second one expired: only the
        // answer to the only attempt, or the recorded one, says what became of the operation.
        _ => match (earlier, response.replayed) {
            (Earlier::Unsent, _) | (Earlier::Sent, true) => Next::Refused(response),
            (Earlier::Sent, false) => Next::Unknown,
        },
    }
}

/// What a client does next.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub enum Next<'a> {
    /// Nothing: it is done, and this is the answer.
    Done(&'a Response),
    /// It repeats the request, unchanged, after this pause.
    Again {
        /// Counted from the answer.
        pause: Duration,
    },
    /// It gives up: the operation did not take place.
    Refused(&'a Response),
    /// It gives up: the operation was refused now, and may have taken place before.
    Unknown,
}

/// Whether an attempt before this one may have run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Earlier {
    /// No: none was sent.
    Unsent,
    /// Yes: one was sent, perhaps by an earlier process.
    Sent,
}

impl Earlier {
    /// The same for the attempt after the one with this answer.
    #[must_use]
    pub fn then(self, answer: &Answer) -> Self {
        match answer {
            Answer::Unreachable(_) => self,
            Answer::Lost(_) | Answer::Response(_) => Self::Sent,
        }
    }
}

/// What became of an attempt.
#[derive(Debug, Clone)]
pub enum Answer {
    /// There was no connection, for this reason: nothing was sent.
    Unreachable(String),
    /// The answer did not come, for this reason: the request may have run.
    Lost(String),
    /// The server's answer.
    Response(Response),
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) => write!(f, "not reached: {why}"),
            Self::Lost(why) => write!(f, "no answer: {why}"),
            Self::Response(response) => {
                write!(f, "{}", response.status.as_u16())?;
                match &response.code {
                    Some(code) => write!(f, " {code}"),
                    None => Ok(()),
                }
            }
        }
    }
}

/// An answer, as far as it matters to a client.
#[derive(Debug, Clone)]
pub struct Response {
    /// The status.
    pub status: StatusCode,
    /// How long to wait at least, if it says so.
    pub retry_after: Option<Duration>,
    /// Whether it is the recorded answer to an earlier attempt.
    pub replayed: bool,
    /// The `code` of a problem document.
    pub code: Option<String>,
    /// The body.
    pub body: String,
}

impl Response {
    /// Reads an answer that came at `now`.
    pub fn read(status: StatusCode, headers: &HeaderMap, body: String, now: Timestamp) -> Self {
        #[derive(Deserialize)]
        struct Problem {
            code: String,
        }
        let replayed = headers.get("idempotent-replayed");
        let problem: Option<Problem> = serde_json::from_str(&body).ok();
        Self {
            status,
            retry_after: retry_after(headers, now),
            replayed: replayed.is_some_and(|value| value == "true"),
            code: problem.map(|problem| problem.code),
            body,
        }
    }
}

/// Seconds, or the date of a proxy in front of the server. What is neither was not said.
///
/// Source: [RFC 9110, section 10.2.3](https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3).
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?;
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = DateTimeParser::new().parse_timestamp(value).ok()?;
    // A date that is over: at once.
    Some(date.duration_since(now).try_into().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-11-30T12:00:00Z";
    const PAUSE: Duration = Duration::from_secs(4);

    fn read(status: u16, headers: &[(&'static str, &'static str)], body: &str) -> Response {
        let headers = headers
            .iter()
            .map(|(name, value)| {
                let value = value.parse().expect("a value");
                (name.parse().expect("a name"), value)
            })
            .collect();
        let status = StatusCode::from_u16(status).expect("a status");
        let now = NOW.parse().expect("a time");
        Response::read(status, &headers, body.to_owned(), now)
    }

    fn said(next: Next<'_>) -> String {
        match next {
            Next::Done(_) => "done".to_owned(),
            Next::Again { pause } => format!("again in {pause:?}"),
            Next::Refused(_) => "refused".to_owned(),
            Next::Unknown => "unknown".to_owned(),
        }
    }

    #[test]
    fn each_answer_has_one_consequence() {
        let lost = || Answer::Lost("a timeout".to_owned());
        let unreachable = || Answer::Unreachable("refused".to_owned());
        let with = |status, headers: &[_]| Answer::Response(read(status, headers, "{}"));
        let plain = |status| with(status, &[]);
        let told = |status, when| with(status, &[("retry-after", when)]);
        let replay = |status| with(status, &[("idempotent-replayed", "true")]);
        let (unsent, sent) = (Earlier::Unsent, Earlier::Sent);
        let mut table = vec![
            (unreachable(), unsent, "again in 4s"),
            (unreachable(), sent, "again in 4s"),
            (lost(), unsent, "again in 4s"),
            (lost(), sent, "again in 4s"),
            (plain(200), unsent, "done"),
            (plain(201), sent, "done"),
            (replay(201), sent, "done"),
            (told(202, "7"), sent, "done"),
            // In progress, and any other conflict.
            (told(409, "7"), unsent, "again in 7s"),
            (told(409, "7"), sent, "again in 7s"),
            (told(409, "0"), sent, "again in 4s"),
            (told(409, "soon"), sent, "unknown"),
            (plain(409), unsent, "refused"),
            (plain(409), sent, "unknown"),
            // A declined card, an expired token, a malformed request, a redirect.
            (plain(402), unsent, "refused"),
            (replay(402), sent, "refused"),
            (plain(402), sent, "unknown"),
            (plain(401), sent, "unknown"),
            (told(400, "7"), unsent, "refused"),
            (plain(307), unsent, "refused"),
            (plain(404), unsent, "refused"),
            (plain(404), sent, "unknown"),
        ];
        for status in [408, 425, 429, 500, 501, 502, 503, 504, 524] {
            table.extend([
                (plain(status), unsent, "again in 4s"),
                (plain(status), sent, "again in 4s"),
                (told(status, "7"), unsent, "again in 7s"),
                (told(status, "1"), unsent, "again in 4s"),
            ]);
        }
        for (answer, earlier, next) in table {
            let decided = said(after(&answer, earlier, PAUSE));
            assert_eq!(decided, next, "{answer:?} {earlier:?}");
        }
    }

    #[test]
    fn only_what_was_not_sent_cannot_have_run() {
        let unreachable = Answer::Unreachable("refused".to_owned());
        let lost = Answer::Lost("a timeout".to_owned());
        let busy = Answer::Response(read(503, &[], ""));
        for (earlier, answer, then) in [
            (Earlier::Unsent, &unreachable, Earlier::Unsent),
            (Earlier::Unsent, &lost, Earlier::Sent),
            (Earlier::Unsent, &busy, Earlier::Sent),
            (Earlier::Sent, &unreachable, Earlier::Sent),
        ] {
            assert_eq!(earlier.then(answer), then, "{answer:?}");
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        for (value, seconds) in [
            ("0", Some(0)),
            ("120", Some(120)),
            ("18446744073709551615", Some(u64::MAX)),
            ("Mon, 30 Nov 2026 12:00:30 GMT", Some(30)),
            ("Mon, 30 Nov 2026 11:00:00 GMT", Some(0)),
            ("-1", None),
            ("1.5", None),
            ("", None),
        ] {
            let answer = read(503, &[("retry-after", value)], "");
            assert_eq!(
                answer.retry_after,
                seconds.map(Duration::from_secs),
                "{value:?}"
            );
        }
    }

    #[test]
    fn the_code_is_that_of_a_problem_document() {
        for (body, said) in [
            (r#"{"status": 409, "code": "key-reused"}"#, "409 key-reused"),
            (r#"{"error": "out of stock"}"#, "409"),
            ("<html>", "409"),
        ] {
            assert_eq!(Answer::Response(read(409, &[], body)).to_string(), said);
        }
    }
}
