use idem_axum::idempotent;

#[idempotent]
async fn create(body: String) -> String {
    let count: u32 = body;
    format!("{count}")
}

fn main() {}
