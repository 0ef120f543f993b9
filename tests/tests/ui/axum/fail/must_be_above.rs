use idem_axum::idempotent;

mod utoipa {
    pub use axum::debug_handler as path;
}

#[idempotent]
#[utoipa::path]
async fn create() {}

fn main() {}
