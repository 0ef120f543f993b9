//! The client's key, and the storage key that a record is found by.
//!
//! Invariant: an [`IdempotencyKey`] is valid once it exists; nothing downstream checks it again.
//! A [`StorageKey`] is a digest, so that neither a key nor a caller is readable in a store.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::scope::Caller;

/// The longest key that is accepted unless the engine says otherwise, in bytes.
pub const DEFAULT_MAX_KEY_LEN: usize = 255;

/// The key a client chose for one operation, as it sent it.
///
/// `abc` and `"abc"` are the same key: both the bare text that most published APIs take and the
/// structured-field string of the draft are read. Keys are compared octet by octet and never
/// normalised. `Debug` shows the length only, so that a key cannot reach a log by accident.
///
/// # Examples
/// ```
/// use idem_core::{IdempotencyKey, KeyRules};
///
/// let rules = KeyRules::default();
/// let bare = IdempotencyKey::parse(b"8e03978e-40d5", &rules)?;
/// let quoted = IdempotencyKey::parse(b"\"8e03978e-40d5\"", &rules)?;
/// assert_eq!(bare, quoted);
/// assert!(IdempotencyKey::parse(b"a,b", &rules).is_err());
/// # Ok::<(), idem_core::InvalidKey>(())
/// ```
///
/// Source: draft-ietf-httpapi-idempotency-key-header-07, "Syntax"; RFC 9651, "Strings".
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(Box<str>);

impl IdempotencyKey {
    /// Reads the value of one header line.
    ///
    /// A value that starts with a double quote must be a complete structured-field string, whose
    /// parameters are ignored. Any other value is a bare key of visible ASCII without `"`, `,`,
    /// `;` and `\`.
    ///
    /// # Errors
    /// [`InvalidKey`] names the rule that the value breaks.
    pub fn parse(value: &[u8], rules: &KeyRules) -> Result<Self, InvalidKey> {
        let key = if value.first() == Some(&b'"') {
            quoted(value)?
        } else {
            bare(value)?
        };
        if key.is_empty() {
            return Err(InvalidKey::Empty);
        }
        if key.len() > rules.max_len {
            return Err(InvalidKey::TooLong { max: rules.max_len });
        }
        match rules.format {
            KeyFormat::Any => {}
            KeyFormat::Uuid => {
                if key.parse::<uuid::fmt::Hyphenated>().is_err() {
                    return Err(InvalidKey::NotUuid);
                }
            }
        }
        Ok(Self(key))
    }

    /// Reads the key from all lines of its header; `None` when there is no line.
    ///
    /// # Errors
    /// [`InvalidKey::Repeated`] for more than one line, even if they are equal: a parser that
    /// joined them would find another key than the one that the retry will send. Otherwise as
    /// [`parse`](Self::parse).
    ///
    /// # Examples
    /// ```
    /// use idem_core::{IdempotencyKey, InvalidKey, KeyRules};
    ///
    /// let rules = KeyRules::default();
    /// assert_eq!(IdempotencyKey::from_lines([], &rules), Ok(None));
    /// let twice = IdempotencyKey::from_lines([&b"order-17"[..], b"order-17"], &rules);
    /// assert_eq!(twice, Err(InvalidKey::Repeated));
    /// ```
    pub fn from_lines<'a>(
        lines: impl IntoIterator<Item = &'a [u8]>,
        rules: &KeyRules,
    ) -> Result<Option<Self>, InvalidKey> {
        let mut lines = lines.into_iter();
        let Some(line) = lines.next() else {
            return Ok(None);
        };
        if lines.next().is_some() {
            return Err(InvalidKey::Repeated);
        }
        Self::parse(line, rules).map(Some)
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first and last four characters, for keys of at least twenty: enough to tell two keys
    /// apart in an audit, too little to use one.
    ///
    /// # Examples
    /// ```
    /// use idem_core::{IdempotencyKey, KeyRules};
    ///
    /// let rules = KeyRules::default();
    /// let key = IdempotencyKey::parse(b"8e03978e-40d5-43e8-bc93-6894a57f9324", &rules)?;
    /// assert_eq!(key.hint().as_deref(), Some("8e03…9324"));
    /// assert_eq!(IdempotencyKey::parse(b"order-17", &rules)?.hint(), None);
    /// # Ok::<(), idem_core::InvalidKey>(())
    /// ```
    pub fn hint(&self) -> Option<String> {
        const SHORTEST: usize = 20;
        let key = self.as_str();
        (key.len() >= SHORTEST).then(|| format!("{}…{}", &key[..4], &key[key.len() - 4..]))
    }
}

