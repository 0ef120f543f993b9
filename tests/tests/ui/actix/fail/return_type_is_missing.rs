use idem_actix::idempotent;

#[idempotent]
async fn create() {}

fn main() {}
