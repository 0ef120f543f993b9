use idem_axum::idempotent;

#[idempotent(scope = "user")]
async fn create(body: String) -> String {
    body.
}

fn main() {
    let _ = create;
}