impl fmt::Debug for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IdempotencyKey({} bytes)", self.0.len())
    }
}

fn quoted(value: &[u8]) -> Result<Box<str>, InvalidKey> {
    let item = sfv::Parser::new(value)
        .parse::<sfv::Item>()
        .map_err(|_| InvalidKey::Malformed)?;
    item.bare_item
        .as_string()
        .map(|key| Box::from(key.as_str()))
        .ok_or(InvalidKey::Malformed)
}

fn bare(value: &[u8]) -> Result<Box<str>, InvalidKey> {
    let allowed =
        |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b',' | b';' | b'\\');
    if !value.iter().all(allowed) {
        return Err(InvalidKey::Character);
    }
    str::from_utf8(value)
        .map(Box::from)
        .map_err(|_| InvalidKey::Character)
}

/// What a key must look like. The example of [`KeyFormat`] sets both rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyRules {
    /// The longest key, in bytes after unquoting; 255 by default.
    pub max_len: usize,
    /// The form that is demanded; any by default.
    pub format: KeyFormat,
}

impl Default for KeyRules {
    fn default() -> Self {
        Self {
            max_len: DEFAULT_MAX_KEY_LEN,
            format: KeyFormat::Any,
        }
    }
}

/// The form that a key must have.
///
/// # Examples
/// ```
/// use idem_core::{IdempotencyKey, InvalidKey, KeyFormat, KeyRules};
///
/// let rules = KeyRules { format: KeyFormat::Uuid, max_len: 36 };
/// assert!(IdempotencyKey::parse(b"8e03978e-40d5-43e8-bc93-6894a57f9324", &rules).is_ok());
/// assert_eq!(IdempotencyKey::parse(b"order-17", &rules), Err(InvalidKey::NotUuid));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyFormat {
    /// Any valid key.
    #[default]
    Any,
    /// A UUID of any version as 8-4-4-4-12 hexadecimal digits in either case. It is not
    /// normalised: the same UUID in the other case is another key.
    Uuid,
}

/// Why a key was refused. The text is safe to show to the client: it names the rule, not the value.
///
/// # Examples
/// ```
/// use idem_core::{IdempotencyKey, InvalidKey, KeyRules};
///
/// let rules = KeyRules { max_len: 8, ..KeyRules::default() };
/// let refused = IdempotencyKey::parse(b"order-1700", &rules).expect_err("it is too long");
/// assert_eq!(refused, InvalidKey::TooLong { max: 8 });
/// assert_eq!(refused.to_string(), "the key is longer than 8 bytes");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidKey {
    /// There is nothing in it.
    Empty,
    /// It is longer than the limit.
    TooLong {
        /// The limit in bytes.
        max: usize,
    },
    /// It has a character that a bare key must not have.
    Character,
    /// It starts with a quote and is not a structured-field string.
    Malformed,
    /// The header was sent more than once.
    Repeated,
    /// It is not a UUID where one is demanded.
    NotUuid,
}

impl fmt::Display for InvalidKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the key is empty"),
            Self::TooLong { max } => write!(f, "the key is longer than {max} bytes"),
            Self::Character => f.write_str(
                "a bare key is visible ASCII without double quote, comma, semicolon and backslash",
            ),
            Self::Malformed => f.write_str("the key is not a complete quoted string"),
            Self::Repeated => f.write_str("the header was sent more than once"),
            Self::NotUuid => {
                f.write_str("the key must be a UUID such as 8e03978e-40d5-43e8-bc93-6894a57f9324")
            }
        }
    }
}

