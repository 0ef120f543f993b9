use idem_axum::idempotent;

#[idempotent(tll = "24h", scope = user, lease = "0s" required, required)]
async fn create(count: u32, name: &str) -> u32 {
    "created"
}

fn main() {
    let _ = create;
}
