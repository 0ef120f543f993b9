//! The properties of a store, for the stores of this crate.
#![cfg(feature = "conformance")]

mod subjects {
    #[cfg(feature = "memory")]
    pub(crate) mod memory;
    #[cfg(feature = "postgres")]
    pub(crate) mod postgres;
    #[cfg(feature = "redis")]
    pub(crate) mod redis;
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

#[cfg(feature = "postgres")]
mod postgres {
    use std::{sync::Arc, time::Duration};

    use async_trait::async_trait;
    use bytes::Bytes;
    use idem_core::{
        StorageKey, Store,
        store::conformance::{self, Subject},
    };

    use crate::subjects::postgres::Postgres;

    idem_core::conformance!(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        Postgres::new().await
    );

    /// Leases of a third of a second and of a second and more, on the server's own clock.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_lease_lasts_as_long_as_it_says_in_real_time() {
        let subject = RealTime(Postgres::new().await);
        conformance::a_lease_lasts_as_long_as_it_says(&subject).await;
    }

    /// A store whose time passes by itself.
    struct RealTime(Postgres);

    #[async_trait]
    impl Subject for RealTime {
        async fn store(&self) -> Arc<dyn Store> {
            self.0.store().await
        }

        fn unit(&self) -> Duration {
            Duration::from_millis(30)
        }

        async fn swap_response(&self, _: &StorageKey, _: Bytes) -> Option<Bytes> {
            None
        }
    }
}

/// By way of a pooler that gives each client a connection of its own.
#[cfg(feature = "postgres")]
mod postgres_through_pgbouncer {
    use idem_services::{PgBouncer, PoolMode};
    use tokio::sync::OnceCell;

    use crate::subjects::postgres::Postgres;

    idem_core::conformance!(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        Postgres::at(&pooler().await.url(), |options| options).await
    );

    async fn pooler() -> &'static PgBouncer {
        static POOLER: OnceCell<PgBouncer> = OnceCell::const_new();
        let start = async || {
            let server = idem_services::Postgres::shared().await;
            let settings = [("default_pool_size", "100")];
            PgBouncer::start(server, PoolMode::Session, &settings).await
        };
        POOLER.get_or_init(start).await
    }
}

#[cfg(feature = "redis")]
mod redis {
    use crate::subjects::redis::Redis;

    idem_core::conformance!(
        #[tokio::test]
        Redis::new().await
    );
}

#[cfg(feature = "redis")]
mod redis_cluster {
    use idem_core::RedisStore;
    use idem_services::Cluster;
    use tokio::sync::OnceCell;

    use crate::subjects::redis::{Redis, options};

    /// Over three primaries.
    async fn subject() -> Redis {
        static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
        let cluster = CLUSTER.get_or_init(|| Cluster::start(&[])).await;
        let urls = cluster.urls();
        let urls = urls.iter().map(String::as_str);
        Redis::over(RedisStore::connect_cluster(urls, options()).await)
    }

    idem_core::conformance!(
        #[tokio::test]
        subject().await
    );
}

#[cfg(feature = "redis")]
mod redis_sentinel {
    use idem_core::{RedisStore, store::conformance};
    use idem_services::Sentinel;

    use crate::subjects::redis::{Redis, options};

    #[tokio::test]
    async fn a_server_that_sentinels_name_is_one_like_any_other() {
        let watched = Sentinel::start(&[]).await;
        let urls = watched.urls();
        let urls = urls.iter().map(String::as_str);
        let service = watched.master_name();
        let subject = Redis::over(RedisStore::connect_sentinel(urls, service, options()).await);
        conformance::a_completed_key_answers_with_its_record(&subject).await;
        conformance::a_lease_lasts_as_long_as_it_says(&subject).await;
        conformance::a_reopened_store_has_the_same_records(&subject).await;
        conformance::renewals_are_answered_in_order(&subject).await;
        conformance::one_of_fifty_claims_of_a_lapsed_key_is_acquired(&subject).await;
    }
}
