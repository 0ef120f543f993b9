//! The neutral request: what the protocol needs to know of it, borrowed from the framework.

use std::{borrow::Cow, fmt};

/// The parts of a request that its fingerprint covers, apart from the body.
///
/// # Examples
/// ```
/// use idem_core::RequestHead;
///
/// let head = RequestHead::new("POST", "/pay")
///     .with_query(Some("mode=live"))
///     .with_content_type(b"Application/JSON; charset=utf-8");
/// assert_eq!(head.media_type(), "application/json");
/// ```
#[derive(Clone, Copy)]
pub struct RequestHead<'a> {
    /// The method, as it was received.
    pub method: &'a str,
    /// The full path, as it was received: percent-encoding untouched, nothing folded, and with
    /// the prefixes of the routers that it passed.
    pub path: &'a str,
    /// What follows the `?`; `None` if there is none, which is not the same as an empty query.
    pub query: Option<&'a str>,
    /// The value of `Content-Type`.
    pub content_type: Option<&'a [u8]>,
}

impl<'a> RequestHead<'a> {
    /// A request without query and content type.
    pub fn new(method: &'a str, path: &'a str) -> Self {
        Self {
            method,
            path,
            query: None,
            content_type: None,
        }
    }

    /// Sets the query.
    #[must_use]
    pub fn with_query(self, query: Option<&'a str>) -> Self {
        Self { query, ..self }
    }

    /// Sets the content type.
    #[must_use]
    pub fn with_content_type(self, value: &'a [u8]) -> Self {
        Self {
            content_type: Some(value),
            ..self
        }
    }

    /// The media type in lower case without its parameters; empty if there is none.
    pub fn media_type(&self) -> Cow<'a, str> {
        let value = self.content_type.unwrap_or_default();
        let end = value
            .iter()
            .position(|byte| *byte == b';')
            .unwrap_or(value.len());
        let essence = value[..end].trim_ascii();
        match str::from_utf8(essence) {
            Ok(text) if !essence.iter().any(u8::is_ascii_uppercase) => Cow::Borrowed(text),
            _ => Cow::Owned(String::from_utf8_lossy(essence).to_ascii_lowercase()),
        }
    }
}

/// Shows the method only: paths and queries name customers.
impl fmt::Debug for RequestHead<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequestHead({})", self.method)
    }
}

/// The method as it may stand in a label: a client can make up methods without end.
pub(crate) fn in_words(method: &str) -> &str {
    const KNOWN: [&str; 10] = [
        "CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "QUERY", "TRACE",
    ];
    if KNOWN.contains(&method) {
        method
    } else {
        "OTHER"
    }
}

/// Whether a method never changes anything, so that its requests pass through and their keys
/// are ignored: GET, HEAD, OPTIONS and TRACE. Every other method, known or not, is protected.
///
/// # Examples
/// ```
/// assert!(idem_core::is_safe("GET"));
/// assert!(!idem_core::is_safe("DELETE"));
/// assert!(!idem_core::is_safe("get"), "methods are case-sensitive");
/// ```
///
/// Source: RFC 9110, section 9.2.1 "Safe Methods".
pub fn is_safe(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "OPTIONS" | "TRACE")
}
