use idem_actix::idempotent;

#[idempotent(crate = "::my_idem")]
async fn create() -> &'static str {
    "created"
}

fn main() {}
