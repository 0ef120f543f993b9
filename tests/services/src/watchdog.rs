//! The shell between a test and its server, which ends the server when the test is no more.
//!
//! Invariant: nothing is left behind, however the test ends. Destructors do not run for statics, nor
//! in a process that is killed; but its pipes close, and that is what the shell waits for.

use std::{
    ffi::OsString,
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Mutex, PoisonError},
};

/// A directory, and the command that is run in it.
#[derive(Debug)]
pub(crate) struct Watchdog {
    shell: Child,
    pipes: Mutex<Pipes>,
    directory: PathBuf,
}

#[derive(Debug)]
struct Pipes {
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

/// What the shell is told to do.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Order {
    /// Run the command, after an end to what it runs; answers with the process id.
    Start,
    /// Wait until the command is done; answers with its exit status.
    Wait,
    /// End the command and all that it forked with SIGKILL.
    Kill,
    /// Stop them with SIGSTOP.
    Pause,
    /// Continue them.
    Resume,
}

impl Order {
    fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Wait => "wait",
            Self::Kill => "kill",
            Self::Pause => "pause",
            Self::Resume => "resume",
        }
    }
}

impl Watchdog {
    /// Makes the directory. The command is not run yet; it will be run in there, as this user if
    /// one is named.
    pub(crate) fn new(user: Option<&str>, command: &[OsString]) -> Self {
        let mut shell = match user {
            Some(user) => {
                let mut setpriv = Command::new("setpriv");
                setpriv
                    .arg(format!("--reuid={user}"))
                    .arg(format!("--regid={user}"))
                    .args(["--init-groups", "--", "sh"]);
                setpriv
            }
            None => Command::new("sh"),
        };
        shell
            .args(["-c", include_str!("watchdog.sh"), "watchdog"])
            .args(command)
            // What a developer has set for databases of their own is not for ours.
            .env_clear()
            .envs(["PATH", "TMPDIR"].map(|name| (name, std::env::var_os(name).unwrap_or_default())))
            .env("LC_ALL", "C")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // What is sent to the group of the test, such as Ctrl-C or a time-out, is for the test.
            .process_group(0);
        let mut shell = shell
            .spawn()
            .unwrap_or_else(|error| panic!("a watchdog cannot be started: {error}"));
        let answers = shell.stdout.take().expect("it is piped");
        let mut pipes = Pipes {
            orders: shell.stdin.take(),
            answers: BufReader::new(answers),
        };
        let directory = pipes.answer().into();
        Self {
            shell,
            pipes: Mutex::new(pipes),
            directory,
        }
    }

    /// Where the command is run. Its output is in the file `log`.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Has something done, and waits until it is; a matter of milliseconds, but for
    /// [`Order::Wait`].
    pub(crate) fn order(&self, order: Order) -> String {
        let mut pipes = self.pipes.lock().unwrap_or_else(PoisonError::into_inner);
        let orders = pipes.orders.as_mut().expect("it is taken by `drop` only");
        writeln!(orders, "{}", order.as_str()).expect("the watchdog reads as long as we live");
        pipes.answer()
    }
}

impl Pipes {
    fn answer(&mut self) -> String {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line);
        assert!(read.is_ok() && line.ends_with('\n'), "the watchdog is gone");
        line.truncate(line.len() - 1);
        line
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        let pipes = self.pipes.get_mut();
        pipes.unwrap_or_else(PoisonError::into_inner).orders = None;
        // It ends now; its status says nothing.
        let _ = self.shell.wait();
    }
}
