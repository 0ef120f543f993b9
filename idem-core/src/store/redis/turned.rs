//! For tests: turning the server's time, counting records, spoiling one.
//!
//! Time is not waited for. Each record is moved instead, which is the same as if the server's clock
//! had gone on.

use std::time::Duration;

use bytes::Bytes;
use redis::{Value, cmd, from_redis_value};

use super::{
    RedisStore,
    failure::Failure,
    layout::{Head, millis},
    script,
};
use crate::{error::StoreError, key::StorageKey};

impl RedisStore {
    /// Lets the server's time pass for the records of this prefix.
    #[doc(hidden)]
    pub async fn advance(&self, by: Duration) -> Result<(), StoreError> {
        let work = async {
            let mut lane = self.link.lane().await?;
            for name in self.names().await? {
                let mut call = script::TURN.on(&name);
                call.arg(millis(by));
                lane.run(&script::TURN, &name, &call).await?;
            }
            Ok(())
        };
        Ok(self.link.within(work).await?)
    }

    /// How many records there are.
    #[doc(hidden)]
    pub async fn records(&self) -> Result<usize, StoreError> {
        Ok(self.link.within(self.names()).await?.len())
    }

    /// Puts other bytes in the place of a stored response; gives those that were there.
    #[doc(hidden)]
    pub async fn swap_response(
        &self,
        key: &StorageKey,
        bytes: Bytes,
    ) -> Result<Option<Bytes>, StoreError> {
        let name = self.name(key);
        let work = async {
            let mut lane = self.link.lane().await?;
            let value = match lane.send(&name, cmd("GET").arg(&name)).await? {
                Value::BulkString(value) => Bytes::from(value),
                _ => return Ok(None),
            };
            let response = Head::read(&value)?.response(&value);
            let kept = value.len() - response.len();
            let swapped = [&value[..kept], &bytes].concat();
            let mut set = cmd("SET");
            set.arg(&name).arg(swapped).arg("KEEPTTL");
            lane.send(&name, &set).await?;
            Ok(Some(response))
        };
        Ok(self.link.within(work).await?)
    }

    /// The names of all records, of all primaries.
    async fn names(&self) -> Result<Vec<String>, Failure> {
        let mut keys = cmd("KEYS");
        keys.arg(format!("{}*", self.link.options().prefix));
        let mut lane = self.link.lane().await?;
        let found = lane.connection().ask_primaries(&keys).await?;
        let names = |(_, names)| from_redis_value::<Vec<String>>(names);
        let found = found.into_iter().map(names);
        let found: Vec<_> = found
            .collect::<Result<_, _>>()
            .map_err(|_| Failure::Answer)?;
        Ok(found.concat())
    }
}
