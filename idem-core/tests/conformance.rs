//! The properties of a store, for the stores of this crate.
#![cfg(feature = "conformance")]

mod subjects {
    #[cfg(feature = "memory")]
    pub(crate) mod memory;
}

#[cfg(feature = "memory")]
mod memory {
    use std::{sync::Arc, time::Duration};

    use async_trait::async_trait;
    use bytes::Bytes;
    use idem_core::{
        MemoryStore, StorageKey, Store,
        store::conformance::{self, Subject},
    };

    use crate::subjects::memory::Memory;

    idem_core::conformance!(
        #[tokio::test(start_paused = true)]
        Memory::new(MemoryStore::new())
    );

    /// Where time is paused there is one thread, and calls do not really meet.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn races_on_many_threads_have_one_winner() {
        let subject = Threads(MemoryStore::new());
        for _ in 0..10 {
            conformance::one_of_fifty_claims_of_a_fresh_key_is_acquired(&subject).await;
            conformance::one_of_fifty_claims_of_a_released_key_is_acquired(&subject).await;
            conformance::one_of_fifty_claims_of_a_lapsed_key_is_acquired(&subject).await;
            conformance::one_of_fifty_claims_of_an_expired_key_is_acquired(&subject).await;
            conformance::a_purge_never_drops_what_was_just_claimed(&subject).await;
            conformance::every_waiter_is_told(&subject).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_of_minutes_lasts_as_long_as_it_says() {
        let subject = Memory {
            unit: Duration::from_secs(9),
            ..Memory::new(MemoryStore::new())
        };
        conformance::a_lease_lasts_as_long_as_it_says(&subject).await;
    }

    /// The embedded store on a clock that goes.
    struct Threads(MemoryStore);

    #[async_trait]
    impl Subject for Threads {
        async fn store(&self) -> Arc<dyn Store> {
            Arc::new(self.0.clone())
        }

        fn unit(&self) -> Duration {
            Duration::from_millis(2)
        }

        async fn swap_response(&self, key: &StorageKey, bytes: Bytes) -> Option<Bytes> {
            self.0.swap_response(key, bytes)
        }
    }
}
