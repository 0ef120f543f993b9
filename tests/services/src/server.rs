//! What all servers have in common: a program, a port, a directory, a process.

use std::{
    error::Error,
    ffi::OsString,
    fs,
    net::SocketAddr,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    port::Port,
    watchdog::{Order, Watchdog},
};

/// How long a server may take to become ready.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The time between two looks whether something has come to be.
pub(crate) const INTERVAL: Duration = Duration::from_millis(20);

/// Why a server is not ready yet.
pub(crate) type NotReady = Box<dyn Error + Send + Sync>;

/// A server, running or not: what can be done to any of them.
#[derive(Debug)]
pub struct Server {
    name: &'static str,
    port: Port,
    pid: AtomicU32,
    watchdog: Watchdog,
}

impl Server {
    /// Makes a server that does not run yet.
    pub(crate) fn new(name: &'static str, user: Option<&str>, command: &[OsString]) -> Self {
        Self {
            name,
            port: Port::free(),
            pid: AtomicU32::new(0),
            watchdog: Watchdog::new(user, command),
        }
    }

    /// Its address.
    pub fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Its first process; another one after each restart.
    pub fn pid(&self) -> u32 {
        self.pid.load(Ordering::Relaxed)
    }

    /// Where its files are, and what it says, in the file `log`.
    pub fn directory(&self) -> &Path {
        self.watchdog.directory()
    }

    /// Stops all of its processes with SIGSTOP: it accepts connections, since the kernel does that,
    /// and answers nothing.
    pub fn pause(&self) {
        self.watchdog.order(Order::Pause);
    }

    /// Lets them go on.
    pub fn resume(&self) {
        self.watchdog.order(Order::Resume);
    }

    /// Ends all of its processes with SIGKILL, as a crash does, and waits until they are gone.
    /// Connections are refused then.
    pub fn kill(&self) {
        self.watchdog.order(Order::Kill);
    }

    /// Writes a file into the directory, for the user that the server runs as.
    pub(crate) fn write(&self, name: &str, content: &str) {
        let path = self.directory().join(name);
        fs::write(&path, content).expect("the directory is ours");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("the file is ours");
    }

    /// Runs the server; ends it first if it runs already.
    pub(crate) fn run(&self) {
        let pid = self.watchdog.order(Order::Start);
        let pid = pid.parse().expect("a process id");
        self.pid.store(pid, Ordering::Relaxed);
    }

    /// Waits until the process has ended of itself, and says whether it was content.
    pub(crate) async fn finished(&self) -> bool {
        while !has_ended(self.pid()) {
            tokio::time::sleep(INTERVAL).await;
        }
        self.watchdog.order(Order::Wait) == "0"
    }

    /// Waits until the probe finds the server as it should be.
    ///
    /// # Panics
    /// With the end of the log, if the server ends before or does not become ready in time.
    pub(crate) async fn until<Ready>(&self, probe: impl Fn() -> Ready)
    where
        Ready: Future<Output = Result<(), NotReady>>,
    {
        let deadline = Instant::now() + PATIENCE;
        loop {
            // Before the probe, which nobody else answers, since the port is ours alone.
            let ended = has_ended(self.pid());
            let reason = match tokio::time::timeout_at(deadline, probe()).await {
                Ok(Ok(())) => return,
                Ok(Err(error)) => error.to_string(),
                Err(_) => "it does not answer".to_owned(),
            };
            if ended || Instant::now() >= deadline {
                let how = if ended { "has ended" } else { "is not ready" };
                panic!("{} {how}: {reason}\n{}", self.name, self.last_words());
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// The end of the log.
    pub(crate) fn last_words(&self) -> String {
        let log = fs::read(self.directory().join("log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

/// Whether a process has ended; it may still wait for its parent to notice.
fn has_ended(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name of the program comes before, in brackets, and may have any characters.
    let state = stat.rsplit(')').next().unwrap_or_default().trim_start();
    state.is_empty() || state.starts_with('Z')
}

/// Finds an installed program, in the search path or in one of these directories.
///
/// # Panics
/// With what to install, if there is none.
pub(crate) fn program(name: &str, elsewhere: &[PathBuf], package: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .chain(elsewhere.iter().cloned())
        .map(|directory| directory.join(name))
        .find(|program| program.is_file());
    found.unwrap_or_else(|| {
        panic!("`{name}` is not installed; it is in the Debian package `{package}`")
    })
}

/// The user for servers that refuse to run as root: none if we are not root ourselves.
pub(crate) fn unprivileged() -> Option<&'static str> {
    let us = fs::metadata("/proc/self").expect("Linux has it");
    (us.uid() == 0).then_some("postgres")
}
