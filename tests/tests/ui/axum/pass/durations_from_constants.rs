use std::time::Duration;

use idem_axum::idempotent;

const TTL: Duration = Duration::from_secs(60);

mod limits {
    pub struct Limits;

    impl Limits {
        pub const LEASE: super::Duration = super::Duration::from_secs(3);
    }
}

#[idempotent(ttl = TTL, lease = limits::Limits::LEASE, wait = Duration::from_millis(1 + 2))]
async fn create() {}

#[idempotent(ttl = if cfg!(test) { TTL } else { TTL.saturating_mul(2) })]
async fn update() {}

fn main() {
    let _ = (create, update);
}
