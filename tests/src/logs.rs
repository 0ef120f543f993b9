//! Everything that is logged in this process, at every level, and every panic.

use std::{
    io, panic,
    sync::{Mutex, Once, PoisonError},
};

use memchr::{memchr, memmem, memrchr};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    Layer,
    filter::Targets,
    fmt::{self, MakeWriter},
    layer::SubscriberExt,
};

static LINES: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static ONCE: Once = Once::new();

/// Begins to listen. A second call does nothing.
pub fn listen() {
    ONCE.call_once(|| {
        // What the framework's transport says of every byte is not ours to keep quiet about.
        let transport = ["h2", "hyper", "hyper_util", "mio", "reqwest", "tokio_util"];
        let levels = Targets::new()
            .with_default(LevelFilter::TRACE)
            .with_targets(transport.map(|target| (target, LevelFilter::INFO)));
        let lines = fmt::layer().with_ansi(false).with_writer(Sink);
        let subscriber = tracing_subscriber::registry().with(lines.with_filter(levels));
        // Another subscriber would mean that a test set its own: then its lines are not ours.
        let _ = tracing::subscriber::set_global_default(subscriber);
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            let place = panic.location().map(ToString::to_string);
            let message = panic.payload_as_str();
            tracing::error!(target: "panic", place, message);
            print(panic);
        }));
    });
}

/// The lines so far that contain `text`.
pub fn lines_with(text: &str) -> Vec<String> {
    let lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut found = Vec::new();
    let mut at = 0;
    // There is a lot of it, and a line in it is rare.
    while at < lines.len()
        && let Some(hit) = memmem::find(&lines[at..], text.as_bytes())
    {
        let begin = memrchr(b'\n', &lines[..at + hit]).map_or(0, |end| end + 1);
        let end = memchr(b'\n', &lines[at + hit..]).map_or(lines.len(), |end| at + hit + end);
        found.push(String::from_utf8_lossy(&lines[begin..end]).into_owned());
        at = (end + 1).min(lines.len());
    }
    found
}

/// The lines so far that contain `text` and are of level error, panics included.
pub fn errors_with(text: &str) -> Vec<String> {
    let mut errors = lines_with(text);
    errors.retain(|line| line.contains(" ERROR "));
    errors
}

/// The panics so far whose message contains `text`.
pub fn panics_with(text: &str) -> Vec<String> {
    let mut panics = errors_with(text);
    panics.retain(|line| line.contains(" panic: "));
    panics
}

#[derive(Debug, Clone, Copy)]
struct Sink;

impl io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LINES
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Sink {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        Self
    }
}
