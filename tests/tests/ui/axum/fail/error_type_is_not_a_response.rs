use axum::Json;
use idem_axum::idempotent;

struct AppError;

#[idempotent]
async fn create() -> Result<Json<u32>, AppError> {
    Err(AppError)
}

fn main() {}
