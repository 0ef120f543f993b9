use idem_axum::idempotent;

struct Payment;

#[idempotent]
async fn create() -> Option<Payment> {
    None
}

fn main() {}
