use idem_actix::idempotent;

#[idempotent]
#[idempotent(scope = "user")]
async fn create() -> &'static str {
    "created"
}

fn main() {}
