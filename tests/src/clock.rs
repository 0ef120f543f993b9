//! A clock that the test turns, for a store that runs under a real server.
//!
//! The store is made in a runtime of its own whose time is paused, and reads that runtime's time
//! ever after; the server and its client go by the real one.

use std::{
    sync::mpsc,
    thread::{self, JoinHandle},
    time::Duration,
};

/// A paused clock on a thread of its own.
#[derive(Debug)]
pub struct Clock {
    turns: Option<mpsc::Sender<(Duration, mpsc::Sender<()>)>>,
    thread: Option<JoinHandle<()>>,
}

impl Clock {
    /// Makes something under a paused clock.
    ///
    /// # Panics
    /// If there is no thread to be had.
    pub fn with<T: Send + 'static>(make: impl FnOnce() -> T + Send + 'static) -> (Self, T) {
        let (turns, turned) = mpsc::channel::<(Duration, mpsc::Sender<()>)>();
        let (sender, made) = mpsc::channel();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build()
                .expect("a runtime without I/O");
            runtime.block_on(async {
                let _ = sender.send(make());
                // Blocking keeps the runtime from being idle, which would turn its clock by itself.
                while let Ok((by, done)) = turned.recv() {
                    tokio::time::advance(by).await;
                    let _ = done.send(());
                }
            });
        });
        let value = made.recv().expect("the clock's thread has begun");
        (
            Self {
                turns: Some(turns),
                thread: Some(thread),
            },
            value,
        )
    }

    /// Turns the clock on.
    ///
    /// # Panics
    /// If the clock's thread is gone.
    pub fn advance(&self, by: Duration) {
        let (done, turned) = mpsc::channel();
        let turns = self.turns.as_ref().expect("there until it is dropped");
        turns
            .send((by, done))
            .expect("the clock's thread waits for this");
        turned.recv().expect("the clock's thread answers");
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        self.turns = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