impl std::error::Error for InvalidKey {}

/// The digest by which a record is stored: namespace, caller, operation and key in one.
///
/// The layout is part of the stored format and pinned by test vectors. `Display` gives the first
/// eight hexadecimal digits, which is what logs carry.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StorageKey([u8; 32]);

impl StorageKey {
    /// Derives the storage key of `key`, used by `caller` for `operation`.
    ///
    /// Every part is length-prefixed, so that no two different tuples have one encoding.
    ///
    /// # Examples
    /// ```
    /// use idem_core::{Caller, IdempotencyKey, KeyRules, StorageKey};
    ///
    /// let key = IdempotencyKey::parse(b"order-17", &KeyRules::default())?;
    /// let ada = StorageKey::derive("", &Caller::User("ada".into()), "POST /orders", &key);
    /// let bob = StorageKey::derive("", &Caller::User("bob".into()), "POST /orders", &key);
    /// assert_ne!(ada, bob);
    /// # Ok::<(), idem_core::InvalidKey>(())
    /// ```
    pub fn derive(namespace: &str, caller: &Caller, operation: &str, key: &IdempotencyKey) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"idem-key\x00\x01");
        prefixed(&mut hash, namespace.as_bytes());
        caller.encode(&mut hash);
        prefixed(&mut hash, operation.as_bytes());
        prefixed(&mut hash, key.as_str().as_bytes());
        Self(hash.finalize().into())
    }

    /// Wraps the 32 bytes that a store kept.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for StorageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..4]
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for StorageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StorageKey({self})")
    }
}

