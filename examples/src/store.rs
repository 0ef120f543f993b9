//! The store that the environment chooses.

use std::{fmt, str::FromStr, sync::Arc};

use idem_core::{
    ConnectError, MemoryStore, PostgresStore, PostgresStoreOptions, RedisStore, Store,
};

/// Where a service keeps its records. `Debug` shows no credentials.
#[derive(Clone, PartialEq, Eq, Default)]
pub enum StoreAddress {
    /// In this process: `memory`.
    #[default]
    Memory,
    /// In Redis: `redis://127.0.0.1/`; `rediss://…` if the program is built with
    /// `--features idem-core/redis-tls`.
    Redis(String),
    /// In Postgres: `postgres://app@127.0.0.1/app`.
    Postgres(String),
}

impl StoreAddress {
    /// What an address can be.
    pub const KINDS: &str = "`memory`, `redis://…` or `postgres://…`";

    /// Opens the store; one in Postgres makes its table, if there is none.
    ///
    /// # Errors
    /// [`ConnectError`] if it cannot be reached, or will not do.
    pub async fn open(&self) -> Result<Arc<dyn Store>, ConnectError> {
        Ok(match self {
            Self::Memory => Arc::new(MemoryStore::new()),
            Self::Redis(url) => Arc::new(RedisStore::connect(url).await?),
            Self::Postgres(url) => {
                let options = PostgresStoreOptions::default().with_migration();
                Arc::new(PostgresStore::connect_with(url, options).await?)
            }
        })
    }
}

impl FromStr for StoreAddress {
    type Err = UnknownStore;

    fn from_str(address: &str) -> Result<Self, UnknownStore> {
        let scheme = address.split_once("://").map(|(scheme, _)| scheme);
        match scheme {
            None if address == "memory" => Ok(Self::Memory),
            Some("redis" | "rediss") => Ok(Self::Redis(address.to_owned())),
            Some("postgres" | "postgresql") => Ok(Self::Postgres(address.to_owned())),
            _ => Err(UnknownStore),
        }
    }
}

impl fmt::Debug for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "Memory",
            Self::Redis(_) => "Redis(…)",
            Self::Postgres(_) => "Postgres(…)",
        })
    }
}

/// An address that belongs to no store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownStore;

impl fmt::Display for UnknownStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a store must be {}", StoreAddress::KINDS)
    }
}

impl std::error::Error for UnknownStore {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_chooses_the_store() {
        let redis = "redis://:secret@127.0.0.1/1";
        let with_tls = "rediss://127.0.0.1/";
        let postgres = "postgres://app:secret@127.0.0.1/app";
        assert_eq!("memory".parse(), Ok(StoreAddress::Memory));
        assert_eq!(redis.parse(), Ok(StoreAddress::Redis(redis.into())));
        assert_eq!(with_tls.parse(), Ok(StoreAddress::Redis(with_tls.into())));
        assert_eq!(
            postgres.parse(),
            Ok(StoreAddress::Postgres(postgres.into()))
        );
        for bad in ["", "redis", "mysql://127.0.0.1/", "Memory"] {
            assert_eq!(bad.parse::<StoreAddress>(), Err(UnknownStore), "{bad}");
        }
    }

    #[test]
    fn credentials_are_not_shown() {
        for address in ["redis://:secret@host/", "postgres://app:secret@host/app"] {
            let address: StoreAddress = address.parse().expect("an address");
            let shown = format!("{address:?}");
            assert!(!shown.contains("secret"), "{shown}");
        }
    }
}
