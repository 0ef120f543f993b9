use axum::Json;
use idem_axum::idempotent;

#[idempotent(scope = user.len())]
async fn create(Json(user): Json<String>) -> String {
    user
}

fn main() {}
