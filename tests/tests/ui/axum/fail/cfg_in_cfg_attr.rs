use idem_axum::idempotent;

#[idempotent]
async fn create(#[cfg_attr(unix, cfg(test))] _: axum::http::Method, _: String) {}

fn main() {}
