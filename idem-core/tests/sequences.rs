//! Random sequences of calls: each store answers as the model does.
#![cfg(all(
    feature = "conformance",
    any(feature = "memory", feature = "postgres", feature = "redis")
))]

mod subjects {
    #[cfg(feature = "memory")]
    pub(crate) mod memory;
    #[cfg(feature = "postgres")]
    pub(crate) mod postgres;
    #[cfg(feature = "redis")]
    pub(crate) mod redis;
}

use std::time::Duration;

use bytes::Bytes;
use idem_core::{
    Record,
    store::{
        Release, Resolve, Takeover,
        conformance::{Operation, Sequence},
    },
};
use proptest::{collection::vec, prelude::*, sample::select};

/// Steps whose times are whole multiples of `unit`: leases and lives end at the very moment at
/// which the next step happens, too.
fn operations(unit: Duration) -> impl Strategy<Value = Vec<Operation>> {
    vec(operation(unit), 1..60)
}

fn operation(unit: Duration) -> impl Strategy<Value = Operation> {
    let attempt = || 0..Sequence::ATTEMPTS;
    let key = || 0..Sequence::KEYS;
    let time = move || (1..=6_u32).prop_map(move |units| unit * units);
    let how = move || {
        prop_oneof![
            Just(Release::Bound),
            Just(Release::Forget),
            Just(Release::Undo),
            time().prop_map(|keep| Release::Unknown { keep }),
        ]
    };
    let decision = move || {
        prop_oneof![
            (record(), time()).prop_map(|(record, ttl)| Resolve::Complete { record, ttl }),
            Just(Resolve::Release),
            Just(Resolve::Forget),
        ]
    };
    prop_oneof![
        4 => time().prop_map(|time| Operation::Pass { time }),
        8 => (attempt(), time(), time(), takeover()).prop_map(|(attempt, lease, ttl, takeover)| {
            Operation::Claim { attempt, lease, ttl, takeover }
        }),
        2 => (vec(attempt(), 0..4), time()).prop_map(|(attempts, lease)| {
            Operation::Renew { attempts, lease }
        }),
        4 => (attempt(), record(), time()).prop_map(|(attempt, record, ttl)| {
            Operation::Complete { attempt, record, ttl }
        }),
        4 => (attempt(), how()).prop_map(|(attempt, how)| Operation::Release { attempt, how }),
        1 => (key(), decision()).prop_map(|(key, how)| Operation::Resolve { key, how }),
        1 => (key(), decision()).prop_map(|(key, how)| Operation::ResolveStale { key, how }),
        1 => (0..4_u32).prop_map(|limit| Operation::Purge { limit }),
    ]
}

fn takeover() -> impl Strategy<Value = Takeover> {
    select(&[Takeover::Allowed, Takeover::Refused][..])
}

fn record() -> impl Strategy<Value = Record> {
    let number = any::<u8>();
    number.prop_map(|number| Record {
        reference: Some(format!("payment_{number}")),
        ..Record::new(200 + u16::from(number), Bytes::from(vec![number]))
    })
}

#[cfg(feature = "memory")]
mod memory {
    use idem_core::{MemoryStore, MemoryStoreOptions, Store};
    use tokio::runtime::{Builder, Runtime};

    use super::*;
    use crate::subjects::memory::Memory;

    const UNIT: Duration = Duration::from_millis(30);

    fn paused() -> Runtime {
        let mut runtime = Builder::new_current_thread();
        let paused = runtime.enable_time().start_paused(true);
        paused.build().expect("a runtime")
    }

    /// Nothing is left once everything has expired.
    async fn runs_empty(store: &MemoryStore) {
        tokio::time::advance(UNIT * 10).await;
        store.purge(u32::MAX).await.expect("the store answers");
        assert_eq!((store.len(), store.bytes()), (0, 0));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn the_memory_store_answers_as_the_model_does(operations in operations(UNIT)) {
            paused().block_on(async {
                let subject = Memory::new(MemoryStore::new());
                let mut sequence = Sequence::start(&subject).await;
                for operation in &operations {
                    sequence.step(operation).await;
                }
                runs_empty(&subject.store).await;
            });
        }

        /// With room for two records of three: a new key is refused where the model says so, what
        /// lives stays, and only a restored record may be one too many.
        #[test]
        fn a_small_memory_store_answers_as_the_model_does(operations in operations(UNIT)) {
            const MAX: usize = 2;
            paused().block_on(async {
                let options = MemoryStoreOptions::default().with_max_records(MAX);
                let subject = Memory::new(MemoryStore::with_options(options));
                let mut sequence = Sequence::start_bounded(&subject, MAX).await;
                let mut most_alive = 0;
                for operation in &operations {
                    sequence.step(operation).await;
                    most_alive = most_alive.max(sequence.live());
                    let held = subject.store.len();
                    prop_assert!(held >= sequence.live() && held <= MAX.max(most_alive));
                }
                runs_empty(&subject.store).await;
                Ok(())
            })?;
        }
    }
}

/// The stores over servers, whose time is moved and never waited for.
#[cfg(any(feature = "postgres", feature = "redis"))]
mod servers {
    use idem_core::store::conformance::Subject;
    use proptest::test_runner::{Config, TestRunner};
    use tokio::runtime::Runtime;

    use super::*;
    #[cfg(feature = "postgres")]
    use crate::subjects::postgres::Postgres;
    #[cfg(feature = "redis")]
    use crate::subjects::redis::Redis;

    /// Much more than a step takes.
    const UNIT: Duration = Duration::from_secs(30);

    #[cfg(feature = "redis")]
    #[test]
    fn the_redis_store_answers_as_the_model_does() {
        let runtime = Runtime::new().expect("a runtime");
        let mut subject = runtime.block_on(Redis::new());
        subject.unit = UNIT;
        compare(&runtime, &subject, 200);
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn the_postgres_store_answers_as_the_model_does() {
        let runtime = Runtime::new().expect("a runtime");
        let mut subject = runtime.block_on(Postgres::new());
        subject.unit = UNIT;
        compare(&runtime, &subject, 60);
    }

    fn compare(runtime: &Runtime, subject: &dyn Subject, cases: u32) {
        let mut runner = TestRunner::new(Config::with_cases(cases));
        let compared = runner.run(&operations(UNIT), |operations| {
            runtime.block_on(async {
                let mut sequence = Sequence::start(subject).await;
                for operation in &operations {
                    sequence.step(operation).await;
                }
            });
            Ok(())
        });
        compared.unwrap_or_else(|error| panic!("{error}"));
    }
}
