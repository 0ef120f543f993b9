//! Whose key it is: the scope that a handler asks for and the caller that answers to it.
//!
//! Invariant: a caller is never guessed. Where nobody put one, the request is refused; an
//! anonymous or shared bucket exists only where `scope = "endpoint"` says so.

use std::{borrow::Cow, error::Error, fmt, sync::Arc};

use sha2::{Digest, Sha256};

use crate::key::prefixed;

/// The namespace in which a key is unique, as the attribute names it.
///
/// # Examples
/// ```
/// use idem_core::Scope;
///
/// assert_eq!(Scope::default(), Scope::User);
/// assert_eq!(Scope::User.resolver(), Some("user"));
/// assert_eq!(Scope::Named("tenant").resolver(), Some("tenant"));
/// assert_eq!(Scope::Endpoint.resolver(), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    /// Key, operation and caller: the default.
    #[default]
    User,
    /// Key and operation, shared by all callers. Choose it only where keys are long and random.
    Endpoint,
    /// Key, operation and the value of a resolver that the engine knows by this name.
    Named(&'static str),
}

impl Scope {
    /// The name of the resolver that this scope needs, if it needs one.
    pub fn resolver(self) -> Option<&'static str> {
        match self {
            Self::User => Some("user"),
            Self::Endpoint => None,
            Self::Named(name) => Some(name),
        }
    }

    /// The caller that `value`, the answer of the resolver, stands for.
    pub(crate) fn caller(self, value: String) -> Caller {
        match self {
            Self::User => Caller::User(value),
            Self::Endpoint => Caller::Endpoint,
            Self::Named(name) => Caller::Named(vec![(name.into(), value)]),
        }
    }
}

/// The caller that a record belongs to.
///
/// Two callers of different kinds never share a record, even if their text is the same. `Debug`
/// shows the kind only.
///
/// # Examples
/// ```
/// use idem_core::{Caller, IdempotencyKey, KeyRules, StorageKey};
///
/// let key = IdempotencyKey::parse(b"order-17", &KeyRules::default())?;
/// let record = |caller: &Caller| StorageKey::derive("", caller, "POST /orders", &key);
/// let user = Caller::User("7".to_owned());
/// let tenant = Caller::Named(vec![("tenant".into(), "7".to_owned())]);
/// assert_ne!(record(&user), record(&tenant));
/// assert_eq!(format!("{user:?}"), "User(…)");
/// # Ok::<(), idem_core::InvalidKey>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Caller {
    /// Everybody who uses the operation.
    Endpoint,
    /// One authenticated identity.
    User(String),
    /// The values of named resolvers, in the order in which the attribute names them.
    Named(Vec<(Cow<'static, str>, String)>),
}

impl Caller {
    /// 32 bytes that stand for the caller where a store is not to name it: two records of one caller
    /// have the same. A short identity can be guessed from them by trying.
    ///
    /// SHA-256 of `"idem-caller" 00 01` and the caller as in the storage key.
    #[cfg(any(feature = "postgres", test))]
    pub(crate) fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(b"idem-caller\x00\x01");
        self.encode(&mut hash);
        hash.finalize().into()
    }

    /// The caller in clear: `7`, or `tenant=acme,user=7`; nothing for everybody.
    #[cfg(any(feature = "postgres", test))]
    pub(crate) fn to_clear(&self) -> Option<String> {
        match self {
            Self::Endpoint => None,
            Self::User(id) => Some(id.clone()),
            Self::Named(parts) => {
                let parts = parts.iter().map(|(name, value)| format!("{name}={value}"));
                Some(parts.collect::<Vec<_>>().join(","))
            }
        }
    }

    /// Feeds the kind and the identity, in the layout of the storage key.
    pub(crate) fn encode(&self, hash: &mut Sha256) {
        match self {
            Self::Endpoint => {
                hash.update([0x00]);
                prefixed(hash, b"");
            }
            Self::User(id) => {
                hash.update([0x01]);
                prefixed(hash, id.as_bytes());
            }
            Self::Named(parts) => {
                hash.update([0x04]);
                let mut id = (parts.len() as u64).to_be_bytes().to_vec();
                for part in parts
                    .iter()
                    .flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()])
                {
                    id.extend_from_slice(&(part.len() as u64).to_be_bytes());
                    id.extend_from_slice(part);
                }
                prefixed(hash, &id);
            }
        }
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Endpoint => f.write_str("Endpoint"),
            Self::User(_) => f.write_str("User(…)"),
            Self::Named(parts) => f
                .debug_list()
                .entries(parts.iter().map(|(name, _)| name))
                .finish(),
        }
    }
}

/// The authenticated caller, put into the request's extensions by the application's
/// authentication; the default `"user"` resolver reads it.
///
/// It must be a stable identity, such as an account number. A token is not one: the retry that
/// follows a refreshed token would be a new caller, and would run again.
///
/// # Examples
/// ```
/// use idem_core::Principal;
///
/// let known = Principal::new("user_7");
/// assert_eq!(known.id(), Some("user_7"));
/// assert_eq!(Principal::anonymous().id(), None);
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Principal(Option<Arc<str>>);

