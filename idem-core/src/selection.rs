//! What the typed expressions of the attribute selected.
//!
//! Today there are none: scope, key and fingerprint come from the policy, the header and the raw
//! request. Typed `scope`, `key` and `fingerprint` become methods of this type, so that the shape
//! of the generated code stays as it is.

/// The values that the attribute's typed expressions gave for one request; none today.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Selection {}

impl Selection {
    /// A selection of nothing.
    pub fn new() -> Self {
        Self::default()
    }
}
