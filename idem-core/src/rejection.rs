//! What a refusal is: its code, its status, and the problem document that says so.
//!
//! A [`Rejection`] is every answer that we give instead of the handler's. It never carries a key,
//! a fingerprint, a stored body, an owner, a fence or a caller. A retryable one always has a
//! `Retry-After`; no other has. So a client can go by one rule: 409 with `Retry-After` means wait
//! and repeat unchanged, 409 without means do not repeat, read `code`.

use std::{fmt, time::Duration};

use http::StatusCode;
use problem_details::ProblemDetails;
use serde::Serialize;

use crate::{
    key::InvalidKey,
    record::Record,
    store::{Grant, State},
};

/// Where the `type` of a problem document points unless the engine says otherwise; the code
/// follows it.
pub const DEFAULT_PROBLEM_BASE: &str = "https://docs.rs/idem-core/latest/idem_core/refusal/";

/// The media type of a problem document.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// Why a request is answered by us and not by its handler.
///
/// # Examples
/// ```
/// use idem_core::Rejection;
///
/// let busy = Rejection::InProgress { retry_after: 2 };
/// assert_eq!((busy.status(), busy.code(), busy.retry_after()), (409, "in-progress", Some(2)));
/// let reused = Rejection::StoreUnavailable;
/// assert_eq!(reused.status(), 503);
/// ```
///
/// Source: RFC 9457; draft-ietf-httpapi-idempotency-key-header-07, "Error Handling".
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rejection {
    /// 400 `key-missing`: the handler requires a key and none was sent.
    KeyMissing {
        /// The header that was looked for, in lower case.
        header: Box<str>,
    },
    /// 400 `key-invalid`: the key breaks a rule.
    KeyInvalid(InvalidKey),
    /// 409 `key-reused`: the key stands for another request. The handler did not run.
    KeyReused {
        /// What is there for the other request.
        original: State,
    },
    /// 409 `in-progress`: an equal request runs.
    InProgress {
        /// When to repeat, in seconds.
        retry_after: u32,
    },
    /// 409 `outcome-unknown`: an attempt began and nobody knows how it ended.
    OutcomeUnknown,
    /// 409 `response-unavailable`: the operation is done, its response was not kept.
    ResponseUnavailable {
        /// The status of the first response.
        status: u16,
        /// Its `Location`, where the result can be read.
        location: Option<String>,
    },
    /// 503 `store-unavailable`: the store did not answer, so the handler did not run.
    StoreUnavailable,
    /// 503 `shutting-down`: the server takes no new keyed requests.
    ShuttingDown,
    /// 413 `request-too-large`: the body is larger than the handler accepts.
    RequestTooLarge {
        /// The limit in bytes, where it is known.
        limit: Option<u64>,
    },
    /// 400 `body-incomplete`: the body broke off or could not be read.
    BodyIncomplete,
    /// 403 `caller-missing`: the caller is known to be anonymous, and the key needs a caller.
    CallerMissing,
    /// 500 `not-configured`: the application lacks something; its log says what.
    NotConfigured,
    /// 500 `record-unreadable`: there is a record that this build cannot read.
    RecordUnreadable,
}

impl Rejection {
    /// The refusal of a request that meets a running attempt whose lease lasts for `left`.
    ///
    /// `Retry-After` doubles with each attempt of the key and is never longer than the lease.
    pub(crate) fn in_progress(grant: Grant, left: Duration) -> Self {
        const LONGEST: u64 = 30;
        let lease = left.as_secs() + u64::from(left.subsec_nanos() > 0);
        let hint = 1_u64 << grant.attempt.saturating_sub(1).min(5);
        let seconds = lease.min(hint).clamp(1, LONGEST);
        Self::InProgress {
            retry_after: u32::try_from(seconds).unwrap_or(1),
        }
    }

