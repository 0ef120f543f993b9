use idem_axum::idempotent;

#[idempotent(key_format = "ulid")]
async fn create() {}

fn main() {}
