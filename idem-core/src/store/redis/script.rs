//! The scripts, each one atomic step on the server.

use std::sync::LazyLock;

use redis::{Cmd, cmd};

/// A script and the name by which a server knows it.
#[derive(Debug)]
pub(super) struct Script {
    source: &'static str,
    digest: LazyLock<String>,
}

/// The script in a file, behind what all of them share.
macro_rules! script {
    ($flags:literal, $file:literal) => {{
        const SOURCE: &str = concat!($flags, include_str!("record.lua"), include_str!($file));
        Script {
            source: SOURCE,
            digest: LazyLock::new(|| redis::Script::new(SOURCE).get_hash().to_owned()),
        }
    }};
}

/// What is done is to be recorded even by a server that is full.
macro_rules! allow_oom {
    ($file:literal) => {
        script!("#!lua flags=allow-oom\n", $file)
    };
}

pub(super) static CLAIM: Script = script!("", "claim.lua");
pub(super) static COMPLETE: Script = allow_oom!("complete.lua");
pub(super) static RELEASE: Script = allow_oom!("release.lua");
pub(super) static RENEW: Script = allow_oom!("renew.lua");
pub(super) static RESOLVE: Script = allow_oom!("resolve.lua");

/// Lets time pass, for tests.
#[cfg(any(test, feature = "conformance"))]
pub(super) static TURN: Script = script!("", "turn.lua");

/// All of them, to be loaded when a connection is made.
pub(super) static ALL: [&Script; 5] = [&CLAIM, &COMPLETE, &RELEASE, &RENEW, &RESOLVE];

impl Script {
    /// The command that runs it on `key`; its arguments are to be added.
    pub(super) fn on(&self, key: &str) -> Cmd {
        let mut call = cmd("EVALSHA");
        call.arg(self.digest.as_str()).arg(1).arg(key);
        call
    }

    /// The command that makes it known. Unlike one that comes along with `EVAL`, a script that was
    /// loaded is never evicted.
    pub(super) fn load(&self) -> Cmd {
        let mut load = cmd("SCRIPT");
        load.arg("LOAD").arg(self.source);
        load
    }
}