    /// The stable name of the refusal, which is also the end of the problem's `type`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::KeyMissing { .. } => "key-missing",
            Self::KeyInvalid(_) => "key-invalid",
            Self::KeyReused { .. } => "key-reused",
            Self::InProgress { .. } => "in-progress",
            Self::OutcomeUnknown => "outcome-unknown",
            Self::ResponseUnavailable { .. } => "response-unavailable",
            Self::StoreUnavailable => "store-unavailable",
            Self::ShuttingDown => "shutting-down",
            Self::RequestTooLarge { .. } => "request-too-large",
            Self::BodyIncomplete => "body-incomplete",
            Self::CallerMissing => "caller-missing",
            Self::NotConfigured => "not-configured",
            Self::RecordUnreadable => "record-unreadable",
        }
    }

    /// The HTTP status.
    pub fn status(&self) -> u16 {
        match self {
            Self::KeyMissing { .. } | Self::KeyInvalid(_) | Self::BodyIncomplete => 400,
            Self::CallerMissing => 403,
            Self::KeyReused { .. }
            | Self::InProgress { .. }
            | Self::OutcomeUnknown
            | Self::ResponseUnavailable { .. } => 409,
            Self::RequestTooLarge { .. } => 413,
            Self::NotConfigured | Self::RecordUnreadable => 500,
            Self::StoreUnavailable | Self::ShuttingDown => 503,
        }
    }

    /// After how many seconds the same request may be repeated; `None` if repeating is useless.
    pub fn retry_after(&self) -> Option<u32> {
        match self {
            Self::InProgress { retry_after } => Some(*retry_after),
            Self::StoreUnavailable | Self::ShuttingDown => Some(1),
            Self::KeyMissing { .. }
            | Self::KeyInvalid(_)
            | Self::KeyReused { .. }
            | Self::OutcomeUnknown
            | Self::ResponseUnavailable { .. }
            | Self::RequestTooLarge { .. }
            | Self::BodyIncomplete
            | Self::CallerMissing
            | Self::NotConfigured
            | Self::RecordUnreadable => None,
        }
    }

    /// What happened, in one line that is the same for every request.
    pub fn title(&self) -> &'static str {
        match self {
            Self::KeyMissing { .. } => "An idempotency key is required",
            Self::KeyInvalid(_) => "The idempotency key is not valid",
            Self::KeyReused { .. } => "The idempotency key was used for another request",
            Self::InProgress { .. } => "A request with this idempotency key is being processed",
            Self::OutcomeUnknown => "The outcome of this operation is not known",
            Self::ResponseUnavailable { .. } => "This operation is done; its response was not kept",
            Self::StoreUnavailable => "The request cannot be protected at the moment",
            Self::ShuttingDown => "The server is shutting down",
            Self::RequestTooLarge { .. } => "The request body is too large",
            Self::BodyIncomplete => "The request body could not be read",
            Self::CallerMissing => "An idempotency key needs an authenticated caller",
            Self::NotConfigured => "The server is not configured for this request",
            Self::RecordUnreadable => "The stored outcome of this operation cannot be read",
        }
    }

    /// What the client can do about it, where that depends on the request.
    pub fn detail(&self) -> Option<String> {
        match self {
            Self::KeyMissing { header } => Some(format!("send it in the header `{header}`")),
            Self::KeyInvalid(reason) => Some(reason.to_string()),
            Self::RequestTooLarge { limit: Some(limit) } => {
                Some(format!("the limit is {limit} bytes"))
            }
            Self::KeyReused { .. }
            | Self::InProgress { .. }
            | Self::OutcomeUnknown
            | Self::ResponseUnavailable { .. }
            | Self::StoreUnavailable
            | Self::ShuttingDown
            | Self::RequestTooLarge { limit: None }
            | Self::BodyIncomplete
            | Self::CallerMissing
            | Self::NotConfigured
            | Self::RecordUnreadable => None,
        }
    }

    fn members(&self, base: &str) -> Members {
        let mut members = Members {
            r#type: format!("{base}{}", self.code()),
            code: self.code(),
            retryable: self.retry_after().is_some(),
            retry_after: self.retry_after(),
            ..Members::default()
        };
        match self {
            Self::KeyReused { original } => members.original_state = Some(name(*original)),
            Self::ResponseUnavailable { status, location } => {
                members.original_status = Some(*status);
                members.original_location.clone_from(location);
            }
            Self::RequestTooLarge { limit } => members.limit = *limit,
            Self::KeyMissing { .. }
            | Self::KeyInvalid(_)
            | Self::InProgress { .. }
            | Self::OutcomeUnknown
            | Self::StoreUnavailable
            | Self::ShuttingDown
            | Self::BodyIncomplete
            | Self::CallerMissing
            | Self::NotConfigured
            | Self::RecordUnreadable => {}
        }
        members
    }

    /// The answer with its problem document (RFC 9457), whose `type` is `base` and the code.
    pub fn problem(&self, base: &str) -> Record {
        let problem = ProblemDetails {
            r#type: None,
            status: StatusCode::from_u16(self.status()).ok(),
            title: Some(self.title().to_owned()),
            detail: self.detail(),
            instance: None,
            extensions: self.members(base),
        };
        let body = serde_json::to_vec(&problem)
            .expect("a problem document is strings and numbers under string keys");
        let mut answer = Record::new(self.status(), body)
            .with_header("content-type", PROBLEM_JSON)
            .with_header("cache-control", "no-store");
        if let Some(seconds) = self.retry_after() {
            answer = answer.with_header("retry-after", seconds.to_string());
        }
        answer
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// The members of a problem document beyond those of RFC 9457, and its `type`: as an `http::Uri` it
/// would lose its fragment, and could not be a URN.
#[derive(Debug, Default, Serialize)]
struct Members {
    r#type: String,
    code: &'static str,
    retryable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    original_state: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    original_status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    original_location: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
}

fn name(state: State) -> &'static str {
    match state {
        State::InProgress => "in_progress",
        State::Completed => "completed",
        State::Released => "released",
        State::Unknown => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Fence;
    use serde_json::{Value, json};

    /// One of each kind. A new variant must be added here, or `every_code_is_listed` fails.
    fn all() -> Vec<Rejection> {
        vec![
            Rejection::KeyMissing {
                header: "idempotency-key".into(),
            },
            Rejection::KeyInvalid(InvalidKey::TooLong { max: 255 }),
            Rejection::KeyReused {
                original: State::InProgress,
            },
            Rejection::InProgress { retry_after: 2 },
            Rejection::OutcomeUnknown,
            Rejection::ResponseUnavailable {
                status: 201,
                location: Some("/payments/7".into()),
            },
            Rejection::StoreUnavailable,
            Rejection::ShuttingDown,
            Rejection::RequestTooLarge {
                limit: Some(2_097_152),
            },
            Rejection::BodyIncomplete,
            Rejection::CallerMissing,
            Rejection::NotConfigured,
            Rejection::RecordUnreadable,
        ]
    }

    fn problem(rejection: &Rejection) -> Value {
        let answer = rejection.problem(DEFAULT_PROBLEM_BASE);
        let crate::record::RecordBody::Kept(body) = &answer.body else {
            panic!("a refusal has a body");
        };
        serde_json::from_slice(body).expect("json")
    }

    #[test]
    fn each_refusal_is_told_apart_by_code_and_type() {
        let mut codes: Vec<_> = all().iter().map(Rejection::code).collect();
        for rejection in all() {
            let problem = problem(&rejection);
            assert_eq!(problem["code"], rejection.code());
            assert_eq!(problem["status"], rejection.status());
            assert_eq!(
                problem["type"],
                format!("{DEFAULT_PROBLEM_BASE}{}", rejection.code())
            );
        }
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), all().len());
    }

    #[test]
    fn exactly_the_retryable_ones_say_when() {
        for rejection in all() {
            let answer = rejection.problem(DEFAULT_PROBLEM_BASE);
            let seconds = rejection.retry_after().map(|seconds| seconds.to_string());
            let header = answer
                .header("retry-after")
                .map(|value| value.escape_ascii().to_string());
            assert_eq!(header, seconds, "{rejection}");
            let problem = problem(&rejection);
            assert_eq!(problem["retryable"], seconds.is_some(), "{rejection}");
            assert_eq!(
                problem.get("retry_after").is_some(),
                seconds.is_some(),
                "{rejection}"
            );
        }
    }

    #[test]
    fn a_problem_document_says_what_the_client_can_use_and_nothing_else() {
        assert_eq!(
            problem(&Rejection::ResponseUnavailable {
                status: 201,
                location: Some("/payments/7".into())
            }),
            json!({
                "type": "https://docs.rs/idem-core/latest/idem_core/refusal/response-unavailable",
                "title": "This operation is done; its response was not kept",
                "status": 409,
                "code": "response-unavailable",
                "retryable": false,
                "original_status": 201,
                "original_location": "/payments/7",
            })
        );
        assert_eq!(
            problem(&Rejection::KeyReused {
                original: State::Completed
            })["original_state"],
            "completed"
        );
        assert_eq!(
            problem(&Rejection::RequestTooLarge { limit: Some(9) })["detail"],
            "the limit is 9 bytes"
        );
    }

    #[test]
    fn retry_after_doubles_within_the_lease_and_thirty_seconds() {
        let after = |attempt, left: u64| {
            let grant = Grant {
                fence: Fence::new(1),
                attempt,
            };
            Rejection::in_progress(grant, Duration::from_millis(left)).retry_after()
        };
        for (attempt, left, seconds) in [
            (1, 30_000, 1),
            (2, 30_000, 2),
            (4, 30_000, 8),
            (6, 30_000, 30),
            (6, 600_000, 30),
            (100, 600_000, 30),
            (4, 1_000, 1),
            (4, 1_001, 2),
            (4, 200, 1),
            (4, 0, 1),
        ] {
            assert_eq!(
                after(attempt, left),
                Some(seconds),
                "attempt {attempt}, {left} ms left"
            );
        }
    }
}
