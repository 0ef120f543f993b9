//! Which response headers are kept in a record.
//!
//! All but those that describe one exchange or one connection. Lines are kept raw: values are
//! never split at commas, joined or re-encoded.

use bytes::Bytes;

use crate::record::HeaderLine;

/// Never kept: they frame one message or belong to one connection, so that replaying them would
/// break the answer. `Content-Length` and `Date` are made anew.
///
/// Source: RFC 9110, section 7.6.1 "Connection".
const NEVER: &[&str] = &[
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Not kept unless the application asks: they speak of the first exchange, and replaying some
/// of them (a cookie above all) would be a fault.
const EXCHANGE: &[&str] = &[
    "age",
    "alt-svc",
    "authentication-info",
    "nel",
    "report-to",
    "request-id",
    "server",
    "server-timing",
    "set-cookie",
    "strict-transport-security",
    "traceparent",
    "tracestate",
    "via",
    "www-authenticate",
    "x-request-id",
];

/// As [`EXCHANGE`], for every name that starts so.
const EXCHANGE_PREFIXES: &[&str] = &["access-control-", "ratelimit", "x-ratelimit-"];

/// The application's changes to which headers are kept.
#[derive(Debug, Clone, Default)]
pub(crate) struct HeaderRules {
    /// Lower-case names that are kept although the default list says no.
    pub(crate) kept: Vec<Box<str>>,
    /// Lower-case names that are not kept although the default list says yes.
    pub(crate) dropped: Vec<Box<str>>,
}

impl HeaderRules {
    fn keeps(&self, name: &str) -> bool {
        if NEVER.contains(&name) || self.dropped.iter().any(|known| **known == *name) {
            return false;
        }
        self.kept.iter().any(|known| **known == *name) || !of_one_exchange(name)
    }

    /// Keeps what a replay may send, in order.
    ///
    /// Names are in lower case. What `Connection` lists is left out with it.
    pub(crate) fn keep<'a>(
        &self,
        lines: impl Iterator<Item = (&'a str, &'a [u8])>,
    ) -> Vec<HeaderLine> {
        let mut kept = Vec::new();
        let mut connection = Vec::new();
        for (name, value) in lines {
            if name == "connection" {
                connection.push(value);
            } else if self.keeps(name) {
                let name = Bytes::copy_from_slice(name.as_bytes());
                kept.push((name, Bytes::copy_from_slice(value)));
            }
        }
        if !connection.is_empty() {
            let tokens = connection
                .iter()
                .flat_map(|value| value.split(|byte| *byte == b','))
                .map(<[u8]>::trim_ascii);
            kept.retain(|(name, _)| !tokens.clone().any(|token| token.eq_ignore_ascii_case(name)));
        }
        kept
    }
}

/// Whether the application can ask for this header to be kept.
pub(crate) fn may_be_kept(name: &str) -> bool {
    !NEVER.contains(&name)
}

fn of_one_exchange(name: &str) -> bool {
    EXCHANGE.contains(&name)
        || EXCHANGE_PREFIXES
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(rules: &HeaderRules, lines: &[(&'static str, &'static [u8])]) -> Vec<String> {
        rules
            .keep(lines.iter().copied())
            .into_iter()
            .map(|(name, _)| String::from_utf8(name.to_vec()).expect("a name"))
            .collect()
    }

    #[test]
    fn application_headers_are_kept_raw_and_in_order() {
        let lines: [(&str, &[u8]); 5] = [
            ("location", b"/payments/7"),
            ("link", b"</a>, </b>"),
            ("link", b"</c>"),
            ("x-latin", b"caf\xe9"),
            ("cache-control", b"no-store"),
        ];
        let kept = HeaderRules::default().keep(lines.into_iter());
        let kept: Vec<(&str, &[u8])> = kept
            .iter()
            .map(|(name, value)| (str::from_utf8(name).expect("a name"), value.as_ref()))
            .collect();
        assert_eq!(kept, lines);
    }

    #[test]
    fn each_header_of_one_exchange_or_connection_is_left_out() {
        let rules = HeaderRules::default();
        let prefixed = [
            "access-control-allow-origin",
            "ratelimit-limit",
            "x-ratelimit-remaining",
        ];
        for name in NEVER.iter().chain(EXCHANGE).chain(&prefixed) {
            assert!(!rules.keeps(name), "{name}");
        }
    }

    #[test]
    fn what_connection_lists_is_left_out_with_it() {
        let lines: [(&str, &[u8]); 3] = [
            ("connection", b"close, X-Hop"),
            ("x-hop", b"1"),
            ("x-end", b"2"),
        ];
        assert_eq!(names(&HeaderRules::default(), &lines), ["x-end"]);
    }

    #[test]
    fn the_application_may_keep_a_cookie_but_never_the_framing() {
        let rules = HeaderRules {
            kept: vec!["set-cookie".into(), "transfer-encoding".into()],
            dropped: vec!["x-secret".into()],
        };
        let lines: [(&str, &[u8]); 3] = [
            ("set-cookie", b"a=b"),
            ("transfer-encoding", b"chunked"),
            ("x-secret", b"1"),
        ];
        assert_eq!(names(&rules, &lines), ["set-cookie"]);
    }
}
