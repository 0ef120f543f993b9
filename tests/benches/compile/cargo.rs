//! Running Cargo, and what that costs.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Instant,
};

use serde_json::Value;

/// What Cargo is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    Check,
    Build,
    Release,
}

impl Step {
    pub(crate) const ALL: [Self; 3] = [Self::Check, Self::Build, Self::Release];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Build => "build",
            Self::Release => "build --release",
        }
    }
}

/// What one run took, in seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) elapsed: f64,
    /// For how long its processes had a processor.
    pub(crate) worked: f64,
}

/// The workspace of the libraries with a target directory.
pub(crate) struct Cargo {
    manifest: PathBuf,
    target: PathBuf,
}

impl Cargo {
    pub(crate) fn new(scratch: &Path, target: &str) -> Self {
        Self {
            manifest: scratch.join("Cargo.toml"),
            target: scratch.join("target").join(target),
        }
    }

    /// Builds a package, with what it needs.
    pub(crate) fn build(&self, step: Step, package: &str) {
        self.built(step, package);
    }

    /// Builds a package of which alone something changed.
    pub(crate) fn measure(&self, step: Step, package: &str) -> Cost {
        let worked = worked_by_children();
        let begin = Instant::now();
        let built = self.built(step, package);
        let cost = Cost {
            elapsed: begin.elapsed().as_secs_f64(),
            worked: worked_by_children() - worked,
        };
        assert_eq!(
            built,
            [package.replace('-', "_")],
            "`cargo {} -p {package}` did not build that package alone; its time says nothing",
            step.name()
        );
        cost
    }

    /// Forgets what was built of a package.
    pub(crate) fn clean(&self, step: Step, package: &str) {
        let profile = match step {
            Step::Check | Step::Build => "dev",
            Step::Release => "release",
        };
        self.run(&["clean", "--profile", profile, "-p", package]);
    }

    /// Builds a package, and names what was not fresh.
    fn built(&self, step: Step, package: &str) -> Vec<String> {
        let mut arguments: Vec<_> = step.name().split(' ').collect();
        // What the compiler says of an error is still for people.
        arguments.extend(["-p", package, "--message-format=json-render-diagnostics"]);
        let output = self.run(&arguments);
        let messages = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
        let messages = messages.map(|message| message.expect("Cargo writes JSON"));
        let built = messages.filter(|message| {
            message["reason"] == "compiler-artifact" && message["fresh"] == false
        });
        let names = built.map(|artifact| artifact["target"]["name"].as_str().map(str::to_owned));
        names.map(|name| name.expect("it has a name")).collect()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let output = Command::new(env!("CARGO"))
            .args(arguments)
            .args(["--quiet", "--offline", "--manifest-path"])
            .arg(&self.manifest)
            .arg("--target-dir")
            .arg(&self.target)
            .env("CARGO_INCREMENTAL", "0")
            // A wrapper may have kept what is to be measured.
            .env("RUSTC_WRAPPER", "")
            .env("RUSTC_WORKSPACE_WRAPPER", "")
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .expect("Cargo runs");
        assert!(
            output.status.success(),
            "`cargo {}` failed in {}:\n{}",
            arguments.join(" "),
            self.manifest.display(),
            String::from_utf8_lossy(&output.stderr)
        );
        output
    }
}

/// For how long the processes that came to their end had a processor, in seconds; zero where the
/// system does not tell.
fn worked_by_children() -> f64 {
    /// How many of its ticks Linux counts in a second, on all but a few old machines.
    const TICKS: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program may have any characters; the state comes behind it.
    let behind = stat.rsplit(')').next().unwrap_or_default();
    let ticks = behind.split_whitespace().skip(13).take(2);
    ticks
        .filter_map(|ticks| ticks.parse::<f64>().ok())
        .sum::<f64>()
        / TICKS
}
