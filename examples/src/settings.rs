//! Settings from the environment.

use std::{
    env, error::Error, fmt, net::SocketAddr, path::PathBuf, str::FromStr, sync::Arc, time::Duration,
};

use http::{HeaderValue, Uri};
use idem_core::Store;

use crate::{ledger::Ledger, process::with_causes, store::StoreAddress};

/// What the environment says about a service.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where to listen: `ADDR`, `127.0.0.1:3000` by default.
    pub addr: SocketAddr,
    /// How long a shutdown waits for what runs: `DRAIN`, such as `30s`; 10 seconds by default.
    pub drain: Duration,
    /// How long a claim lives unrenewed: `LEASE`, such as `2s`; 30 seconds by default.
    pub lease: Duration,
    /// Where payments are booked: `LEDGER`, a file that replicas can share; in memory by default.
    pub ledger: Option<PathBuf>,
    /// Where records are kept: `STORE`, such as `redis://127.0.0.1/`; `memory` by default.
    pub store: StoreAddress,
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
            ledger: read("LEDGER", "a path")?,
            store: read("STORE", StoreAddress::KINDS)?.unwrap_or_default(),
            ttl: duration("TTL")?.unwrap_or(Duration::from_hours(24)),
        })
    }

    /// Opens the store.
    ///
    /// # Errors
    /// It cannot be reached, or will not do.
    pub async fn open_store(&self) -> Result<Arc<dyn Store>, Box<dyn Error>> {
        let store = self.store.open().await;
        Ok(store.map_err(|error| format!("`STORE`: {}", with_causes(&error)))?)
    }

    /// Opens the ledger.
    ///
    /// # Errors
    /// That of the file.
    pub fn open_ledger(&self) -> Result<Ledger, Box<dyn Error>> {
        let Some(path) = self.ledger.clone() else {
            return Ok(Ledger::in_memory());
        };
        Ok(Ledger::in_file(path).map_err(|error| format!("`LEDGER`: {error}"))?)
    }
}

/// What the environment says about a client.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// Where payments are made: `URL`, `http://127.0.0.1:3000/v1/payments` by default.
    pub url: String,
    /// Who pays: `Bearer` and `TOKEN`, by default the name `ada`. The token may be refreshed between
    /// two starts; the caller that it stands for stays the same, or a key is another key.
    pub authorization: HeaderValue,
    /// Where operations are remembered: `JOURNAL`, `payments.jsonl` by default.
    pub journal: PathBuf,
    /// How long one attempt may take: `TIMEOUT`, 10 seconds by default.
    pub timeout: Duration,
    /// The first pause, which doubles with each attempt: `PAUSE`, 1 second by default.
    pub pause: Duration,
    /// For how long attempts are begun: `GIVE_UP_AFTER`, 60 seconds by default.
    ///
    /// Longer than the server's lease of 30 seconds: where a server died in the middle of an attempt,
    /// the key is blocked until the lease has lapsed. A client that gave up sooner would never see
    /// how it ended.
    pub give_up_after: Duration,
    /// The age at which an operation is not repeated any more: `REPEAT_WITHIN`, 23 hours by default.
    ///
    /// Shorter than the server keeps its outcome, 24 hours: after that the key is new, and a repeated
    /// request would pay again.
    pub repeat_within: Duration,
}

impl ClientSettings {
    /// Reads the environment.
    ///
    /// # Errors
    /// [`BadSetting`] names the variable and what it takes.
    pub fn from_env() -> Result<Self, BadSetting> {
        let token: Option<String> = read("TOKEN", "text")?;
        Ok(Self {
            url: url()?,
            authorization: authorization(token.as_deref().unwrap_or("ada"))?,
            journal: read("JOURNAL", "a path")?.unwrap_or_else(|| "payments.jsonl".into()),
            timeout: duration("TIMEOUT")?.unwrap_or(Duration::from_secs(10)),
            pause: duration("PAUSE")?.unwrap_or(Duration::from_secs(1)),
            give_up_after: duration("GIVE_UP_AFTER")?.unwrap_or(Duration::from_mins(1)),
            repeat_within: duration("REPEAT_WITHIN")?.unwrap_or(Duration::from_hours(23)),
        })
    }
}

fn url() -> Result<String, BadSetting> {
    let (name, expected) = (
        "URL",
        "an `http` URL such as http://127.0.0.1:3000/v1/payments",
    );
    let Some(url) = read::<Uri>(name, expected)? else {
        return Ok("http://127.0.0.1:3000/v1/payments".to_owned());
    };
    // For `https` the program needs a TLS feature of reqwest.
    if url.scheme_str() == Some("http") {
        Ok(url.to_string())
    } else {
        Err(BadSetting { name, expected })
    }
}

fn authorization(token: &str) -> Result<HeaderValue, BadSetting> {
    let value = HeaderValue::try_from(format!("Bearer {token}"));
    let mut value = value.map_err(|_| BadSetting {
        name: "TOKEN",
        expected: "visible ASCII",
    })?;
    value.set_sensitive(true);
    Ok(value)
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

impl Error for BadSetting {}
