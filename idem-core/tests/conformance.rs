//! The properties of a store, for the stores of this crate.
#![cfg(feature = "conformance")]

mod subjects {
    #[cfg(feature = "memory")]
    pub(crate) mod memory;
}

#[cfg(feature = "memory")]
mod memory {
    use std::time::Duration;

    use idem_core::{MemoryStore, store::conformance};

    use crate::subjects::memory::Memory;

    idem_core::conformance!(
        #[tokio::test(start_paused = true)]
        Memory::new(MemoryStore::new())
    );

    #[tokio::test(start_paused = true)]
    async fn a_lease_of_minutes_lasts_as_long_as_it_says() {
        let subject = Memory {
            unit: Duration::from_secs(9),
            ..Memory::new(MemoryStore::new())
        };
        conformance::a_lease_lasts_as_long_as_it_says(&subject).await;
    }
}
