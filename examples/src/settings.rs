//! Settings from the environment.

use std::{env, fmt, net::SocketAddr, str::FromStr, time::Duration};

/// What the environment says about a service.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where to listen: `ADDR`, `127.0.0.1:3000` by default.
    pub addr: SocketAddr,
    /// How long a shutdown waits for what runs: `DRAIN`, such as `30s`; 10 seconds by default.
    pub drain: Duration,
    /// How long a claim lives unrenewed: `LEASE`, such as `2s`; 30 seconds by default.
    pub lease: Duration,
    /// How long an outcome is kept: `TTL`, such as `15m`; 24 hours by default.
    pub ttl: Duration,
}

impl Settings {
    /// Reads the environment.
    ///
    /// # Errors
    /// [`BadSetting`] names the variable and what it takes.
    pub fn from_env() -> Result<Self, BadSetting> {
        Ok(Self {
            addr: read("ADDR", "an address such as 127.0.0.1:3000")?
                .unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 3000))),
            drain: duration("DRAIN")?.unwrap_or(Duration::from_secs(10)),
            lease: duration("LEASE")?.unwrap_or(Duration::from_secs(30)),
            ttl: duration("TTL")?.unwrap_or(Duration::from_hours(24)),
        })
    }
}

fn duration(name: &'static str) -> Result<Option<Duration>, BadSetting> {
    let duration: Option<humantime::Duration> = read(name, "a duration such as 2s, 15m or 24h")?;
    Ok(duration.map(Into::into))
}

fn read<T: FromStr>(name: &'static str, expected: &'static str) -> Result<Option<T>, BadSetting> {
    match env::var(name) {
        Err(env::VarError::NotPresent) => Ok(None),
        Err(env::VarError::NotUnicode(_)) => Err(BadSetting { name, expected }),
        Ok(value) => value
            .parse()
            .map(Some)
            .map_err(|_| BadSetting { name, expected }),
    }
}

/// A variable of the environment has a value that it cannot have.
pub struct BadSetting {
    name: &'static str,
    expected: &'static str,
}

impl fmt::Display for BadSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` must be {}", self.name, self.expected)
    }
}

/// The same: it is what a `main` function prints of an error.
impl fmt::Debug for BadSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for BadSetting {}
