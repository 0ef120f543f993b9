//! What support staff do: look a key up, and decide about it.
//!
//! The key is derived here and in `begin` by the same function, so that whoever knows caller, operation
//! and key finds the record, and nobody needs to know how it is called in the store.

use super::Engine;
use crate::{
    error::StoreError,
    key::{IdempotencyKey, StorageKey},
    scope::Caller,
    store::{Fence, Resolve, Resolved, Summary, ask},
};

impl Engine {
    /// Says what is known of a key: its state, attempts, fence, times, status and reference; `None` if
    /// there is no record, or none any more.
    ///
    /// `operation` is what the attribute says, or method and route template: `POST /v1/payments`.
    ///
    /// # Errors
    /// [`StoreError`] if the store does not answer within the engine's limit.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn lookup(
        &self,
        caller: &Caller,
        operation: &str,
        key: &IdempotencyKey,
    ) -> Result<Option<Summary>, StoreError> {
        let id = self.storage_key(caller, operation, key);
        let inspected = self.0.store.inspect(&id);
        ask(self.0.settings.store_timeout, inspected).await
    }

    /// Carries out a decision about the record whose fence, as [`lookup`](Self::lookup) told it, is
    /// still `seen`. An owner that still runs is replaced; see [`Store::resolve`] for what becomes of
    /// its answer.
    ///
    /// [`Store::resolve`]: crate::Store::resolve
    ///
    /// # Errors
    /// [`StoreError`] if the store does not answer within the engine's limit: the decision may be
    /// carried out or not, and a look-up tells.
    ///
    /// # Cancel safety
    /// Not cancel safe: a dropped decision may be carried out.
    pub async fn resolve(
        &self,
        caller: &Caller,
        operation: &str,
        key: &IdempotencyKey,
        seen: Fence,
        how: Resolve,
    ) -> Result<Resolved, StoreError> {
        let id = self.storage_key(caller, operation, key);
        let decision = match &how {
            Resolve::Complete { .. } => "complete",
            Resolve::Release => "release",
            Resolve::Forget => "forget",
        };
        let resolved = self.0.store.resolve(&id, seen, how);
        let resolved = ask(self.0.settings.store_timeout, resolved).await;
        // What a person changed by hand is in the log, whatever came of it.
        match &resolved {
            Ok(resolved) => {
                tracing::info!(operation, record = %id, fence = %seen, decision, ?resolved, "key resolved by hand");
            }
            Err(error) => {
                tracing::error!(operation, record = %id, fence = %seen, decision, %error, "key not resolved by hand");
            }
        }
        resolved
    }

    pub(super) fn storage_key(
        &self,
        caller: &Caller,
        operation: &str,
        key: &IdempotencyKey,
    ) -> StorageKey {
        StorageKey::derive(&self.0.settings.namespace, caller, operation, key)
    }
}
