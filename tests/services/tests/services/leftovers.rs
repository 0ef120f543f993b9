//! That nothing is left behind. A test that comes to a bad end is played by this same program, which
//! is run again for one test alone and puts everything into one directory.

use std::{
    collections::HashSet,
    env, fs, future,
    io::{BufRead, BufReader},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use idem_services::{PgBouncer, PoolMode, Postgres, Redis};

use crate::Outcome;

/// How the other test is to end; nothing in a run of all tests.
const END: &str = "IDEM_SERVICES_END";

#[test]
fn nothing_is_left_by_a_test_that_is_killed() -> Outcome {
    let mut other = Other::run("wait")?;
    other.until_started()?;
    let segments = other.segments();
    assert_eq!(segments.len(), 2);
    other.kill_group()?;
    other.ended()?;
    assert!(present(&segments).is_empty());
    Ok(())
}

#[test]
fn nothing_is_left_by_a_test_that_is_killed_while_it_starts() -> Outcome {
    let mut other = Other::run("wait")?;
    let begins = |directory: &PathBuf| directory.join("data").exists();
    eventually("it has begun with Postgres", || {
        other.directories().iter().any(begins)
    });
    other.process.kill()?;
    other.ended()
}

#[test]
fn nothing_is_left_by_a_test_that_panics() -> Outcome {
    let mut other = Other::run("panic")?;
    other.until_started()?;
    other.ended()
}

#[test]
fn nothing_is_left_by_a_test_that_passes() -> Outcome {
    let mut other = Other::run("pass")?;
    other.until_started()?;
    other.ended()
}

#[test]
fn nothing_is_left_by_a_value_that_is_dropped() -> Outcome {
    let runtime = tokio::runtime::Runtime::new()?;
    let redis = runtime.block_on(Redis::start(&[]));
    let (pid, directory) = (redis.pid(), redis.directory().to_owned());
    assert!(directory.join("redis.conf").exists());
    drop(redis);
    assert!(!directory.exists());
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    Ok(())
}

/// The other test: servers in all states, and then the end.
#[tokio::test]
async fn comes_to_its_end() {
    let Ok(end) = env::var(END) else { return };
    Redis::shared().await;
    let paused = Redis::start(&[]).await;
    paused.pause();
    let killed = Redis::start(&[]).await;
    killed.kill();
    let restarted = Redis::start(&[]).await;
    restarted.restart().await;
    match end.as_str() {
        "pass" => eprintln!("started"),
        "panic" => {
            eprintln!("started");
            panic!("{end}")
        }
        _ => {
            let postgres = Postgres::shared().await;
            let _pool = PgBouncer::start(postgres, PoolMode::Session, &[]).await;
            let paused = Postgres::start(&[]).await;
            let _connection = paused.connect().await;
            paused.pause();
            eprintln!("started");
            future::pending::<()>().await;
        }
    }
}

/// A run of [`comes_to_its_end`].
struct Other {
    process: Child,
    directory: PathBuf,
}

impl Other {
    fn run(end: &str) -> std::io::Result<Self> {
        let made = Command::new("mktemp").arg("-d").output()?.stdout;
        let directory = PathBuf::from(String::from_utf8_lossy(&made).trim_end());
        // For those of another user too.
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o1777))?;
        let process = Command::new(env::current_exe()?)
            .args(["--exact", "leftovers::comes_to_its_end", "--nocapture"])
            .env(END, end)
            .env("TMPDIR", &directory)
            .process_group(0)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        Ok(Self { process, directory })
    }

    fn until_started(&mut self) -> Outcome {
        let output = self.process.stderr.take().ok_or("it is piped")?;
        let mut said = Vec::new();
        for line in BufReader::new(output).lines() {
            let line = line?;
            if line == "started" {
                return Ok(());
            }
            said.push(line);
        }
        Err(said.join("\n").into())
    }

    /// Kills it with all that belongs to it, as a runner does with a test that takes too long.
    fn kill_group(&self) -> Outcome {
        let group = format!("-{}", self.process.id());
        let mut kill = Command::new("kill");
        let killed = kill.args(["-s", "KILL", "--", &group]).status()?;
        killed.success().then_some(()).ok_or("no such group".into())
    }

    /// Waits for its end, and then until nothing of it is left.
    fn ended(&mut self) -> Outcome {
        self.process.wait()?;
        eventually("its processes are gone", || self.processes() == 0);
        eventually("its directories are gone", || self.directories().is_empty());
        fs::remove_dir(&self.directory)?;
        Ok(())
    }

    fn directories(&self) -> Vec<PathBuf> {
        let listing = fs::read_dir(&self.directory).into_iter().flatten();
        listing.flatten().map(|entry| entry.path()).collect()
    }

    /// How many processes work in these directories.
    fn processes(&self) -> usize {
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        all.filter_map(|process| fs::read_link(process.path().join("cwd")).ok())
            .filter(|place| place.starts_with(&self.directory))
            .count()
    }

    /// The shared memory of each Postgres, which is not in its directory.
    fn segments(&self) -> HashSet<String> {
        let files = self.directories().into_iter();
        let files = files.map(|directory| directory.join("data/postmaster.pid"));
        let segment = |file: PathBuf| {
            let file = fs::read_to_string(file).ok()?;
            let line = file.lines().nth(6)?;
            line.split_whitespace().next_back().map(ToOwned::to_owned)
        };
        present(&files.filter_map(segment).collect())
    }
}

/// Those of these segments that the kernel has.
fn present(segments: &HashSet<String>) -> HashSet<String> {
    let all = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    all.lines()
        .filter_map(|line| line.split_whitespace().nth(1))
        .filter(|id| segments.contains(*id))
        .map(ToOwned::to_owned)
        .collect()
}

fn eventually(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(20), "never: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}
