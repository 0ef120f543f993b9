use actix_web::web::Json;
use idem_actix::idempotent;

struct AppError;

#[idempotent]
async fn create() -> Result<Json<u32>, AppError> {
    Err(AppError)
}

fn main() {}