/// Feeds `bytes` with its length in front.
pub(crate) fn prefixed(hash: &mut Sha256, bytes: &[u8]) {
    hash.update((bytes.len() as u64).to_be_bytes());
    hash.update(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::tests::hex;
    use proptest::prelude::*;

    fn parse(value: &[u8]) -> Result<IdempotencyKey, InvalidKey> {
        IdempotencyKey::parse(value, &KeyRules::default())
    }

    #[test]
    fn bare_and_quoted_spellings_are_one_key() {
        assert_eq!(parse(b"8e03"), parse(b"\"8e03\""));
        assert_eq!(parse(b"8e03"), parse(b"\"8e03\";v=1"));
        assert_eq!(
            parse(br#""a\"b""#).map(|key| key.as_str().to_owned()),
            Ok("a\"b".into())
        );
    }

    #[test]
    fn what_peers_refuse_without_need_is_accepted() {
        for key in [&b"a:b"[..], b"../../x", b"%00", b"a/b", b"{}"] {
            assert!(parse(key).is_ok(), "{}", key.escape_ascii());
        }
    }

    #[test]
    fn each_broken_rule_is_named() {
        use InvalidKey::{Character, Empty, Malformed, TooLong};
        let cases: [(&[u8], InvalidKey); 13] = [
            (b"", Empty),
            (b"\"\"", Empty),
            (b" ", Character),
            (b"a b", Character),
            (b"a\tb", Character),
            (b"a,b", Character),
            (b"a;b", Character),
            (b"a\\b", Character),
            (b"k\x80y", Character),
            (b"k\x00y", Character),
            (b"\"", Malformed),
            (b"\"open", Malformed),
            (b"\"a\"b", Malformed),
        ];
        for (value, expected) in cases {
            assert_eq!(parse(value), Err(expected), "{}", value.escape_ascii());
        }
        assert!(parse(&[b'k'; 255]).is_ok());
        assert_eq!(parse(&[b'k'; 256]), Err(TooLong { max: 255 }));
        assert_eq!(parse(&[b'k'; 10_000]), Err(TooLong { max: 255 }));
    }

    #[test]
    fn a_second_line_is_refused_even_if_equal() {
        let rules = KeyRules::default();
        assert_eq!(IdempotencyKey::from_lines([], &rules), Ok(None));
        assert_eq!(
            IdempotencyKey::from_lines([&b"a"[..], b"a"], &rules),
            Err(InvalidKey::Repeated)
        );
    }

    #[test]
    fn a_demanded_uuid_has_hyphens_and_keeps_its_case() {
        let rules = KeyRules {
            format: KeyFormat::Uuid,
            ..KeyRules::default()
        };
        let parse = |value: &str| IdempotencyKey::parse(value.as_bytes(), &rules);
        let lower = parse("8e03978e-40d5-43e8-bc93-6894a57f9324").expect("a uuid");
        let upper = parse("8E03978E-40D5-43E8-BC93-6894A57F9324").expect("a uuid");
        assert_ne!(lower, upper);
        for other in [
            "8e03978e40d543e8bc936894a57f9324",
            "{8e03978e-40d5-43e8-bc93-6894a57f9324}",
            "urn:uuid:8e03978e-40d5-43e8-bc93-6894a57f9324",
            "not-a-uuid",
        ] {
            assert_eq!(parse(other), Err(InvalidKey::NotUuid), "{other}");
        }
    }

    #[test]
    fn neither_debug_nor_hint_gives_the_key_away() {
        let key = parse(b"alice@example.com-4111111111111111").expect("valid");
        assert!(!format!("{key:?}").contains("alice"));
        assert_eq!(key.hint().as_deref(), Some("alic…1111"));
        assert_eq!(parse(b"short").expect("valid").hint(), None);
    }

    fn derive(caller: &Caller) -> String {
        let key = parse(b"8e03978e-40d5-43e8-bc93-6894a57f9324").expect("valid");
        let id = StorageKey::derive("payments", caller, "POST /v1/accounts/{id}/payments", &key);
        hex(id.as_bytes())
    }

    /// These values are stored by every release; a change orphans the records of the one before.
    #[test]
    fn storage_keys_match_their_pinned_vectors() {
        assert_eq!(
            derive(&Caller::User("user_7".into())),
            "ecb1b75d1042d7fa0cdc111efcc09abdb3820be2141c34fbba60a925e4c58688"
        );
        assert_eq!(
            derive(&Caller::Endpoint),
            "2671bf1f387e5c357ff70a9ea709bda81a49039961d7b9793c16591125a8f971"
        );
        assert_eq!(
            derive(&Caller::Named(vec![("tenant".into(), "acme".into())])),
            "765ab728851f6f4cebfdc263063dd0e98e15abd244b5655f14d1ba326326a801"
        );
        let key = parse(b"8e03978e-40d5-43e8-bc93-6894a57f9324").expect("valid");
        let unnamed =
            StorageKey::derive("", &Caller::User("user_7".into()), "payments.create", &key);
        assert_eq!(
            hex(unnamed.as_bytes()),
            "61b94920cd59b097c6d5325e66fae13a3334e936601e571e7816a97d1f3bc128"
        );
    }

    proptest! {
        #[test]
        fn parsing_never_panics_and_accepts_only_the_documented_alphabet(value: Vec<u8>) {
            if let Ok(key) = parse(&value) {
                prop_assert!((1..=255).contains(&key.as_str().len()));
                prop_assert!(key.as_str().bytes().all(|byte| (0x20..=0x7e).contains(&byte)));
            }
        }

        #[test]
        fn every_key_survives_quoting(key in "[ -~]{1,255}") {
            let quoted = format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""));
            let parsed = parse(quoted.as_bytes()).map(|key| key.as_str().to_owned());
            prop_assert_eq!(parsed, Ok(key));
        }

        #[test]
        fn different_parts_never_share_a_storage_key(
            a in ("[ab]{0,3}", "[ab]{1,3}", "[ab]{0,3}", "[ab]{1,3}"),
            b in ("[ab]{0,3}", "[ab]{1,3}", "[ab]{0,3}", "[ab]{1,3}"),
        ) {
            let id = |(namespace, user, operation, key): &(String, String, String, String)| {
                let key = parse(key.as_bytes()).expect("of the alphabet");
                StorageKey::derive(namespace, &Caller::User(user.clone()), operation, &key)
            };
            prop_assert_eq!(a == b, id(&a) == id(&b));
        }
    }
}
