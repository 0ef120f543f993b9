//! The clock of a memory store.
//!
//! Tokio's clock belongs to a runtime. A store reads the one of the runtime that it was made in,
//! wherever it is called from, so that a test which pauses that runtime has paused the store.

use std::time::{Duration, SystemTime};

use tokio::{runtime::Handle, time::Instant};

/// Longer than any lease or `ttl` that somebody means, and short enough to be added to any instant.
const LONGEST: Duration = Duration::from_hours(100 * 365 * 24);

/// Where the time comes from.
pub(super) struct Clock {
    /// `None` if the store was made outside of a runtime: then the caller's is as good as any.
    runtime: Option<Handle>,
    started: Instant,
    /// The time of day at `started`, for fences that grow from one process to the next.
    epoch: Duration,
}

impl Clock {
    /// The clock of the runtime that this is called in.
    pub(super) fn of_this_runtime() -> Self {
        Self {
            runtime: Handle::try_current().ok(),
            started: Instant::now(),
            epoch: SystemTime::now()
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap_or_default(),
        }
    }

    /// Reads the clock.
    pub(super) fn now(&self) -> Moment {
        let _inside = self.runtime.as_ref().map(Handle::enter);
        let instant = Instant::now();
        Moment {
            instant,
            since_epoch: self.epoch + instant.duration_since(self.started),
        }
    }
}

/// One reading of the clock.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    /// What leases and expiries are compared with.
    pub(super) instant: Instant,
    since_epoch: Duration,
}

impl Moment {
    /// The instant that is so much later, or about a century later if that is sooner.
    pub(super) fn after(self, duration: Duration) -> Instant {
        self.instant + duration.min(LONGEST)
    }

    /// How long it is until `later`; zero if that is over.
    pub(super) fn until(self, later: Instant) -> Duration {
        later.saturating_duration_since(self.instant)
    }

    /// Microseconds since the Unix epoch. They do not go backwards while the store exists.
    pub(super) fn micros(self) -> u64 {
        u64::try_from(self.since_epoch.as_micros()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::runtime::{Builder, Runtime};

    fn paused() -> Runtime {
        Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime")
    }

    #[test]
    fn the_clock_is_the_one_of_the_runtime_it_was_made_in() {
        let (home, elsewhere) = (paused(), paused());
        let clock = home.block_on(async { Clock::of_this_runtime() });
        let read_elsewhere = || elsewhere.block_on(async { clock.now().instant });

        let before = read_elsewhere();
        assert_eq!(read_elsewhere(), before);
        home.block_on(tokio::time::advance(Duration::from_secs(7)));
        assert_eq!(read_elsewhere() - before, Duration::from_secs(7));
        elsewhere.block_on(tokio::time::advance(Duration::from_mins(1)));
        assert_eq!(clock.now().instant - before, Duration::from_secs(7));
    }

    #[test]
    fn a_clock_without_a_runtime_goes() {
        let clock = Clock::of_this_runtime();
        let before = clock.now();
        assert!(clock.now().micros() >= before.micros());
        assert!(clock.now().instant >= before.instant);
    }

    #[test]
    fn a_clock_outlives_its_runtime() {
        let home = Builder::new_multi_thread().build().expect("a runtime");
        let clock = home.block_on(async { Clock::of_this_runtime() });
        let before = clock.now();
        home.shutdown_background();
        assert!(clock.now().instant >= before.instant);
    }

    #[test]
    fn no_duration_is_too_long() {
        let now = Clock::of_this_runtime().now();
        assert!(now.after(Duration::MAX) > now.after(LONGEST / 2));
    }
}
