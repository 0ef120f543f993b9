use idem_actix::idempotent;

struct Payment;

#[idempotent]
async fn create() -> Option<Payment> {
    None
}

fn main() {}
