//! How a request asks for a slow handler.

use std::time::Duration;

use serde::{Deserialize, Deserializer, de::Error};

/// The query `?slow=2s`.
#[derive(Debug, Deserialize)]
pub struct Pace {
    #[serde(default, deserialize_with = "duration")]
    slow: Duration,
}

impl Pace {
    /// Waits for so long.
    pub async fn keep(&self) {
        if !self.slow.is_zero() {
            tokio::time::sleep(self.slow).await;
        }
    }
}

fn duration<'de, D: Deserializer<'de>>(text: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(text)?;
    humantime::parse_duration(&text).map_err(D::Error::custom)
}