impl Principal {
    /// A caller with a stable identity.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self(Some(id.into()))
    }

    /// A caller that is known to be nobody. A keyed request of it is refused with 403
    /// `caller-missing` where the scope needs a caller.
    pub fn anonymous() -> Self {
        Self(None)
    }

    /// The identity, unless the caller is anonymous.
    pub fn id(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() {
            "Principal(…)"
        } else {
            "Principal(anonymous)"
        })
    }
}

/// What a resolver found. The example of [`IntoCaller`] shows what becomes of what it returns.
#[derive(Debug)]
pub enum Resolution {
    /// The caller's identity.
    Known(String),
    /// The caller is known to be nobody.
    Anonymous,
    /// Nobody put a caller there: a layer is missing.
    Absent,
    /// The resolver failed.
    Failed(Box<dyn Error + Send + Sync>),
}

/// What a scope resolver may return.
///
/// * `Option<String>`: `None` means that nobody put a caller there, a mistake of the application.
/// * `Result<Option<String>, E>`: `Ok(None)` is a caller known to be anonymous, `Err` an internal
///   failure, which is logged and never shown.
///
/// # Examples
/// ```
/// use idem_core::{IntoCaller, Resolution};
///
/// assert!(matches!(Some("user_7".to_owned()).into_caller(), Resolution::Known(_)));
/// assert!(matches!(None::<String>.into_caller(), Resolution::Absent));
/// let anonymous: Result<Option<String>, std::io::Error> = Ok(None);
/// assert!(matches!(anonymous.into_caller(), Resolution::Anonymous));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not name a caller",
    label = "return `Option<String>` or `Result<Option<String>, E>` from the resolver"
)]
pub trait IntoCaller {
    /// Says who the caller is.
    fn into_caller(self) -> Resolution;
}

impl IntoCaller for Option<String> {
    fn into_caller(self) -> Resolution {
        self.map_or(Resolution::Absent, known)
    }
}

impl<E> IntoCaller for Result<Option<String>, E>
where
    E: Into<Box<dyn Error + Send + Sync>>,
{
    fn into_caller(self) -> Resolution {
        match self {
            Ok(Some(id)) => known(id),
            Ok(None) => Resolution::Anonymous,
            Err(error) => Resolution::Failed(error.into()),
        }
    }
}

impl IntoCaller for Option<Principal> {
    fn into_caller(self) -> Resolution {
        match &self {
            None => Resolution::Absent,
            Some(principal) => principal
                .id()
                .map_or(Resolution::Anonymous, |id| known(id.to_owned())),
        }
    }
}

/// An empty identity is nobody: it would put all who have none into one bucket.
fn known(id: String) -> Resolution {
    if id.is_empty() {
        Resolution::Anonymous
    } else {
        Resolution::Known(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_identity_is_nobody() {
        assert!(matches!(
            Some(String::new()).into_caller(),
            Resolution::Anonymous
        ));
        assert!(matches!(
            Some(Principal::new("")).into_caller(),
            Resolution::Anonymous
        ));
    }

    #[test]
    fn a_failed_resolver_keeps_its_cause() {
        let failed = Err::<Option<String>, _>("directory is down").into_caller();
        assert!(
            matches!(failed, Resolution::Failed(cause) if cause.to_string() == "directory is down")
        );
    }

    /// An audit joins rows by it: a change would tear the records of one caller apart.
    #[test]
    fn the_digest_of_a_caller_matches_its_pinned_vector() {
        let hex = |caller: Caller| {
            let digits = caller.digest().map(|byte| format!("{byte:02x}"));
            digits.concat()
        };
        assert_eq!(
            hex(Caller::User("user_7".into())),
            "a0704320ef791bfbe0c0772f2aa9fdb0634299153c5f721f950a02e5d3990190"
        );
        assert_eq!(
            hex(Caller::Endpoint),
            "90b690795f2f54f46f775d147c91a23596749972d1dc60c35a03affab05fc364"
        );
    }

    #[test]
    fn a_caller_in_clear_names_its_parts() {
        let parts = vec![
            ("tenant".into(), "acme".into()),
            ("user".into(), "7".into()),
        ];
        let named = Caller::Named(parts).to_clear();
        assert_eq!(named.as_deref(), Some("tenant=acme,user=7"));
        assert_eq!(Caller::User("7".into()).to_clear().as_deref(), Some("7"));
        assert_eq!(Caller::Endpoint.to_clear(), None);
    }

    #[test]
    fn debug_never_shows_an_identity() {
        let shown = format!(
            "{:?} {:?} {:?}",
            Caller::User("ada".into()),
            Caller::Named(vec![("tenant".into(), "ada".into())]),
            Principal::new("ada"),
        );
        assert!(!shown.contains("ada"), "{shown}");
    }
}
