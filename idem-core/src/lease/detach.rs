//! A future that goes on without the request that awaited it.
//!
//! On the normal path it is polled where it is and costs nothing. When it is dropped half-way,
//! because the client hung up, the boxed future moves to a task of its own.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

/// Polls `future`; hands it to `rescue` when it is dropped after its first poll and before its end.
///
/// A future that panics while it is polled is not rescued: polling it again would be wrong. A flag
/// around the poll tells that, since a thread that unwinds may drop futures that did not panic.
pub(crate) struct Detach<F, R>
where
    F: Future + Unpin,
    R: FnOnce(Detached<F>),
{
    state: State<F, R>,
}

enum State<F, R> {
    Fresh(F, R),
    Polled(F, R),
    /// While the future is polled, after its end, and after a panic in it.
    Taken,
}

/// A future that lost its request.
pub(crate) struct Detached<F>(pub(crate) F);

impl<F, R> Detach<F, R>
where
    F: Future + Unpin,
    R: FnOnce(Detached<F>),
{
    pub(crate) fn new(future: F, rescue: R) -> Self {
        Self {
            state: State::Fresh(future, rescue),
        }
    }
}

impl<F, R> Future for Detach<F, R>
where
    F: Future + Unpin,
    R: FnOnce(Detached<F>) + Unpin,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        match std::mem::replace(&mut self.state, State::Taken) {
            State::Fresh(mut future, rescue) | State::Polled(mut future, rescue) => {
                let poll = Pin::new(&mut future).poll(context);
                if poll.is_pending() {
                    self.state = State::Polled(future, rescue);
                }
                poll
            }
            State::Taken => panic!("polled after its end"),
        }
    }
}

impl<F, R> Drop for Detach<F, R>
where
    F: Future + Unpin,
    R: FnOnce(Detached<F>),
{
    fn drop(&mut self) {
        if let State::Polled(future, rescue) = std::mem::replace(&mut self.state, State::Taken) {
            rescue(Detached(future));
        }
    }
}

impl<F, R> fmt::Debug for Detach<F, R>
where
    F: Future + Unpin,
    R: FnOnce(Detached<F>),
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.state {
            State::Fresh(..) => "Detach(fresh)",
            State::Polled(..) => "Detach(polled)",
            State::Taken => "Detach(taken)",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::{FutureExt, future::BoxFuture};
    use std::{cell::Cell, future::pending, panic::AssertUnwindSafe};

    fn rescued<T>(future: BoxFuture<'static, T>, polls: usize) -> bool {
        let rescued = Cell::new(false);
        let mut detach = Detach::new(future, |_| rescued.set(true));
        for _ in 0..polls {
            let _ = AssertUnwindSafe((&mut detach).now_or_never()).0;
        }
        drop(detach);
        rescued.get()
    }

    #[test]
    fn a_future_that_never_started_is_dropped() {
        assert!(!rescued(pending::<()>().boxed(), 0));
    }

    #[test]
    fn a_future_that_started_is_rescued() {
        assert!(rescued(pending::<()>().boxed(), 1));
        assert!(rescued(pending::<()>().boxed(), 3));
    }

    #[test]
    fn a_future_that_ended_is_dropped() {
        assert!(!rescued(async {}.boxed(), 1));
    }

    #[test]
    fn a_future_that_panicked_is_not_polled_again() {
        let rescued = Cell::new(false);
        let panics = async { panic!("on purpose") }.boxed();
        let mut detach: Detach<BoxFuture<'static, ()>, _> =
            Detach::new(panics, |_| rescued.set(true));
        let poll = std::panic::catch_unwind(AssertUnwindSafe(|| (&mut detach).now_or_never()));
        assert!(poll.is_err());
        drop(detach);
        assert!(!rescued.get());
    }

    #[test]
    fn a_future_dropped_by_another_panic_is_rescued() {
        let rescued = Cell::new(false);
        let unwound = std::panic::catch_unwind(AssertUnwindSafe(|| {
            let mut detach = Detach::new(pending::<()>().boxed(), |_| rescued.set(true));
            assert!((&mut detach).now_or_never().is_none());
            panic!("on purpose");
        }));
        assert!(unwound.is_err() && rescued.get());
    }
}
