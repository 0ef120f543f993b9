use std::time::Duration;

use idem_axum::idempotent;

mod limits {
    pub const TTL: super::Duration = super::Duration::ZERO;
}

#[idempotent(ttl = limits::TTL)]
async fn create() {}

fn main() {}
