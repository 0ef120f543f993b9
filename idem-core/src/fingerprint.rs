//! What the key stands for: a digest of the request.
//!
//! The layout is part of the stored format and pinned by test vectors. The path is the concrete
//! one, as it was received; the route template belongs to the storage key. So one key on two
//! resources of one route is a mismatch, and never two payments.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::{key::prefixed, request::RequestHead};

/// Digest of the request that a key stands for, with the version of its layout in front.
///
/// # Examples
/// ```
/// use idem_core::{Fingerprint, RequestHead};
///
/// let head = RequestHead::new("POST", "/v1/payments").with_content_type(b"application/json");
/// let first = Fingerprint::of(&head, br#"{"amount":100}"#);
/// assert_eq!(first, Fingerprint::of(&head, br#"{"amount":100}"#));
/// assert_ne!(first, Fingerprint::of(&head, br#"{"amount":101}"#));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; Fingerprint::LEN]);

impl Fingerprint {
    /// How many bytes a fingerprint of the current layout has.
    pub const LEN: usize = 33;

    /// Digests method, path, query, media type and body.
    ///
    /// Deliberately left out: every other header. A trace id, a date, a nonce and a signature
    /// differ between attempts of one operation.
    pub fn of(head: &RequestHead<'_>, body: &[u8]) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"idem-fp\x00\x01");
        field(&mut hash, 0x01, head.method.as_bytes());
        field(&mut hash, 0x02, head.path.as_bytes());
        match head.query {
            None => field(&mut hash, 0x03, &[0x00]),
            Some(query) => tagged(&mut hash, 0x03, 0x01, query.as_bytes()),
        }
        field(&mut hash, 0x05, head.media_type().as_bytes());
        let mut content = [0; 40];
        content[..8].copy_from_slice(&(body.len() as u64).to_be_bytes());
        content[8..].copy_from_slice(&Sha256::digest(body));
        tagged(&mut hash, 0x06, Mode::Raw as u8, &content);

        let mut bytes = [0; Self::LEN];
        bytes[0] = Layout::Sha256 as u8;
        bytes[1..].copy_from_slice(&hash.finalize());
        Self(bytes)
    }

    /// Wraps the bytes that a store kept; `None` unless they are of a layout that this build
    /// can compare. Such a record is answered as a mismatch, never as a replay.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: [u8; Self::LEN] = bytes.try_into().ok()?;
        (bytes[0] == Layout::Sha256 as u8).then_some(Self(bytes))
    }

    /// The version byte and the digest.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Never shows the digest: the body of a small request can be guessed from it.
impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprint(…)")
    }
}

/// The first byte of a fingerprint.
enum Layout {
    Sha256 = 0x01,
}

/// How the body was digested.
enum Mode {
    Raw = 0x01,
}

fn field(hash: &mut Sha256, tag: u8, value: &[u8]) {
    hash.update([tag]);
    prefixed(hash, value);
}

/// A field whose value starts with a byte that says how to read the rest.
fn tagged(hash: &mut Sha256, tag: u8, kind: u8, value: &[u8]) {
    hash.update([tag]);
    hash.update((value.len() as u64 + 1).to_be_bytes());
    hash.update([kind]);
    hash.update(value);
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::fmt::Write;

    pub(crate) fn hex(bytes: &[u8]) -> String {
        bytes.iter().fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").expect("a string takes all");
            text
        })
    }

    fn head() -> RequestHead<'static> {
        RequestHead::new("POST", "/v1/accounts/42/payments").with_content_type(b"application/json")
    }

    /// These values are stored by every release; a change turns replays into mismatches.
    #[test]
    fn fingerprints_match_their_pinned_vectors() {
        let of = |head: &RequestHead<'_>, body: &[u8]| hex(Fingerprint::of(head, body).as_bytes());
        assert_eq!(
            of(&head(), br#"{"amount":100}"#),
            "0177c2ec3a301c1c0cc75bb17c778b616c50f6c1c96378a34aab100daedf70d2e6"
        );
        assert_eq!(
            of(&head().with_query(Some("")), br#"{"amount":100}"#),
            "01b193b1ef7cda7985f0fc3b5efead88999ef8e8f35b4782e1b4499a81dc305b27"
        );
        assert_eq!(
            of(&head(), br#"{"amount":101}"#),
            "015e9c36caeeb2085e2305f2ad9be9857160fbffa13cc585bbdea0b84623b545fa"
        );
    }

    #[test]
    fn each_part_of_the_request_counts() {
        let first = Fingerprint::of(&head(), b"{}");
        let others = [
            Fingerprint::of(
                &RequestHead {
                    method: "PUT",
                    ..head()
                },
                b"{}",
            ),
            Fingerprint::of(
                &RequestHead {
                    path: "/v1/accounts/43/payments",
                    ..head()
                },
                b"{}",
            ),
            Fingerprint::of(
                &RequestHead {
                    path: "/v1/accounts/42/payments/",
                    ..head()
                },
                b"{}",
            ),
            Fingerprint::of(&head().with_query(Some("mode=live")), b"{}"),
            Fingerprint::of(&head().with_content_type(b"text/plain"), b"{}"),
            Fingerprint::of(&head(), b"{} "),
        ];
        for (index, other) in others.iter().enumerate() {
            assert_ne!(&first, other, "{index}");
            assert!(!others[..index].contains(other), "{index}");
        }
    }

    #[test]
    fn a_media_type_is_compared_without_case_and_parameters() {
        let plain = Fingerprint::of(&head(), b"{}");
        let spelled = head().with_content_type(b"Application/JSON; charset=utf-8");
        assert_eq!(plain, Fingerprint::of(&spelled, b"{}"));
    }

    #[test]
    fn an_unknown_layout_is_not_comparable() {
        let mut bytes = Fingerprint::of(&head(), b"").as_bytes().to_vec();
        assert!(Fingerprint::from_bytes(&bytes).is_some());
        bytes[0] = 0x02;
        assert!(Fingerprint::from_bytes(&bytes).is_none());
        assert!(Fingerprint::from_bytes(&bytes[..32]).is_none());
    }
}
