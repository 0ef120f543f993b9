//! What the payment services share, whichever framework serves them: the ledger, the bodies of
//! requests and responses, and the settings.
#![forbid(unsafe_code)]

pub mod ledger;
pub mod settings;
pub mod transfer;
